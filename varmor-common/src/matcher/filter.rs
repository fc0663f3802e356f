//! The filter in front of the transitions: one byte per slot tells most names that no rule knows them.
//!
//! A byte and not a bit, because a bit needs shifts by a variable number, which cost ten instructions on a common
//! processor, and the walk asks for every component. The byte is 0 for no symbol, the tag of the only symbol of the slot, or
//! `SEVERAL`. For a slot with several symbols a second table with other bits of the symbol is asked: a call of a function,
//! which costs more than everything else here. With 20,000 different names four look-ups in a hundred make it, and one in
//! three hundred is in vain.

use crate::abi::{FILTER, FILTER_SEVERAL};

/// The slot has more than one symbol.
const SEVERAL: u8 = 0xff;

/// Whether the tables may know `symbol`. `first` and `second` give the entry of a slot, which they have to bound by
/// `FILTER` and `FILTER_SEVERAL`.
#[inline(always)]
pub fn admits(symbol: u64, first: impl FnOnce(u64) -> u8, second: impl FnOnce(u64) -> u8) -> bool {
    let entry = first(symbol);
    if entry != SEVERAL {
        return entry == tag(symbol);
    }
    let symbol = other_bits(symbol);
    let entry = second(symbol);
    entry == tag(symbol) || entry == SEVERAL
}

/// 1 to 128, of the highest bits; the lowest bits are the slot.
#[inline(always)]
const fn tag(symbol: u64) -> u8 {
    (symbol >> 57) as u8 + 1
}

/// Slot and tag of the second table have nothing in common with those of the first: the tag's bits go up, the slot's
/// come down.
#[inline(always)]
const fn other_bits(symbol: u64) -> u64 {
    let slots = FILTER_SEVERAL as u64 - 1;
    symbol << 7 & !slots | symbol >> FILTER.trailing_zeros() & slots
}

/// Fills both tables.
#[cfg(feature = "std")]
pub fn fill(
    symbols: impl Iterator<Item = u64> + Clone,
    first: &mut [u8; FILTER],
    second: &mut [u8; FILTER_SEVERAL],
) {
    for symbol in symbols.clone() {
        add(first, symbol);
    }
    for symbol in symbols {
        if first[slot(symbol, FILTER)] == SEVERAL {
            add(second, other_bits(symbol));
        }
    }
}

#[cfg(feature = "std")]
fn add(entries: &mut [u8], symbol: u64) {
    let entry = &mut entries[slot(symbol, entries.len())];
    *entry = match *entry {
        0 => tag(symbol),
        same if same == tag(symbol) => same,
        _ => SEVERAL,
    };
}

/// The slot of a symbol in a table of `size`, a power of two, entries.
#[cfg(feature = "std")]
#[expect(clippy::cast_possible_truncation, reason = "a slot is below the size")]
pub(super) fn slot(symbol: u64, size: usize) -> usize {
    symbol as usize & (size - 1)
}

#[cfg(test)]
mod tests {
    use super::{FILTER, FILTER_SEVERAL, SEVERAL, admits, fill, slot};

    struct Filter(Box<[u8; FILTER]>, Box<[u8; FILTER_SEVERAL]>);

    impl Filter {
        fn of(symbols: impl Iterator<Item = u64> + Clone) -> Self {
            let mut filter = Self(
                Box::<[u8; FILTER]>::try_from(vec![0; FILTER]).expect("the length is right"),
                Box::<[u8; FILTER_SEVERAL]>::try_from(vec![0; FILTER_SEVERAL]).expect("the length is right"),
            );
            fill(symbols, &mut filter.0, &mut filter.1);
            filter
        }

        fn admits(&self, symbol: u64) -> bool {
            admits(
                symbol,
                |symbol| self.0[slot(symbol, FILTER)],
                |symbol| self.1[slot(symbol, FILTER_SEVERAL)],
            )
        }
    }

    fn symbols(seed: u64, number: u64) -> impl Iterator<Item = u64> + Clone {
        // The finaliser of SplitMix64: every bit of a symbol depends on every bit of the number.
        (1..=number).map(move |n| {
            let mut z = (n + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        })
    }

    #[test]
    fn every_added_symbol_is_admitted() {
        for number in [1, 100, 10_000, 200_000] {
            let filter = Filter::of(symbols(0, number));
            assert!(symbols(0, number).all(|symbol| filter.admits(symbol)), "{number}");
        }
    }

    #[test]
    fn a_slot_of_one_symbol_refuses_most_others() {
        let filter = Filter::of(std::iter::once(5));
        assert!(filter.admits(5));
        let others = (1..127u64).map(|n| n << 57 | 5);
        assert!(others.filter(|other| filter.admits(*other)).count() == 0);
    }

    /// As many as 10,000 rules about files and as many about programs have.
    #[test]
    fn twenty_thousand_names_admit_few_others_and_seldom_ask_twice() {
        let filter = Filter::of(symbols(0, 20_000));
        let (mut admitted, mut asked) = (0, 0);
        for symbol in symbols(1 << 40, 100_000) {
            admitted += usize::from(filter.admits(symbol));
            asked += usize::from(filter.0[slot(symbol, FILTER)] == SEVERAL);
        }
        assert!(admitted < 400, "{admitted} of 100,000");
        assert!(asked < 4500, "{asked} of 100,000");
    }
}
