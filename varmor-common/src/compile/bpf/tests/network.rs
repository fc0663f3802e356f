//! Destinations and sockets against a naive decision.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::random::Random;
use super::{KEY, compiled, profile, rule};
use crate::abi::{VERDICT_AUDIT, VERDICT_DENY};
use crate::compile::bpf::{CompileError, compile};
use crate::matcher::Walk;
use crate::profile::{EgressRule, Object, PortRange, Profile, Rule, SocketRule, Verdict};

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

#[test]
fn too_many_prefix_lengths_name_the_rule_and_the_length() {
    let rules = (60..100)
        .map(|length| egress(Some(&format!("2001:db8::/{length}")), &[]))
        .collect();
    let error = compile(&profile(rules), KEY).expect_err("40 lengths");
    assert!(
        matches!(error, CompileError::TooManyAddressLengths { length: 92, .. }),
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

#[test]
fn destinations_agree_with_the_naive_decision() {
    let mut cases = 0;
    for seed in 0..1_000 {
        let random = &mut Random::new(seed);
        let count = 1 + random.below(8);
        let rules = (0..count)
            .map(|_| {
                let verdict = if random.chance(3) {
                    Verdict::Audit
                } else {
                    Verdict::Deny
                };
                let ranges = random.below(3);
                let ports = (0..ranges)
                    .map(|_| {
                        let (one, two) = (port(random), port(random));
                        PortRange {
                            first: one.min(two),
                            last: one.max(two),
                        }
                    })
                    .collect();
                rule(
                    "egress",
                    verdict,
                    Object::Egress(EgressRule {
                        network: network(random),
                        ports,
                    }),
                )
            })
            .collect();
        let profile = profile(rules);
        let artefact = compiled(&profile);
        let walk = Walk::new(&artefact, KEY);
        for _ in 0..50 {
            let (address, port) = (address(random), port(random));
            let mut expected = 0;
            for rule in &profile.rules {
                let Object::Egress(egress) = &rule.object else {
                    continue;
                };
                let fits = egress.ports.is_empty()
                    || egress
                        .ports
                        .iter()
                        .any(|range| (range.first..=range.last).contains(&port));
                if fits && contains(egress.network.as_ref(), address) {
                    expected |= if rule.verdict == Verdict::Deny {
                        VERDICT_DENY
                    } else {
                        VERDICT_AUDIT
                    };
                }
            }
            let point = walk.egress(address, port);
            assert_eq!(
                point.verdict, expected,
                "seed {seed}: {address} port {port}: {:?}",
                profile.rules
            );
            cases += 1;
        }
    }
    eprintln!("destination differential: {cases} cases");
    assert_eq!(cases, 50_000);
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
    let (unix, inet, inet6, alg) = (1, 2, 10, 38);
    let (stream, raw, icmp, tcp) = (1, 3, 1, 6);
    for (profile, socket, denied) in [
        (sockets(&[alg], &[], &[]), (alg, 5, 0), true),
        (sockets(&[alg], &[], &[]), (unix, stream, 0), false),
        (sockets(&[inet, inet6], &[raw], &[]), (inet6, raw, icmp), true),
        (sockets(&[inet, inet6], &[raw], &[]), (inet6, stream, tcp), false),
        (sockets(&[], &[], &[tcp]), (inet, stream, tcp), true),
        (sockets(&[], &[], &[tcp]), (inet, stream, 0), false),
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
