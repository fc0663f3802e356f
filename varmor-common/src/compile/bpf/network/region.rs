//! Networks with ports: what a rule is about, and the part of the world that a node of the diagram stands for.

/// A network (IPv4 as v4-mapped) and a range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Region {
    /// The network; the bits behind its prefix are zero.
    pub(super) address: u128,
    /// Length of the prefix, 0..=128.
    pub(super) bits: u32,
    pub(super) first: u16,
    pub(super) last: u16,
}

/// How a rule's region lies to a node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Covers,
    Overlaps,
    Disjoint,
}

/// The first `bits` bits of 128.
pub(super) const fn prefix_mask(bits: u32) -> u128 {
    match bits {
        0 => 0,
        bits => u128::MAX << (128 - bits),
    }
}

impl Region {
    pub(super) fn network(address: u128, bits: u32) -> Self {
        Self {
            address: address & prefix_mask(bits),
            bits,
            first: 0,
            last: u16::MAX,
        }
    }

    pub(super) fn with_ports(self, first: u16, last: u16) -> Self {
        Self { first, last, ..self }
    }

    /// How `self` lies to the region of a node.
    pub(super) fn relation(&self, node: &Self) -> Relation {
        let common = prefix_mask(self.bits.min(node.bits));
        if (self.address ^ node.address) & common != 0 || self.first > node.last || self.last < node.first {
            return Relation::Disjoint;
        }
        if self.bits <= node.bits && self.first <= node.first && self.last >= node.last {
            Relation::Covers
        } else {
            Relation::Overlaps
        }
    }

    /// The common part of two regions that are not disjoint.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let narrow = if self.bits >= other.bits { self } else { other };
        Self {
            address: narrow.address,
            bits: narrow.bits,
            first: self.first.max(other.first),
            last: self.last.min(other.last),
        }
    }
}
