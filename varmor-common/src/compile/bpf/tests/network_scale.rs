//! Network rules by the thousand: the tables stay small, and what multiplies is refused by name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::random::Random;
use super::{KEY, compiled, profile, rule};
use crate::abi::{MAX_NET_STEPS, NetRow, NetTest, VERDICT_DENY};
use crate::compile::bpf::{Artefact, CompileError, compile};
use crate::matcher::Walk;
use crate::profile::{EgressRule, Object, PortRange, Profile, SocketRule, Verdict};

const RULES: u64 = 10_000;

fn egress(network: Option<IpNet>, ports: &[(u16, u16)]) -> Object {
    let ports = ports
        .iter()
        .map(|&(first, last)| PortRange { first, last })
        .collect();
    Object::Egress(EgressRule { network, ports })
}

fn many(object: impl Fn(&mut Random, u64) -> Object) -> Profile {
    let random = &mut Random::new(1);
    profile(
        (0..RULES)
            .map(|number| rule(&format!("r{number}"), Verdict::Deny, object(random, number)))
            .collect(),
    )
}

fn bytes(artefact: &Artefact) -> usize {
    artefact.net_rows.len() * size_of::<NetRow>() + artefact.net_tests.len() * size_of::<NetTest>()
}

#[track_caller]
fn small(what: &str, profile: &Profile, most: usize) -> Artefact {
    let artefact = compiled(profile);
    let size = bytes(&artefact);
    eprintln!(
        "{what}: {} rows, {} tests, {size} bytes",
        artefact.net_rows.len(),
        artefact.net_tests.len()
    );
    assert!(size <= most, "{what}: {size} bytes");
    artefact
}

fn v4(random: &mut Random) -> u32 {
    u32::try_from(random.below(1 << 32)).expect("32 bits")
}

fn port(random: &mut Random) -> u16 {
    u16::try_from(random.below(60_000)).expect("a port")
}

fn v6(random: &mut Random) -> u128 {
    u128::from(random.below(1 << 62)) << 66 | u128::from(random.below(1 << 62))
}

#[test]
fn ten_thousand_random_networks_take_few_megabytes() {
    let single = many(|random, _| {
        let network = Ipv4Net::new(Ipv4Addr::from_bits(v4(random)), 32).expect("a length");
        egress(Some(network.into()), &[])
    });
    small("IPv4 addresses", &single, 1 << 20);
    let networks = many(|random, _| {
        let bits = u8::try_from(8 + random.below(25)).expect("a length");
        let network = Ipv4Net::new(Ipv4Addr::from_bits(v4(random)), bits).expect("a length");
        let first = port(random);
        egress(Some(network.into()), &[(first, first + 1_000), (443, 443)])
    });
    let artefact = small("IPv4 networks with ports", &networks, 8 << 20);
    let walk = Walk::new(&artefact, KEY);
    for rule in &networks.rules {
        let Object::Egress(EgressRule {
            network: Some(network),
            ports,
        }) = &rule.object
        else {
            panic!("an egress rule with a network");
        };
        for port in [ports[0].first, ports[0].last, 443] {
            assert_eq!(walk.egress(network.addr(), port).verdict, VERDICT_DENY);
        }
    }
    let networks = many(|random, _| {
        let bits = u8::try_from(16 + random.below(113)).expect("a length");
        let network = Ipv6Net::new(Ipv6Addr::from_bits(v6(random)), bits).expect("a length");
        let first = port(random);
        egress(Some(network.into()), &[(first, first + 1_000), (443, 443)])
    });
    small("IPv6 networks with ports", &networks, 4 << 20);
}

#[test]
fn ten_thousand_neighbours_take_few_megabytes() {
    let cluster = many(|random, number| {
        let address = 10 << 24 | u32::try_from(number).expect("small") << 8 | v4(random) & 0xff;
        let port = port(random);
        egress(
            Some(IpAddr::from(Ipv4Addr::from_bits(address)).into()),
            &[(port, port)],
        )
    });
    small("addresses of a cluster", &cluster, 2 << 20);
    let halves = many(|_, number| {
        let address = 10 << 24 | u32::try_from(number).expect("small") << 7;
        let network = Ipv4Net::new(Ipv4Addr::from_bits(address), 25).expect("a length");
        egress(Some(network.into()), &[])
    });
    small("halves of networks", &halves, 2 << 20);
    let deep = many(|_, number| {
        // Each row leads to one more row and one address beside it.
        let beside = (number % 13 + 2) * 8;
        let address = u128::from(number / 13) << 104 ^ 1 << (120 - beside);
        egress(Some(IpAddr::from(Ipv6Addr::from_bits(address)).into()), &[])
    });
    small("deep IPv6 addresses", &deep, 16 << 20);
}

#[test]
fn ten_thousand_ports_take_two_rows_each_at_most() {
    let ports = many(|_, number| {
        let port = u16::try_from(number * 6).expect("a port");
        egress(None, &[(port, port)])
    });
    let artefact = small("ports", &ports, 1 << 20);
    let walk = Walk::new(&artefact, KEY);
    for port in 0..60_000_u16 {
        for address in ["10.1.2.3", "2001:db8::1"] {
            let said = walk.egress(address.parse().expect("an address"), port);
            assert_eq!(said.verdict == VERDICT_DENY, port.is_multiple_of(6), "{port}");
            if said.site != 0 {
                let rule = artefact.rule_at(&ports, said.site, u32::MAX).expect("a rule");
                assert_eq!(rule.id, format!("r{}", port / 6));
            }
        }
    }
}

#[test]
fn ten_thousand_sockets_stay_small() {
    let sockets = many(|_, number| {
        let number = u32::try_from(number).expect("small");
        Object::Socket(SocketRule {
            domains: vec![number % 46],
            types: vec![number / 46 % 11],
            protocols: vec![number / 506],
        })
    });
    let artefact = small("sockets", &sockets, 2 << 20);
    let walk = Walk::new(&artefact, KEY);
    assert_eq!(walk.socket(16, 3, 19).verdict, VERDICT_DENY);
    assert_eq!(walk.socket(16, 3, 20).verdict, 0);
    assert_eq!(walk.socket(16, 11, 19).verdict, 0);
}

/// The longest way from any node to a leaf.
fn longest(artefact: &Artefact) -> u32 {
    use crate::abi::{NODE_KIND_SHIFT, NODE_LEAF, NODE_ROW, ROW_PLACE_SHIFT};
    fn way(artefact: &Artefact, node: u32, known: &mut std::collections::HashMap<u32, u32>) -> u32 {
        if node >> NODE_KIND_SHIFT == NODE_LEAF {
            return 0;
        }
        if let Some(steps) = known.get(&node) {
            return *steps;
        }
        let steps = 1 + if node >> NODE_KIND_SHIFT == NODE_ROW {
            let row = &artefact.net_rows[(node & ((1 << ROW_PLACE_SHIFT) - 1)) as usize];
            let ways = row.next.iter().map(|&next| way(artefact, next, known));
            ways.max().expect("a row has successors")
        } else {
            let test = artefact.net_tests[(node & ((1 << NODE_KIND_SHIFT) - 1)) as usize];
            way(artefact, test.inside, known).max(way(artefact, test.outside, known))
        };
        known.insert(node, steps);
        steps
    }
    let starts = &artefact.descriptor.net;
    let known = &mut std::collections::HashMap::new();
    starts
        .egress_v4
        .iter()
        .chain(&starts.egress_v6)
        .chain(&starts.sockets)
        .chain([&starts.ingress_v4, &starts.ingress_v6])
        .map(|&start| way(artefact, start, known))
        .max()
        .expect("there are starts")
}

#[test]
fn no_way_is_longer_than_the_kernel_goes() {
    // Ranges of ports everywhere, and addresses that differ in every byte.
    let profile = many(|random, number| {
        if number < 15 {
            let first = u16::try_from(number * 3_000).expect("a port");
            return egress(None, &[(first, first + 1_000)]);
        }
        let same = u32::try_from(random.below(17)).expect("small") * 8;
        let address = v6(random).checked_shr(same).unwrap_or(0);
        let port = port(random);
        egress(
            Some(IpAddr::from(Ipv6Addr::from_bits(address)).into()),
            &[(port, port)],
        )
    });
    let longest = longest(&compiled(&profile));
    eprintln!("longest way: {longest} nodes");
    assert!((10..MAX_NET_STEPS).contains(&longest), "{longest}");
}

#[test]
fn rules_that_multiply_are_refused_by_name() {
    let profile = profile(
        (0..1_000)
            .map(|number| {
                let port = u16::try_from(number * 60).expect("a port");
                let (verdict, object) = if number % 2 == 0 {
                    (Verdict::Deny, egress(None, &[(port, port)]))
                } else {
                    let address = Ipv4Addr::from_bits(10 << 24 | u32::from(port));
                    (Verdict::Audit, egress(Some(IpAddr::from(address).into()), &[]))
                };
                rule(&format!("r{number}"), verdict, object)
            })
            .collect(),
    );
    let error = compile(&profile, KEY).expect_err("500 tables of 500 ports");
    let CompileError::TooManyDestinations { what, rule, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*what, "egress");
    assert!(rule.starts_with('r'), "{error}");
}
