//! Network rules: from what is asked to a leaf of the profile's decision diagram.

use varmor_common::{
    abi::NetTest,
    matcher::{Network, is_leaf, leaf, resolve},
};

use crate::maps;

/// What [`resolve_from`] returns when a table has no entry where one must be.
const DAMAGED: u64 = u64::MAX;

/// The tables of one artefact.
struct Tables(u32);

impl Network for Tables {
    #[inline(always)]
    fn successor(&self, row: u32, byte: u8) -> Option<u32> {
        maps::net_row(self.0, row).map(|row| row.next[byte as usize])
    }

    #[inline(always)]
    fn test(&self, index: u32) -> Option<&NetTest> {
        maps::net_test(self.0, index)
    }
}

/// The answer for an address (IPv4 as v4-mapped) and a port, from a start of the profile: `VERDICT_*` bits, the site
/// above; `None` if the tables are damaged. Most starts are the answer already.
#[inline(always)]
pub fn answer(artefact: u32, start: u32, hi: u64, lo: u64, port: u32) -> Option<u64> {
    let mut node = u64::from(start);
    if !is_leaf(start) {
        node = resolve_from(artefact, start, hi, lo, port);
        if node == DAMAGED {
            return None;
        }
    }
    let said = leaf(node as u32);
    Some(u64::from(said.verdict) | u64::from(said.site) << 32)
}

/// The rest of the way, in a function of its own: the verifier walks through it once per program.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn resolve_from(artefact: u32, node: u32, hi: u64, lo: u64, port: u32) -> u64 {
    match resolve(&Tables(artefact), node, hi, lo, port as u16) {
        Some(node) => u64::from(node),
        None => DAMAGED,
    }
}
