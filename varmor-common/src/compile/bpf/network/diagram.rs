//! Networks with ports -> a decision diagram of rows and tests.
//!
//! Where many rules differ in a byte, a row branches by it; a few rules are asked one after the other; a prefix that
//! all of them share is one test. Equal parts are stored once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::region::{Region, Relation, prefix_mask};
use crate::abi::{
    NODE_KIND_SHIFT, NODE_ROW, NODE_TEST, NetRow, NetTest, PLACE_HIGH, PLACE_LOW, PLACE_PORT, ROW_PLACE_SHIFT,
};

/// Most rows of one profile: 16 MiB of kernel memory.
pub(in crate::compile::bpf) const ROW_BUDGET: usize = 1 << 14;
/// Most tests of one profile: 12 MiB of kernel memory.
pub(in crate::compile::bpf) const TEST_BUDGET: usize = 1 << 18;
/// Up to this many rules are asked one after the other: a row has the size of 21 tests.
const CHAIN: usize = 3;
/// Up to this many ranges of ports are searched by halves; more of them get rows.
const SEARCHED_RANGES: usize = 32;

/// What the rules say about one place: at most one rule of each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Said {
    pub(super) deny: Option<u32>,
    pub(super) audit: Option<u32>,
    pub(super) allow: bool,
}

impl Said {
    /// What both say. A denial needs nothing beside it.
    pub(super) fn and(self, other: Self) -> Self {
        if let Some(deny) = self.deny.or(other.deny) {
            return Self {
                deny: Some(deny),
                ..Self::default()
            };
        }
        Self {
            deny: None,
            audit: self.audit.or(other.audit),
            allow: self.allow || other.allow,
        }
    }
}

/// A region and what a rule says about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) region: Region,
    pub(super) said: Said,
    /// The rule, for errors.
    pub(super) rule: u32,
}

/// The rule at which the diagram became too large.
#[derive(Debug)]
pub(super) struct TooLarge {
    pub(super) rule: u32,
}

/// The nodes of a profile in the making.
#[derive(Default)]
pub(super) struct Diagram {
    pub(super) rows: Vec<NetRow>,
    pub(super) tests: Vec<NetTest>,
    row_numbers: HashMap<NetRow, u32>,
    test_numbers: HashMap<NetTest, u32>,
}

/// The construction of the nodes for one set of rules.
pub(super) struct Builder<'d, L> {
    diagram: &'d mut Diagram,
    pieces: &'d [Piece],
    /// Makes the leaf for what is said.
    leaf: L,
    /// Nodes that only ask for the port, by the pieces that are left and what is said already.
    ports: HashMap<(Vec<u32>, Said, u16, u16), u32>,
}

impl<'d, L: FnMut(Said) -> u32> Builder<'d, L> {
    pub(super) fn new(diagram: &'d mut Diagram, pieces: &'d [Piece], leaf: L) -> Self {
        Self {
            diagram,
            pieces,
            leaf,
            ports: HashMap::new(),
        }
    }

    /// The node that answers for a region.
    pub(super) fn node(&mut self, region: Region) -> Result<u32, TooLarge> {
        self.build(region, &self.all(), Said::default())
    }

    /// The nodes behind each value of the byte that follows the region's prefix.
    pub(super) fn bytes(&mut self, region: Region) -> Result<[u32; 256], TooLarge> {
        self.branch(region, &self.all(), Said::default())
    }

    fn all(&self) -> Vec<u32> {
        (0..).zip(self.pieces).map(|(number, _)| number).collect()
    }

    fn piece(&self, number: u32) -> &'d Piece {
        &self.pieces[number as usize]
    }

    fn build(&mut self, region: Region, candidates: &[u32], said: Said) -> Result<u32, TooLarge> {
        let mut said = said;
        let mut rest = Vec::new();
        for &number in candidates {
            let piece = self.piece(number);
            match piece.region.relation(&region) {
                Relation::Covers => said = said.and(piece.said),
                Relation::Overlaps => rest.push(number),
                Relation::Disjoint => {}
            }
        }
        // What is denied everywhere here is not asked again.
        rest.retain(|&number| said.and(self.piece(number).said) != said);
        if rest.is_empty() {
            return Ok((self.leaf)(said));
        }
        let (networks, ports): (Vec<u32>, Vec<u32>) = rest
            .iter()
            .partition(|&&number| self.piece(number).region.bits > region.bits);
        if networks.is_empty() {
            return self.search_ports(region, ports, said);
        }
        if rest.len() <= CHAIN {
            return self.ask(region, &rest, said);
        }
        let common = self.common_prefix(&networks) / 8 * 8;
        if common > region.bits {
            let address = self.piece(networks[0]).region.address;
            let inner = Region::network(address, common).with_ports(region.first, region.last);
            let inside = self.build(inner, &rest, said)?;
            let outside = self.build(region, &ports, said)?;
            return self.test(&inner.with_ports(0, u16::MAX), inside, outside, rest[0]);
        }
        let next = self.branch(region, &rest, said)?;
        self.row(&next, place(region.bits), rest[0])
    }

    /// Asks for the narrowest of a few pieces.
    fn ask(&mut self, region: Region, rest: &[u32], said: Said) -> Result<u32, TooLarge> {
        let narrowest = rest
            .iter()
            .copied()
            .max_by_key(|&number| (self.piece(number).region.bits, std::cmp::Reverse(number)))
            .unwrap_or_default();
        let piece = self.piece(narrowest);
        let others: Vec<u32> = rest
            .iter()
            .copied()
            .filter(|&number| number != narrowest)
            .collect();
        let inner = region.intersection(&piece.region);
        let inside = self.build(inner, &others, said.and(piece.said))?;
        let outside = self.build(region, &others, said)?;
        self.test(&piece.region, inside, outside, narrowest)
    }

    /// How many first bits all these pieces share.
    fn common_prefix(&self, networks: &[u32]) -> u32 {
        let first = self.piece(networks[0]).region;
        networks.iter().fold(first.bits, |common, &number| {
            let other = self.piece(number).region;
            let equal = (first.address ^ other.address).leading_zeros();
            common.min(other.bits).min(equal)
        })
    }

    fn branch(&mut self, region: Region, candidates: &[u32], said: Said) -> Result<[u32; 256], TooLarge> {
        debug_assert!(region.bits < 128 && region.bits.is_multiple_of(8));
        let shift = 120 - region.bits;
        let mut buckets: Vec<Vec<u32>> = vec![Vec::new(); 256];
        for &number in candidates {
            let piece = self.piece(number).region;
            // The bytes that the piece's network has here: one, some or all.
            let fixed = piece.bits.saturating_sub(region.bits).min(8);
            let first = if fixed == 0 {
                0
            } else {
                (piece.address >> shift) as usize & 0xff
            };
            for bucket in &mut buckets[first..first + (1 << (8 - fixed))] {
                bucket.push(number);
            }
        }
        let mut next = [0; 256];
        for (byte, (slot, bucket)) in (0_u128..).zip(next.iter_mut().zip(&buckets)) {
            let child = Region {
                address: region.address | byte << shift,
                bits: region.bits + 8,
                ..region
            };
            *slot = self.build(child, bucket, said)?;
        }
        Ok(next)
    }

    /// The answer depends on the port alone.
    fn search_ports(&mut self, region: Region, rest: Vec<u32>, said: Said) -> Result<u32, TooLarge> {
        let key = (rest, said, region.first, region.last);
        if let Some(node) = self.ports.get(&key) {
            return Ok(*node);
        }
        let ranges = self.ranges(&region, &key.0, said);
        let rule = key.0[0];
        let node = if ranges.len() <= SEARCHED_RANGES {
            self.halve(&ranges, rule)?
        } else {
            self.port_rows(&ranges, rule)?
        };
        self.ports.insert(key, node);
        Ok(node)
    }

    /// The ports of a region as ranges of one answer each: (first port, leaf), in order.
    fn ranges(&mut self, region: &Region, rest: &[u32], said: Said) -> Vec<(u16, u32)> {
        let mut starts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut ends: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut borders = BTreeSet::from([u32::from(region.first)]);
        for &number in rest {
            let ports = self.piece(number).region;
            let (first, end) = (
                u32::from(ports.first.max(region.first)),
                u32::from(ports.last) + 1,
            );
            borders.insert(first);
            starts.entry(first).or_default().push(number);
            if end <= u32::from(region.last) {
                borders.insert(end);
                ends.entry(end).or_default().push(number);
            }
        }
        let mut active: BTreeSet<u32> = BTreeSet::new();
        let mut ranges: Vec<(u16, u32)> = Vec::new();
        for border in borders {
            for number in ends.remove(&border).unwrap_or_default() {
                active.remove(&number);
            }
            active.extend(starts.remove(&border).unwrap_or_default());
            let said = active
                .iter()
                .fold(said, |said, &number| said.and(self.piece(number).said));
            let leaf = (self.leaf)(said);
            let border = u16::try_from(border).expect("a border is a port");
            if ranges.last().is_none_or(|(_, last)| *last != leaf) {
                ranges.push((border, leaf));
            }
        }
        ranges
    }

    /// Searches a range by halves.
    fn halve(&mut self, ranges: &[(u16, u32)], rule: u32) -> Result<u32, TooLarge> {
        match ranges {
            [] => Ok(0),
            [(_, leaf)] => Ok(*leaf),
            // A range in the middle of another is one question.
            [(_, around), (first, leaf), (end, after)] if around == after => {
                let ports = Region::network(0, 0).with_ports(*first, end - 1);
                self.test(&ports, *leaf, *around, rule)
            }
            _ => {
                let (low, high) = ranges.split_at(ranges.len() / 2);
                let ports = Region::network(0, 0).with_ports(0, high[0].0 - 1);
                let (low, high) = (self.halve(low, rule)?, self.halve(high, rule)?);
                self.test(&ports, low, high, rule)
            }
        }
    }

    /// A row for the upper byte of the port, and one for the lower byte where the upper one does not tell.
    fn port_rows(&mut self, ranges: &[(u16, u32)], rule: u32) -> Result<u32, TooLarge> {
        let mut leaves = vec![0_u32; 1 << 16];
        for (index, (first, leaf)) in ranges.iter().enumerate() {
            let end = ranges
                .get(index + 1)
                .map_or(1 << 16, |(next, _)| usize::from(*next));
            leaves[usize::from(*first)..end].fill(*leaf);
        }
        let mut upper = [0; 256];
        for (slot, block) in upper.iter_mut().zip(leaves.chunks_exact(256)) {
            let mut lower = [0; 256];
            lower.copy_from_slice(block);
            *slot = if lower.iter().all(|leaf| *leaf == lower[0]) {
                lower[0]
            } else {
                self.row(&lower, PLACE_PORT, rule)?
            };
        }
        self.row(&upper, PLACE_PORT + 1, rule)
    }

    fn row(&mut self, next: &[u32; 256], place: u32, piece: u32) -> Result<u32, TooLarge> {
        if next.iter().all(|node| *node == next[0]) {
            return Ok(next[0]);
        }
        let diagram = &mut *self.diagram;
        let row = NetRow { next: *next };
        let index = match diagram.row_numbers.get(&row) {
            Some(index) => *index,
            None if diagram.rows.len() == ROW_BUDGET => {
                return Err(TooLarge {
                    rule: self.piece(piece).rule,
                });
            }
            None => {
                let index = u32::try_from(diagram.rows.len()).expect("the budget fits");
                diagram.rows.push(row);
                diagram.row_numbers.insert(row, index);
                index
            }
        };
        Ok(NODE_ROW << NODE_KIND_SHIFT | place << ROW_PLACE_SHIFT | index)
    }

    fn test(&mut self, region: &Region, inside: u32, outside: u32, piece: u32) -> Result<u32, TooLarge> {
        if inside == outside {
            return Ok(inside);
        }
        let ((hi, lo), (mask_hi, mask_lo)) = (halves(region.address), halves(prefix_mask(region.bits)));
        let test = NetTest {
            hi,
            lo,
            mask_hi,
            mask_lo,
            first: u32::from(region.first),
            span: u32::from(region.last - region.first),
            inside,
            outside,
        };
        let diagram = &mut *self.diagram;
        let index = match diagram.test_numbers.get(&test) {
            Some(index) => *index,
            None if diagram.tests.len() == TEST_BUDGET => {
                return Err(TooLarge {
                    rule: self.piece(piece).rule,
                });
            }
            None => {
                let index = u32::try_from(diagram.tests.len()).expect("the budget fits");
                diagram.tests.push(test);
                diagram.test_numbers.insert(test, index);
                index
            }
        };
        Ok(NODE_TEST << NODE_KIND_SHIFT | index)
    }
}

/// The place of the byte behind a prefix of whole bytes.
fn place(bits: u32) -> u32 {
    if bits < 64 {
        PLACE_HIGH + (56 - bits) / 8
    } else {
        PLACE_LOW + (120 - bits) / 8
    }
}

fn halves(bits: u128) -> (u64, u64) {
    crate::matcher::halves(bits.into())
}
