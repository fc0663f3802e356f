//! The filter in front of the transitions: one byte per slot tells most names that no rule knows them.
//!
//! A byte and not a bit, because a bit needs shifts by a variable number, which cost ten instructions on a common
//! processor, and the walk asks for every component. The byte is 0 for no symbol, the tag of the only symbol of the slot, or
//! `SEVERAL`. With 10,000 different names one look-up in twenty-five is in vain.

use crate::abi::FILTER;

/// The slot has more than one symbol.
const SEVERAL: u8 = 0xff;

/// The slot of a symbol, before it is bounded by `FILTER`.
#[inline(always)]
#[must_use]
pub const fn slot(symbol: u64) -> u64 {
    symbol & (FILTER as u64 - 1)
}

/// Whether a slot that holds `entry` may know `symbol`.
#[inline(always)]
#[must_use]
pub const fn admits(entry: u8, symbol: u64) -> bool {
    entry != 0 && (entry == tag(symbol) || entry == SEVERAL)
}

/// Adds a symbol.
#[expect(clippy::cast_possible_truncation, reason = "a slot is below `FILTER`")]
pub fn add(filter: &mut [u8; FILTER], symbol: u64) {
    let entry = &mut filter[slot(symbol) as usize];
    *entry = match *entry {
        0 => tag(symbol),
        same if same == tag(symbol) => same,
        _ => SEVERAL,
    };
}

/// 1 to 128.
#[inline(always)]
const fn tag(symbol: u64) -> u8 {
    (symbol >> 57) as u8 + 1
}

#[cfg(test)]
mod tests {
    use super::{FILTER, add, admits, slot};

    fn admitted(filter: &[u8; FILTER], symbol: u64) -> bool {
        admits(
            filter[usize::try_from(slot(symbol)).expect("below FILTER")],
            symbol,
        )
    }

    #[test]
    fn every_added_symbol_is_admitted() {
        let mut filter = Box::<[u8; FILTER]>::try_from(vec![0; FILTER]).expect("the length is right");
        let symbols = || (1..20_000u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for symbol in symbols() {
            add(&mut filter, symbol);
        }
        assert!(symbols().all(|symbol| admitted(&filter, symbol)));
    }

    #[test]
    fn a_slot_of_one_symbol_refuses_most_others() {
        let mut filter = Box::<[u8; FILTER]>::try_from(vec![0; FILTER]).expect("the length is right");
        add(&mut filter, 5);
        assert!(admitted(&filter, 5));
        let others = (1..127u64).map(|n| n << 57 | 5);
        assert!(others.filter(|other| admitted(&filter, *other)).count() == 0);
    }
}
