//! Raw rules about connections -> rules of the profile.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::build::Builder;
use super::raw::push;
use super::{EgressRule, IngressRule, Object, PortRange};
use crate::policy::{EgressRules, IngressRawRule, Port, Severity, ToDestination, item};

/// Adds the rules about connections, which are written at `field`.
pub(super) fn add(builder: &mut Builder<'_>, egress: &EgressRules, field: &str) {
    for (index, rule) in egress.to_destinations.iter().enumerate() {
        destination(builder, rule, &item(&format!("{field}.toDestinations"), index));
    }
    for (list, count) in [
        ("toServices", egress.to_services.len()),
        ("toPods", egress.to_pods.len()),
    ] {
        for index in 0..count {
            let message =
                format!("a rule of `{list}` needs addresses that only a cluster knows; it has no effect");
            let place = item(&format!("{field}.{list}"), index);
            builder.report(
                Severity::Warning,
                &place,
                message,
                "use `toDestinations` with the addresses",
            );
        }
    }
}

fn destination(builder: &mut Builder<'_>, rule: &ToDestination, field: &str) {
    if rule.ip.as_deref() == Some("pod-self") {
        let message = "the address of the pod is known in a cluster only; the rule has no effect".to_owned();
        return builder.report(Severity::Warning, field, message, "use the address itself");
    }
    let ports: Vec<PortRange> = rule.ports.iter().copied().map(range).collect();
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
fn single(address: IpAddr) -> IpNet {
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
