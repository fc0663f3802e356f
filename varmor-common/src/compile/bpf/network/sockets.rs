//! Socket rules as regions: domain and type are the first two bytes of an address, the protocol is the port.

use std::collections::BTreeSet;

use super::diagram::{Piece, Said};
use super::region::Region;
use crate::abi::SOCKET_DOMAINS;
use crate::matcher::{protocol_bit, socket_address};
use crate::policy::vocabulary::{INTERNET_DOMAINS, af, ipproto, sock};
use crate::profile::{SocketRule, Verdict};

/// `IPPROTO_SMC`: a TCP connection that may become shared memory (6.11).
const IPPROTO_SMC: u32 = 256;
/// Protocols under which the kernel offers another one.
const SAME: [(u32, &[u32]); 2] = [
    (ipproto::TCP, &[ipproto::MPTCP, IPPROTO_SMC]),
    (ipproto::UDP, &[ipproto::UDPLITE]),
];
/// What a socket of the domain SMC is: stream over TCP, by protocol number.
const SMC_PROTOCOLS: [(u32, u32); 2] = [(0, af::INET), (1, af::INET6)];

/// The regions of a rule. A rule that refuses also holds for other names of the same thing.
pub(super) fn regions(rule: &SocketRule, verdict: Verdict) -> Vec<Region> {
    let refuses = verdict != Verdict::Allow;
    let mut kinds: BTreeSet<(Option<u32>, Option<u32>, Option<u32>)> = BTreeSet::new();
    for domain in choices(&rule.domains) {
        for kind in choices(&rule.types) {
            for protocol in choices(&rule.protocols) {
                kinds.insert((domain, kind, protocol));
            }
        }
    }
    if refuses {
        for (domain, kind, protocol) in kinds.clone() {
            let Some(domain) = domain.filter(|domain| INTERNET_DOMAINS.contains(domain)) else {
                continue;
            };
            for (name, others) in SAME {
                if protocol == Some(name) {
                    kinds.extend(others.iter().map(|other| (Some(domain), kind, Some(*other))));
                }
            }
            if kind.is_none_or(|kind| kind == sock::STREAM)
                && protocol.is_none_or(|protocol| protocol == ipproto::TCP)
            {
                let number = SMC_PROTOCOLS.iter().find(|(_, carrier)| *carrier == domain);
                kinds.extend(number.map(|(number, _)| (Some(af::SMC), None, Some(*number))));
            }
        }
    }
    kinds
        .into_iter()
        .flat_map(|(domain, kind, protocol)| region(domain, kind, protocol))
        .collect()
}

/// By domain: the protocols that some rule refuses or audits.
pub(super) fn protocols(pieces: &[Piece]) -> [u64; SOCKET_DOMAINS] {
    let mut masks = [0; SOCKET_DOMAINS];
    let speaking = pieces.iter().filter(|piece| {
        let Said { deny, audit, .. } = piece.said;
        deny.or(audit).is_some()
    });
    for piece in speaking {
        let region = piece.region;
        // Every number from 63 on has the last bit.
        let bits = (region.first.min(63)..=region.last.min(63))
            .fold(0, |bits, protocol| bits | protocol_bit(u32::from(protocol)));
        let domain = (region.address >> 120) as usize;
        for (number, mask) in masks.iter_mut().enumerate() {
            if region.bits == 0 || number == domain {
                *mask |= bits;
            }
        }
    }
    masks
}

fn choices(list: &[u32]) -> Vec<Option<u32>> {
    if list.is_empty() {
        vec![None]
    } else {
        list.iter().copied().map(Some).collect()
    }
}

fn region(domain: Option<u32>, kind: Option<u32>, protocol: Option<u32>) -> Vec<Region> {
    let domains: Vec<u32> = match (domain, kind) {
        (Some(domain), _) => vec![domain],
        (None, None) => Vec::new(),
        // A type without a domain is that type in each of them.
        (None, Some(_)) => (0..=255).collect(),
    };
    let networks = if domains.is_empty() {
        vec![Region::network(0, 0)]
    } else {
        let bits = if kind.is_some() { 16 } else { 8 };
        domains
            .into_iter()
            .map(|domain| {
                let high = socket_address(domain, kind.unwrap_or(0));
                Region::network(u128::from(high) << 64, bits)
            })
            .collect()
    };
    networks
        .into_iter()
        .filter_map(|network| match protocol {
            None => Some(network),
            // A number that no socket can have is in no region.
            Some(protocol) => u16::try_from(protocol)
                .ok()
                .map(|protocol| network.with_ports(protocol, protocol)),
        })
        .collect()
}
