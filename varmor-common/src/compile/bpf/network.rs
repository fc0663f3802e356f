//! Socket, destination and inbound rules -> the decision diagram of the network.

mod diagram;
mod region;
mod sockets;

use std::collections::HashMap;

use ipnet::IpNet;

use self::diagram::{Builder, Diagram, Piece, Said, TooLarge};
use self::region::Region;
use super::sites::Sites;
use super::{Artefact, CompileError, SiteRule};
use crate::abi::{
    LEAF_SITE_SHIFT, MAX_LEAF_SITES, PROFILE_EGRESS, PROFILE_INGRESS, PROFILE_SOCKETS, SOCKET_DOMAINS,
    VERDICT_AUDIT, VERDICT_DENY,
};
use crate::matcher::MAPPED;
use crate::profile::{Kinds, Object, PortRange, Profile, Rule, Verdict};

pub(super) use self::diagram::{ROW_BUDGET, TEST_BUDGET};

/// `::ffff:0:0`.
const V4: u128 = 0xffff << 32;
const LOOPBACK_V4: u128 = V4 | 0x7f00_0001;
const LOOPBACK_V6: u128 = 1;

pub(super) fn compile(
    profile: &Profile,
    sites: &mut Sites,
    artefact: &mut Artefact,
) -> Result<(), CompileError> {
    let default = |kind| profile.default.verdict(kind);
    let (sockets, egress, ingress) = (
        default(Kinds::SOCKETS),
        default(Kinds::EGRESS),
        default(Kinds::INGRESS),
    );
    let mut pieces = Pieces::default();
    for (rule, index) in profile.rules.iter().zip(0..) {
        pieces.add(rule, index)?;
    }
    let mut diagram = Diagram::default();
    let descriptor = &mut artefact.descriptor;
    if !pieces.sockets.list.is_empty() || sockets.is_some() {
        descriptor.flags |= PROFILE_SOCKETS;
        let mut leaves = |said| leaf(sites, said, sockets);
        let mut builder = Builder::new(&mut diagram, &pieces.sockets.list, &mut leaves);
        let starts = builder
            .bytes(Region::network(0, 0))
            .map_err(too_large(profile, "socket"))?;
        let domains = descriptor.net.sockets.len();
        descriptor.net.sockets.copy_from_slice(&starts[..domains]);
        descriptor.net.protocols = match sockets {
            Some(_) => [u64::MAX; SOCKET_DOMAINS],
            None => sockets::protocols(&pieces.sockets.list),
        };
    }
    let [v4, v6] = &pieces.egress;
    if !v4.list.is_empty() || !v6.list.is_empty() || egress.is_some() {
        descriptor.flags |= PROFILE_EGRESS;
        let mut leaves = |said| leaf(sites, said, egress);
        let failed = || too_large(profile, "egress");
        descriptor.net.egress_v4 = Builder::new(&mut diagram, &v4.list, &mut leaves)
            .bytes(Region::network(V4, MAPPED))
            .map_err(failed())?;
        descriptor.net.egress_v6 = Builder::new(&mut diagram, &v6.list, &mut leaves)
            .bytes(Region::network(0, 0))
            .map_err(failed())?;
    }
    let [v4, v6] = &pieces.ingress;
    if !v4.list.is_empty() || !v6.list.is_empty() || ingress.is_some() {
        descriptor.flags |= PROFILE_INGRESS;
        let mut leaves = |said| leaf(sites, said, ingress);
        let failed = || too_large(profile, "ingress");
        descriptor.net.ingress_v4 = Builder::new(&mut diagram, &v4.list, &mut leaves)
            .node(Region::network(V4, MAPPED))
            .map_err(failed())?;
        descriptor.net.ingress_v6 = Builder::new(&mut diagram, &v6.list, &mut leaves)
            .node(Region::network(0, 0))
            .map_err(failed())?;
    }
    artefact.net_rows = diagram.rows;
    artefact.net_tests = diagram.tests;
    Ok(())
}

/// The rules as regions: sockets, and IPv4 and IPv6 in both directions.
#[derive(Default)]
struct Pieces {
    sockets: List,
    egress: [List; 2],
    ingress: [List; 2],
}

/// Pieces in the order of the rules; rules about one and the same region are one piece.
#[derive(Default)]
struct List {
    list: Vec<Piece>,
    numbers: HashMap<Region, usize>,
}

impl List {
    fn push(&mut self, region: Region, said: Said, rule: u32) {
        let next = self.list.len();
        let number = *self.numbers.entry(region).or_insert(next);
        if number == next {
            self.list.push(Piece { region, said, rule });
        } else {
            self.list[number].said = self.list[number].said.and(said);
        }
    }
}

impl Pieces {
    fn add(&mut self, rule: &Rule, index: u32) -> Result<(), CompileError> {
        let said = match rule.verdict {
            Verdict::Deny => Said {
                deny: Some(index),
                ..Said::default()
            },
            Verdict::Audit => Said {
                audit: Some(index),
                ..Said::default()
            },
            Verdict::Allow => Said {
                allow: true,
                ..Said::default()
            },
        };
        match &rule.object {
            Object::Socket(socket) => {
                for region in sockets::regions(socket, rule.verdict) {
                    self.sockets.push(region, said, index);
                }
            }
            Object::Egress(egress) => {
                for (first, last) in ranges(rule, &egress.ports)? {
                    for (family, region) in destinations(egress.network.as_ref()) {
                        self.egress[family].push(region.with_ports(first, last), said, index);
                    }
                }
            }
            Object::Ingress(ingress) => {
                for (first, last) in ranges(rule, &ingress.ports)? {
                    // Nobody can ask for port 0, but who leaves the port to the kernel is judged by it.
                    let first = if last == u16::MAX && first == 1 { 0 } else { first };
                    for (family, region) in local(ingress.network.as_ref(), rule.verdict) {
                        self.ingress[family].push(region.with_ports(first, last), said, index);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn leaf(sites: &mut Sites, said: Said, default: Option<Verdict>) -> u32 {
    let rule = |rule, verdict| {
        vec![SiteRule {
            permissions: u32::MAX,
            verdict,
            rule,
        }]
    };
    let (verdict, site) = match (said, default) {
        (Said { deny: Some(deny), .. }, _) => (VERDICT_DENY, sites.number(rule(deny, Verdict::Deny))),
        (Said { allow: false, .. }, Some(Verdict::Deny)) => (VERDICT_DENY, 0),
        (
            Said {
                audit: Some(audit), ..
            },
            _,
        ) => (VERDICT_AUDIT, sites.number(rule(audit, Verdict::Audit))),
        (Said { allow: false, .. }, Some(_)) => (VERDICT_AUDIT, 0),
        _ => (0, 0),
    };
    debug_assert!(site < MAX_LEAF_SITES);
    verdict | site << LEAF_SITE_SHIFT
}

fn too_large(profile: &Profile, what: &'static str) -> impl FnOnce(TooLarge) -> CompileError {
    move |error| {
        let rule = profile.rules.get(error.rule as usize);
        CompileError::TooManyDestinations {
            what,
            rule: rule.map(|rule| rule.id.clone()).unwrap_or_default(),
            field: rule.map(|rule| rule.origin.field.clone()).unwrap_or_default(),
        }
    }
}

const FAMILY_V4: usize = 0;
const FAMILY_V6: usize = 1;

/// The networks of a rule, by family: IPv6 rules about the v4-mapped addresses are rules about IPv4, and all other IPv6
/// rules say nothing about IPv4.
fn networks(network: Option<&IpNet>) -> Vec<(usize, Region)> {
    match network {
        None => vec![
            (FAMILY_V4, Region::network(V4, MAPPED)),
            (FAMILY_V6, Region::network(0, 0)),
        ],
        Some(IpNet::V4(net)) => {
            let address = V4 | u128::from(net.addr().to_bits());
            vec![(
                FAMILY_V4,
                Region::network(address, MAPPED + u32::from(net.prefix_len())),
            )]
        }
        Some(IpNet::V6(net)) => {
            let region = Region::network(net.addr().to_bits(), u32::from(net.prefix_len()));
            let mapped = region.bits >= MAPPED && region.address >> 32 == V4 >> 32;
            vec![(if mapped { FAMILY_V4 } else { FAMILY_V6 }, region)]
        }
    }
}

/// As [`networks`], with the unspecified addresses where they lead to the loopback that the rule is about: `0.0.0.0` to
/// `127.0.0.1`, `::` to `::1` or to `127.0.0.1`.
fn destinations(network: Option<&IpNet>) -> Vec<(usize, Region)> {
    let mut regions = networks(network);
    let covers = |family: usize, address: u128| {
        let single = Region::network(address, 128);
        regions
            .iter()
            .any(|(of, region)| *of == family && region.relation(&single) == region::Relation::Covers)
    };
    let (v4, v6) = (covers(FAMILY_V4, LOOPBACK_V4), covers(FAMILY_V6, LOOPBACK_V6));
    if v4 {
        regions.push((FAMILY_V4, Region::network(V4, 128)));
    }
    if v4 || v6 {
        regions.push((FAMILY_V6, Region::network(0, 128)));
    }
    regions
}

/// As [`networks`], with the unspecified addresses, which stand for every local address: who denies one of them denies
/// these too, who allows one of them does not allow these.
fn local(network: Option<&IpNet>, verdict: Verdict) -> Vec<(usize, Region)> {
    let mut regions = networks(network);
    if verdict != Verdict::Allow && network.is_some() {
        if regions[0].0 == FAMILY_V4 {
            regions.push((FAMILY_V4, Region::network(V4, 128)));
        }
        // An IPv6 socket on `::` also serves IPv4.
        regions.push((FAMILY_V6, Region::network(0, 128)));
    }
    regions
}

fn ranges(rule: &Rule, ports: &[PortRange]) -> Result<Vec<(u16, u16)>, CompileError> {
    if ports.is_empty() {
        return Ok(vec![(0, u16::MAX)]);
    }
    ports
        .iter()
        .map(|range| {
            if range.first > range.last {
                return Err(CompileError::PortRange {
                    rule: rule.id.clone(),
                    field: rule.origin.field.clone(),
                    first: range.first,
                    last: range.last,
                });
            }
            Ok((range.first, range.last))
        })
        .collect()
}
