//! Addresses, blocks and ports in rules about connections.

use std::net::IpAddr;

use ipnet::IpNet;

use super::cursor::Cursor;
use super::node::Value;
use super::report::Report;
use crate::policy::diagnostic::quoted;

/// Words that stand for addresses in `ip` of a BPF rule.
pub(super) const ADDRESS_WORDS: [&str; 3] = ["pod-self", "unspecified", "localhost"];

/// Words that stand for local addresses.
pub(super) const LOCAL_WORDS: [&str; 2] = ["unspecified", "localhost"];

/// Checks `ip`, `cidr` and `ports` of one rule.
pub(super) fn check(rule: &Cursor<'_>, words: &[&str], report: &mut Report<'_>) {
    let (ip, cidr) = (rule.get("ip"), rule.get("cidr"));
    if let (Some(_), Some(cidr)) = (&ip, &cidr) {
        report.error(
            rule.key_position("cidr"),
            &cidr.path,
            "the rule has both `ip` and `cidr`",
            "keep one of them",
        );
    }
    if ip.is_none() && cidr.is_none() && rule.list("ports").is_empty() {
        let help = "add `ip:`, `cidr:` or `ports:`; for every address use `cidr: 0.0.0.0/0` and a second rule with `cidr: ::/0`";
        report.error(rule.at(), &rule.path, "the rule names no destination", help);
    }
    if let Some((ip, text)) = ip.as_ref().and_then(|ip| ip.text().map(|text| (ip, text))) {
        check_ip(ip, text, words, report);
    }
    if let Some((cidr, text)) = cidr
        .as_ref()
        .and_then(|cidr| cidr.text().map(|text| (cidr, text)))
    {
        check_cidr(cidr, text, report);
    }
    check_ports(rule, report);
}

/// Checks the ranges in `ports` of one rule; the schema knows the limits of each number.
pub(super) fn check_ports(rule: &Cursor<'_>, report: &mut Report<'_>) {
    for port in rule.list("ports") {
        let number = |name: &str| match port.node.entry(name).map(|entry| &entry.value.value) {
            Some(Value::Number(number)) => number.as_u64(),
            _ => None,
        };
        if let (Some(first), Some(last)) = (number("port"), number("endPort"))
            && last < first
        {
            let at = port.get("endPort").map_or(port.at(), |end| end.at());
            let message = format!("the range of ports ends at {last}, before it starts at {first}");
            report.error(at, &format!("{}.endPort", port.path), message, "swap the numbers");
        }
    }
}

fn check_ip(ip: &Cursor<'_>, text: &str, words: &[&str], report: &mut Report<'_>) {
    if words.contains(&text) || text.parse::<IpAddr>().is_ok() {
        return;
    }
    let help = if text.parse::<IpNet>().is_ok() {
        "use `cidr:` for a block of addresses".to_owned()
    } else if words.is_empty() {
        "write an IPv4 or IPv6 address".to_owned()
    } else {
        format!("write an IPv4 or IPv6 address, or one of {}", words.join(", "))
    };
    report.error(
        ip.at(),
        &ip.path,
        format!("{} is not an address", quoted(text)),
        help,
    );
}

fn check_cidr(cidr: &Cursor<'_>, text: &str, report: &mut Report<'_>) {
    match text.parse::<IpNet>() {
        Err(_) => {
            let help = match text.parse::<IpAddr>() {
                Ok(IpAddr::V4(_)) => format!("write `{text}/32`, or use `ip:`"),
                Ok(IpAddr::V6(_)) => format!("write `{text}/128`, or use `ip:`"),
                Err(_) => "write a block such as 10.0.0.0/8".to_owned(),
            };
            report.error(
                cidr.at(),
                &cidr.path,
                format!("{} is not a block of addresses", quoted(text)),
                help,
            );
        }
        Ok(network) if network.trunc() != network => {
            let message = format!(
                "{} has bits behind its prefix; the block is {}",
                quoted(text),
                network.trunc()
            );
            report.warning(
                cidr.at(),
                &cidr.path,
                message,
                format!("write `{}`", network.trunc()),
            );
        }
        Ok(_) => {}
    }
}
