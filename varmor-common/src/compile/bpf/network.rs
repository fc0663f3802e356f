//! Socket and destination rules -> points.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::sites::Sites;
use super::{Artefact, CompileError, SiteRule};
use crate::abi::{
    ANY, MAX_ADDRESS_LENGTHS, POINT_EGRESS, POINT_SOCKET, PROFILE_EGRESS, PROFILE_SOCKETS, Point, PointKey,
    VERDICT_ALLOW, VERDICT_AUDIT, VERDICT_DENY,
};
use crate::matcher::{MAPPED, halves, mask_address, mask_port};
use crate::profile::{EgressRule, Object, PortRange, Profile, Rule, SocketRule, Verdict};

/// One more than the highest address family (`AF_MAX`).
const DOMAINS: u32 = 46;

pub(super) fn compile(
    profile: &Profile,
    sites: &mut Sites,
    artefact: &mut Artefact,
) -> Result<(), CompileError> {
    let mut points: BTreeMap<PointKey, Vec<SiteRule>> = BTreeMap::new();
    let mut lengths: BTreeSet<u8> = BTreeSet::new();
    let mut port_lengths: BTreeSet<u8> = BTreeSet::new();
    for (rule, index) in profile.rules.iter().zip(0..) {
        let keys = match &rule.object {
            Object::Socket(socket) => {
                artefact.descriptor.flags |= PROFILE_SOCKETS;
                socket_keys(socket)
            }
            Object::Egress(egress) => {
                artefact.descriptor.flags |= PROFILE_EGRESS;
                let networks = networks(egress);
                let blocks = port_blocks(rule, &egress.ports)?;
                for (_, _, length) in &networks {
                    if lengths.len() == MAX_ADDRESS_LENGTHS && !lengths.contains(length) {
                        return Err(CompileError::TooManyAddressLengths {
                            rule: rule.id.clone(),
                            field: rule.origin.field.clone(),
                            length: *length,
                            used: lengths.into_iter().collect(),
                        });
                    }
                    lengths.insert(*length);
                }
                port_lengths.extend(blocks.iter().map(|(_, bits)| *bits));
                let key = |&(hi, lo, length): &(u64, u64, u8), &(port, bits): &(u16, u8)| {
                    let (a, b, c) = (
                        u32::from(length),
                        mask_port(port, u32::from(bits)),
                        u32::from(bits),
                    );
                    PointKey {
                        hi,
                        lo,
                        kind: POINT_EGRESS,
                        a,
                        b,
                        c,
                    }
                };
                networks
                    .iter()
                    .flat_map(|network| blocks.iter().map(move |block| key(network, block)))
                    .collect()
            }
            _ => continue,
        };
        for key in keys {
            points.entry(key).or_default().push(SiteRule {
                permissions: u32::MAX,
                verdict: rule.verdict,
                rule: index,
            });
        }
    }
    let descriptor = &mut artefact.descriptor;
    descriptor.address_lengths = fill(&mut descriptor.address_length, &lengths);
    descriptor.port_lengths = fill(&mut descriptor.port_length, &port_lengths);
    for (key, rules) in points {
        let verdict = rules.iter().fold(0, |bits, rule| {
            bits | match rule.verdict {
                Verdict::Deny => VERDICT_DENY,
                Verdict::Audit => VERDICT_AUDIT,
                Verdict::Allow => VERDICT_ALLOW,
            }
        });
        artefact.points.push((
            key,
            Point {
                verdict,
                site: sites.number(rules),
            },
        ));
    }
    Ok(())
}

fn fill(slots: &mut [u8], lengths: &BTreeSet<u8>) -> u32 {
    for (slot, length) in slots.iter_mut().zip(lengths) {
        *slot = *length;
    }
    u32::try_from(lengths.len()).expect("there are at most 129 prefix lengths")
}

fn socket_keys(rule: &SocketRule) -> Vec<PointKey> {
    let or_any = |list: &[u32]| if list.is_empty() { vec![ANY] } else { list.to_vec() };
    let domains: Vec<u32> = if rule.domains.is_empty() {
        (0..DOMAINS).collect()
    } else {
        rule.domains.clone()
    };
    let (types, protocols) = (or_any(&rule.types), or_any(&rule.protocols));
    let mut keys = BTreeSet::new();
    for &a in &domains {
        for &b in &types {
            for &c in &protocols {
                keys.insert(PointKey {
                    kind: POINT_SOCKET,
                    a,
                    b,
                    c,
                    ..PointKey::default()
                });
            }
        }
    }
    keys.into_iter().collect()
}

/// The masked addresses with their prefix lengths. `::/0` becomes its two halves: length 0 would speak about IPv4
/// as well, because IPv4 addresses are a part of it.
fn networks(rule: &EgressRule) -> Vec<(u64, u64, u8)> {
    let masked = |hi, lo, length: u8| {
        let (hi, lo) = mask_address(hi, lo, u32::from(length));
        (hi, lo, length)
    };
    match rule.network {
        None => vec![(0, 0, 0)],
        Some(IpNet::V4(net)) => {
            let (hi, lo) = halves(net.addr().to_ipv6_mapped());
            let mapped = u8::try_from(MAPPED).expect("96 fits a byte");
            vec![masked(hi, lo, mapped + net.prefix_len())]
        }
        Some(IpNet::V6(net)) if net.prefix_len() == 0 => vec![(0, 0, 1), (1 << 63, 0, 1)],
        Some(IpNet::V6(net)) => {
            let (hi, lo) = halves(net.addr());
            vec![masked(hi, lo, net.prefix_len())]
        }
    }
}

/// The ports as prefixes: (first port, bits).
fn port_blocks(rule: &Rule, ranges: &[PortRange]) -> Result<Vec<(u16, u8)>, CompileError> {
    if ranges.is_empty() {
        return Ok(vec![(0, 0)]);
    }
    let mut blocks = BTreeSet::new();
    for range in ranges {
        if range.first > range.last {
            return Err(CompileError::PortRange {
                rule: rule.id.clone(),
                field: rule.origin.field.clone(),
                first: range.first,
                last: range.last,
            });
        }
        let (mut at, end) = (u32::from(range.first), u32::from(range.last) + 1);
        while at < end {
            // The largest block that begins here and does not pass the end.
            let aligned = at.trailing_zeros().min(16);
            let size = aligned.min((end - at).ilog2());
            let first = u16::try_from(at).expect("below the end of the ports");
            let bits = u8::try_from(16 - size).expect("a size is at most 16");
            blocks.insert((first, bits));
            at += 1 << size;
        }
    }
    Ok(blocks.into_iter().collect())
}
