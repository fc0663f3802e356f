//! Destinations and sockets against a naive decision.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::random::Random;
use super::{KEY, compiled, profile, rule};
use crate::abi::{Point, VERDICT_AUDIT, VERDICT_DENY};
use crate::compile::bpf::network;
use crate::compile::bpf::sites::Sites;
use crate::compile::bpf::{Artefact, CompileError, compile};
use crate::matcher::Walk;
use crate::profile::{
    Defaults, EgressRule, IngressRule, Kinds, Object, PortRange, Profile, Rule, SocketRule, Verdict,
};

fn egress(network: Option<&str>, ports: &[(u16, u16)]) -> Rule {
    let network = network.map(|text| text.parse().expect("a network"));
    let ports = ports
        .iter()
        .map(|&(first, last)| PortRange { first, last })
        .collect();
    rule(
        "egress",
        Verdict::Deny,
        Object::Egress(EgressRule { network, ports }),
    )
}

#[track_caller]
fn decides(profile: &Profile, cases: &[(&str, u16, bool)]) {
    let artefact = compiled(profile);
    let walk = Walk::new(&artefact, KEY);
    for (address, port, denied) in cases {
        let point = walk.egress(address.parse().expect("an address"), *port);
        assert_eq!(
            point.verdict & VERDICT_DENY != 0,
            *denied,
            "{address} port {port}"
        );
        assert_eq!(point.site != 0, *denied, "{address} port {port}: site");
    }
}

#[test]
fn metadata_address_is_denied_also_as_a_mapped_one() {
    let cases = [
        ("169.254.169.254", 80, true),
        ("::ffff:169.254.169.254", 80, true),
        ("169.254.169.253", 80, false),
        ("::169.254.169.254", 80, false),
    ];
    decides(&profile(vec![egress(Some("169.254.169.254/32"), &[])]), &cases);
    decides(
        &profile(vec![egress(Some("::ffff:169.254.169.254/128"), &[])]),
        &cases,
    );
}

#[test]
fn every_ipv6_address_is_not_every_ipv4_address() {
    let v6 = profile(vec![egress(Some("::/0"), &[])]);
    decides(
        &v6,
        &[
            ("::1", 1, true),
            ("fe80::1", 1, true),
            ("ffff::", 1, true),
            ("127.0.0.1", 1, false),
        ],
    );
    let v4 = profile(vec![egress(Some("0.0.0.0/0"), &[])]);
    decides(
        &v4,
        &[
            ("::1", 1, false),
            ("127.0.0.1", 1, true),
            ("::ffff:1.2.3.4", 1, true),
        ],
    );
    let both = profile(vec![egress(None, &[(443, 443)])]);
    decides(
        &both,
        &[
            ("::1", 443, true),
            ("127.0.0.1", 443, true),
            ("127.0.0.1", 444, false),
        ],
    );
}

#[test]
fn port_ranges_end_where_they_say() {
    let rules = profile(vec![egress(
        Some("10.0.0.0/8"),
        &[(1, 1023), (8080, 8080), (65_000, 65_535)],
    )]);
    for (port, denied) in [
        (0, false),
        (1, true),
        (1023, true),
        (1024, false),
        (8079, false),
        (8080, true),
        (8081, false),
    ]
    .into_iter()
    .chain([(64_999, false), (65_000, true), (65_535, true)])
    {
        decides(&rules, &[("10.1.2.3", port, denied), ("11.1.2.3", port, false)]);
    }
}

#[test]
fn backward_port_range_names_the_rule() {
    let error = compile(&profile(vec![egress(None, &[(90, 80)])]), KEY).expect_err("backwards");
    assert!(
        matches!(
            error,
            CompileError::PortRange {
                first: 90,
                last: 80,
                ..
            }
        ),
        "{error}"
    );
}

fn address(random: &mut Random) -> IpAddr {
    // Few leading and trailing bits vary, so that networks and addresses meet.
    let spread = |random: &mut Random| random.below(4) << 62 | random.below(4);
    if random.chance(2) {
        let bits = (random.below(2) << 31) | (random.below(2) << 24) | random.below(8);
        return IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(bits).expect("32 bits")));
    }
    if random.chance(4) {
        return IpAddr::V6(
            Ipv4Addr::from_bits(u32::try_from(random.below(8)).expect("small")).to_ipv6_mapped(),
        );
    }
    let bits = (u128::from(spread(random)) << 64) | u128::from(spread(random));
    IpAddr::V6(Ipv6Addr::from_bits(bits))
}

fn network(random: &mut Random) -> Option<IpNet> {
    const V4: &[u8] = &[0, 1, 8, 24, 29, 30, 31, 32];
    const V6: &[u8] = &[0, 1, 2, 64, 65, 96, 97, 120, 126, 127, 128];
    match address(random) {
        _ if random.chance(12) => None,
        IpAddr::V4(v4) => Some(IpNet::V4(Ipv4Net::new(v4, *random.pick(V4)).expect("a length"))),
        IpAddr::V6(v6) => Some(IpNet::V6(Ipv6Net::new(v6, *random.pick(V6)).expect("a length"))),
    }
}

fn port(random: &mut Random) -> u16 {
    let near = *random.pick(&[0, 1, 80, 443, 1024, 8080, 65_535]);
    u16::try_from((near + random.below(4)).min(65_535)).expect("a port")
}

/// By the addresses as users see them: a mapped address is an IPv4 address.
fn contains(network: Option<&IpNet>, address: IpAddr) -> bool {
    let v4 = address.to_canonical();
    match (network, v4) {
        (None, _) => true,
        (Some(IpNet::V4(net)), IpAddr::V4(v4)) => net.contains(&v4),
        (Some(IpNet::V6(net)), IpAddr::V6(v6)) => net.contains(&v6),
        (Some(IpNet::V4(_)), IpAddr::V6(_)) => false,
        (Some(IpNet::V6(net)), IpAddr::V4(v4)) => {
            net.prefix_len() >= 96 && net.contains(&v4.to_ipv6_mapped())
        }
    }
}

/// The verdict by the rules alone.
fn naive(profile: &Profile, address: IpAddr, port: u16) -> u32 {
    let says = |verdict: Verdict, address: IpAddr| {
        profile.rules.iter().any(|rule| {
            let Object::Egress(egress) = &rule.object else {
                return false;
            };
            let fits = egress.ports.is_empty()
                || egress
                    .ports
                    .iter()
                    .any(|range| (range.first..=range.last).contains(&port));
            rule.verdict == verdict && fits && contains(egress.network.as_ref(), address)
        })
    };
    let reached = reached(address);
    let any = |verdict| reached.iter().any(|&address| says(verdict, address));
    if any(Verdict::Deny) {
        VERDICT_DENY
    } else if any(Verdict::Audit) {
        VERDICT_AUDIT
    } else {
        0
    }
}

/// The address and the loopback addresses that it leads to.
fn reached(address: IpAddr) -> Vec<IpAddr> {
    let (v4, v6) = (
        IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::from(Ipv6Addr::LOCALHOST),
    );
    match address.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => vec![address, v4],
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => vec![address, v4, v6],
        _ => vec![address],
    }
}

fn random_rule(random: &mut Random) -> Rule {
    let verdict = if random.chance(3) {
        Verdict::Audit
    } else {
        Verdict::Deny
    };
    let ranges = if random.chance(20) { 40 } else { random.below(3) };
    let ports = (0..ranges)
        .map(|_| {
            let (one, two) = (port(random), port(random));
            PortRange {
                first: one.min(two),
                last: if random.chance(2) {
                    one.max(two)
                } else {
                    one.min(two)
                },
            }
        })
        .collect();
    let network = network(random);
    rule("egress", verdict, Object::Egress(EgressRule { network, ports }))
}

#[test]
fn destinations_agree_with_the_naive_decision() {
    let mut cases = 0;
    let mut verdicts = [0; 3];
    for seed in 0..1_500 {
        let random = &mut Random::new(seed);
        let count = if random.chance(10) {
            60
        } else {
            1 + random.below(8)
        };
        let profile = profile((0..count).map(|_| random_rule(random)).collect());
        let artefact = compiled(&profile);
        let walk = Walk::new(&artefact, KEY);
        for _ in 0..50 {
            let (address, port) = (address(random), port(random));
            let expected = naive(&profile, address, port);
            let point = walk.egress(address, port);
            assert_eq!(
                point.verdict, expected,
                "seed {seed}: {address} port {port}: {:?}",
                profile.rules
            );
            assert_eq!(point.site != 0, expected != 0, "seed {seed}: {address}: site");
            verdicts[expected as usize] += 1;
            cases += 1;
        }
    }
    eprintln!("destination differential: {cases} cases, {verdicts:?}");
    assert_eq!(cases, 75_000);
    assert!(verdicts.iter().all(|count| *count > 5_000), "{verdicts:?}");
}

#[test]
fn translated_addresses_are_judged_as_what_they_lead_to() {
    decides(
        &profile(vec![egress(Some("169.254.169.254/32"), &[(80, 80)])]),
        &[
            ("64:ff9b::169.254.169.254", 80, true),
            ("64:ff9b::169.254.169.254", 81, false),
            ("64:ff9b:1::169.254.169.254", 80, true),
            ("2002:a9fe:a9fe::1", 80, true),
            ("2002:a9fe:a9fd::1", 80, false),
            ("2001:db8::169.254.169.254", 80, false),
        ],
    );
}

#[test]
fn unspecified_address_is_the_loopback() {
    decides(
        &profile(vec![egress(Some("127.0.0.0/8"), &[(80, 80)])]),
        &[
            ("0.0.0.0", 80, true),
            ("::", 80, true),
            ("::1", 80, false),
            ("0.0.0.0", 81, false),
            ("0.0.0.1", 80, false),
        ],
    );
    decides(
        &profile(vec![egress(Some("::1/128"), &[])]),
        &[("::", 1, true), ("0.0.0.0", 1, false)],
    );
}

fn ingress(verdict: Verdict, network: Option<&str>, ports: &[(u16, u16)]) -> Rule {
    let network = network.map(|text| text.parse().expect("a network"));
    let ports = ports
        .iter()
        .map(|&(first, last)| PortRange { first, last })
        .collect();
    rule(
        "ingress",
        verdict,
        Object::Ingress(IngressRule { network, ports }),
    )
}

#[track_caller]
fn admits(rules: Vec<Rule>, cases: &[(&str, u16, bool)]) {
    let artefact = compiled(&profile(rules));
    let walk = Walk::new(&artefact, KEY);
    for (address, port, denied) in cases {
        let point = walk.ingress(address.parse().expect("an address"), *port);
        assert_eq!(
            point.verdict & VERDICT_DENY != 0,
            *denied,
            "{address} port {port}"
        );
        assert_eq!(
            walk.egress(address.parse().expect("an address"), *port).verdict,
            0
        );
    }
}

#[test]
fn unspecified_local_address_is_every_local_address() {
    let deny = |network, ports| vec![ingress(Verdict::Deny, Some(network), ports)];
    admits(
        deny("10.1.0.0/16", &[(80, 90)]),
        &[
            ("10.1.2.3", 85, true),
            ("10.1.2.3", 91, false),
            ("10.2.2.3", 85, false),
            ("0.0.0.0", 85, true),
            ("::", 85, true),
            ("::", 0, false),
            ("::1", 85, false),
            ("::ffff:10.1.2.3", 85, true),
        ],
    );
    admits(
        deny("2001:db8::/32", &[]),
        &[("::", 1, true), ("0.0.0.0", 1, false), ("2001:db8::1", 0, true)],
    );
}

#[test]
fn every_inbound_port_includes_the_one_that_the_kernel_chooses() {
    admits(
        vec![ingress(Verdict::Deny, None, &[(1, 65_535)])],
        &[("0.0.0.0", 0, true), ("::", 0, true), ("10.0.0.1", 1, true)],
    );
    admits(
        vec![ingress(Verdict::Deny, None, &[(2, 65_535)])],
        &[("0.0.0.0", 0, false), ("::", 2, true)],
    );
}

/// Compiles the network rules of a profile that denies what no rule allows.
fn allow_list(rules: Vec<Rule>) -> Artefact {
    let mut artefact = Artefact::default();
    let mut sites = Sites::default();
    let profile = Profile {
        default: Defaults {
            denied: Kinds::SOCKETS.with(Kinds::EGRESS).with(Kinds::INGRESS),
            ..Defaults::default()
        },
        ..profile(rules)
    };
    network::compile(&profile, &mut sites, &mut artefact).expect("the rules compile");
    artefact
}

#[test]
fn what_no_rule_allows_is_denied_by_default() {
    let mut allow = egress(Some("10.0.0.0/8"), &[(443, 443)]);
    allow.verdict = Verdict::Allow;
    let mut socket = sockets(&[2], &[1], &[]).rules;
    socket[0].verdict = Verdict::Allow;
    let mut rules = vec![
        allow,
        egress(Some("10.9.0.0/16"), &[]),
        ingress(Verdict::Allow, Some("127.0.0.1/32"), &[]),
    ];
    rules.append(&mut socket);
    let artefact = allow_list(rules);
    let walk = Walk::new(&artefact, KEY);
    let egress = |address: &str, port| walk.egress(address.parse().expect("an address"), port);
    assert_eq!(egress("10.1.2.3", 443), Point::default());
    let denied = |site| Point {
        verdict: VERDICT_DENY,
        site,
    };
    assert_eq!(egress("10.1.2.3", 80), denied(0));
    assert_eq!(egress("::1", 443), denied(0));
    assert_eq!(egress("10.9.2.3", 443), denied(1), "a denying rule wins");
    let ingress = |address: &str| walk.ingress(address.parse().expect("an address"), 80);
    assert_eq!(ingress("127.0.0.1"), Point::default());
    assert_eq!(
        ingress("0.0.0.0"),
        denied(0),
        "one allowed address is not every address"
    );
    assert_eq!(walk.socket(2, 1, 0), Point::default());
    assert_eq!(walk.socket(2, 2, 0), denied(0));
    assert_eq!(walk.socket(43, 1, 0), denied(0));
}

fn sockets(domains: &[u32], types: &[u32], protocols: &[u32]) -> Profile {
    let (domains, types, protocols) = (domains.to_vec(), types.to_vec(), protocols.to_vec());
    profile(vec![rule(
        "socket",
        Verdict::Deny,
        Object::Socket(SocketRule {
            domains,
            types,
            protocols,
        }),
    )])
}

#[test]
fn socket_rules_hold_for_what_they_name() {
    let (unix, inet, inet6, alg, smc) = (1, 2, 10, 38, 43);
    let (stream, raw, icmp, tcp) = (1, 3, 1, 6);
    for (profile, socket, denied) in [
        (sockets(&[alg], &[], &[]), (alg, 5, 0), true),
        (sockets(&[alg], &[], &[]), (unix, stream, 0), false),
        (sockets(&[inet, inet6], &[raw], &[]), (inet6, raw, icmp), true),
        (sockets(&[inet, inet6], &[raw], &[]), (inet6, stream, tcp), false),
        (sockets(&[], &[], &[tcp]), (inet, stream, tcp), true),
        (sockets(&[], &[], &[tcp]), (inet, stream, 0), true),
        (sockets(&[inet], &[], &[tcp]), (inet, stream, 262), true),
        (sockets(&[inet], &[], &[tcp]), (inet, 2, 0), false),
        (sockets(&[inet], &[], &[tcp]), (smc, stream, 0), true),
        (sockets(&[inet], &[], &[tcp]), (smc, stream, 1), false),
        (sockets(&[inet], &[stream], &[]), (smc, stream, 0), true),
        (sockets(&[inet], &[], &[17]), (inet, 2, 0), true),
        (sockets(&[inet], &[], &[17]), (16, 3, 17), false),
        (sockets(&[inet], &[], &[17]), (inet, 2, 136), true),
        (sockets(&[inet], &[], &[132]), (inet, 5, 0), true),
        (sockets(&[], &[raw], &[]), (alg, raw, 3), true),
        (sockets(&[], &[raw], &[]), (alg, 5, 3), false),
        (sockets(&[], &[], &[]), (45, 1, 0), true),
        (sockets(&[inet], &[raw], &[icmp]), (inet, raw, icmp), true),
        (sockets(&[inet], &[raw], &[icmp]), (inet, raw, tcp), false),
    ] {
        let artefact = compiled(&profile);
        let point = Walk::new(&artefact, KEY).socket(socket.0, socket.1, socket.2);
        assert_eq!(
            point.verdict & VERDICT_DENY != 0,
            denied,
            "{:?} on {socket:?}",
            profile.rules[0].object
        );
    }
}
