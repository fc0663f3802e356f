//! Raw rules about connections -> rules of the profile.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::build::Builder;
use super::raw::push;
use super::{EgressRule, IngressRule, Object, PortRange};
use crate::policy::{
    EgressAddress, EgressPeer, EgressRules, IngressRawRule, Port, Severity, ToDestination, item,
};

/// Adds the rules about connections, which are written at `field`.
pub(super) fn add(builder: &mut Builder<'_>, egress: &EgressRules, field: &str) {
    for (index, rule) in egress.to_destinations.iter().enumerate() {
        destination(builder, rule, &item(&format!("{field}.toDestinations"), index));
    }
    for (index, rule) in egress.to_services.iter().enumerate() {
        let place = item(&format!("{field}.toServices"), index);
        peer(
            builder,
            &EgressPeer::of_services(rule),
            &rule.qualifiers,
            &[],
            &place,
        );
    }
    for (index, rule) in egress.to_pods.iter().enumerate() {
        let place = item(&format!("{field}.toPods"), index);
        peer(
            builder,
            &EgressPeer::of_pods(rule),
            &rule.qualifiers,
            &rule.ports,
            &place,
        );
    }
}

/// Adds a rule about a peer, whose addresses a cluster knows.
fn peer(builder: &mut Builder<'_>, peer: &EgressPeer, qualifiers: &[String], ports: &[Port], field: &str) {
    let Some(addresses) = builder.addresses(peer) else {
        let message =
            "a rule about Services or Pods needs addresses that only a cluster knows; it has no effect"
                .to_owned();
        return builder.report(
            Severity::Warning,
            field,
            message,
            "use `toDestinations` with the addresses",
        );
    };
    for rule in rules(addresses, ports) {
        push(builder, field, qualifiers, Object::Egress(rule));
    }
}

/// One rule per address. The ports that the rule names win over those that the address has.
pub(super) fn rules(addresses: &[EgressAddress], ports: &[Port]) -> impl Iterator<Item = EgressRule> {
    addresses.iter().map(move |address| {
        let ports = if ports.is_empty() { &address.ports } else { ports };
        EgressRule {
            network: Some(single(address.ip)),
            ports: ports.iter().copied().map(range).collect(),
        }
    })
}

fn destination(builder: &mut Builder<'_>, rule: &ToDestination, field: &str) {
    let ports: Vec<PortRange> = rule.ports.iter().copied().map(range).collect();
    if rule.ip.as_deref() == Some("pod-self") {
        return push(builder, field, &rule.qualifiers, Object::PodEgress(ports));
    }
    for network in networks(rule.ip.as_deref(), rule.cidr.as_deref()) {
        push(
            builder,
            field,
            &rule.qualifiers,
            Object::Egress(EgressRule {
                network,
                ports: ports.clone(),
            }),
        );
    }
}

/// Adds the rule about local addresses, which is written at `field`.
pub(super) fn local(builder: &mut Builder<'_>, rule: &IngressRawRule, field: &str) {
    let ports: Vec<PortRange> = rule.ports.iter().copied().map(range).collect();
    for network in networks(rule.ip.as_deref(), rule.cidr.as_deref()) {
        let ports = ports.clone();
        let object = Object::Ingress(IngressRule { network, ports });
        push(builder, field, &rule.qualifiers, object);
    }
}

/// The networks of a rule; one that names none is about every address.
fn networks(ip: Option<&str>, cidr: Option<&str>) -> Vec<Option<IpNet>> {
    match (ip, cidr) {
        (Some(ip), _) => addresses(ip)
            .into_iter()
            .map(|address| Some(single(address)))
            .collect(),
        (None, Some(cidr)) => cidr
            .parse()
            .ok()
            .map(|network| Some(unmapped(network)))
            .into_iter()
            .collect(),
        (None, None) => vec![None],
    }
}

/// The addresses behind a word.
fn addresses(word: &str) -> Vec<IpAddr> {
    match word {
        "unspecified" => vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
        "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        _ => word.parse().into_iter().collect(),
    }
}

/// An IPv4 address in IPv6 clothes is that IPv4 address.
pub(super) fn single(address: IpAddr) -> IpNet {
    address.to_canonical().into()
}

fn unmapped(network: IpNet) -> IpNet {
    if let IpNet::V6(v6) = network
        && v6.prefix_len() >= 96
        && let Some(v4) = v6.addr().to_ipv4_mapped()
    {
        let v4 = ipnet::Ipv4Net::new(v4, v6.prefix_len() - 96).expect("128 - 96 = 32 is the longest prefix");
        return IpNet::V4(v4).trunc();
    }
    network.trunc()
}

fn range(port: Port) -> PortRange {
    PortRange {
        first: port.port,
        last: port.end_port.unwrap_or(port.port),
    }
}
