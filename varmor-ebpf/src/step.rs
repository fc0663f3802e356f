//! One step of the path automaton, over the tables of one artefact.

use varmor_common::{
    abi::{
        Descriptor, FILTER, FILTER_SEVERAL, GLOB_DEAD, GLOB_START, STATE_ENDS, STATE_GLOBS, STATE_LATE_GLOBS,
        Transition,
    },
    matcher::{Tables, class_symbol, filter, glob_step, merge, next},
};

use crate::{
    kernel::{mask, probe},
    maps::{self, state},
    offsets::{DENTRY_NAME, DENTRY_NAME_LEN, HASH_KEY},
    path::COLLECT_CLASSES,
};

#[inline(always)]
pub fn may_have(artefact: u32, profile: &Descriptor, symbol: u64) -> bool {
    filter::admits(
        symbol,
        |symbol| {
            let slot = mask::<{ FILTER as i32 - 1 }>(symbol) as usize;
            // SAFETY: `slot` is below `FILTER`.
            unsafe { *profile.filter.as_ptr().add(slot) }
        },
        |symbol| several(artefact, symbol) as u8,
    )
}

/// The entry of the second filter. A function of its own, for it is rarely asked.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn several(artefact: u32, symbol: u64) -> u32 {
    let Some(profile) = maps::descriptor(artefact) else {
        // Admitted: the step finds that the tables are damaged.
        return 0xff;
    };
    let slot = mask::<{ FILTER_SEVERAL as i32 - 1 }>(symbol) as usize;
    // SAFETY: `slot` is below `FILTER_SEVERAL`.
    u32::from(unsafe { *profile.filter_several.as_ptr().add(slot) })
}

/// The transitions of one artefact.
pub struct Transitions(pub &'static maps::TransitionTable);

impl Tables for Transitions {
    /// The filter was asked where it saves something; here the table itself answers.
    #[inline(always)]
    fn may_have(&self, _symbol: u64) -> bool {
        true
    }

    #[inline(always)]
    fn transition(&self, key: &Transition) -> Option<u32> {
        // SAFETY: entries of a loaded artefact never change, so the reference stays whole.
        unsafe { self.0.get(key) }.copied()
    }
}

/// A symbol that no rule has: the step takes the default.
pub const NO_SYMBOL: u64 = 0;

/// The state after one component in the high half, its flags in the low half, where no glob is asked. A function of its
/// own, like `enter`: the verifier walks through it once and not in every round of the walk.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn advance(artefact: u32, from: u32, symbol: u64) -> u64 {
    advanced(artefact, from, symbol, 0, 0)
}

#[inline(always)]
fn advanced(artefact: u32, from: u32, symbol: u64, name: u64, length: u32) -> u64 {
    let next = next_state(artefact, from, symbol, name, length);
    match state(artefact, next) {
        Some(record) => u64::from(next) << 32 | u64::from(record.flags),
        // State 0 says nothing and stays; the walk's end finds that the table is damaged.
        None => u64::from(STATE_ENDS),
    }
}

/// As [`advance`] with the globs, from the state before the name of `dentry`, which has this symbol. 0, which is no state
/// with its flags, if the name cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn advance_by_name(artefact: u32, from: u32, symbol: u64, dentry: u64) -> u64 {
    // Two short reads, no call of `advance`, and the symbol from outside: every chain of calls is short of stack.
    let Some(name) = probe(dentry + u64::from(DENTRY_NAME.load())) else {
        return 0;
    };
    let Some(length) = probe(dentry + u64::from(DENTRY_NAME_LEN.load())) else {
        return 0;
    };
    advanced(artefact, from, symbol, name, length)
}

/// Adds what a state says when it is entered.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn enter(artefact: u32, number: u32, collected: u64, request: u32) -> u64 {
    match state(artefact, number) {
        Some(record) => merge(collected, record.now, record.now_site, request),
        None => collected,
    }
}

/// As [`enter`] for the walks that may collect mount classes ([`COLLECT_CLASSES`]).
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn gather(artefact_request: u64, number: u32, collected: u64) -> u64 {
    let Some(record) = state(artefact_request as u32, number) else {
        return collected;
    };
    if artefact_request & COLLECT_CLASSES != 0 {
        collected | record.now
    } else {
        let request = (artefact_request >> 32) as u32 & 0xff;
        merge(collected, record.now, record.now_site, request)
    }
}

/// The state after one component; `name` (an address, 0 = the globs wait) is only read when the state has glob children.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn step(artefact: u32, number: u32, symbol: u64, name: u64, length: u32) -> u32 {
    next_state(artefact, number, symbol, name, length)
}

#[inline(always)]
fn next_state(artefact: u32, number: u32, symbol: u64, name: u64, length: u32) -> u32 {
    let Some(record) = state(artefact, number) else {
        return 0;
    };
    let has_globs = name != 0 && record.flags & (STATE_GLOBS | STATE_LATE_GLOBS) != 0;
    if symbol == NO_SYMBOL && !has_globs {
        return record.default;
    }
    let Some(transitions) = maps::TRANSITIONS.get(artefact) else {
        return record.default;
    };
    next(&Transitions(transitions), number, record, symbol, || {
        let class = if name == 0 {
            0
        } else {
            glob_class(artefact, name, length)
        };
        (class != 0).then(|| class_symbol(HASH_KEY.load(), class as u32))
    })
}

/// The class of a file name under the profile's component globs.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn glob_class(artefact: u32, name: u64, length: u32) -> u64 {
    let length = length & 255;
    let Some(rows) = maps::COMPONENT_GLOBS.get(artefact) else {
        return 0;
    };
    let mut current = GLOB_START;
    let mut offset = 0u32;
    while offset < 256 {
        if offset >= length || current == GLOB_DEAD {
            break;
        }
        let Some(word) = probe::<u64>(name + u64::from(offset)) else {
            return 0;
        };
        let mut word = word;
        let mut i = 0;
        while i < 8 {
            if offset + i >= length {
                break;
            }
            let Some(row) = maps::glob_row(rows, current) else {
                return 0;
            };
            current = glob_step(row, word as u8);
            word >>= 8;
            i += 1;
        }
        offset += 8;
    }
    maps::glob_row(rows, current).map_or(0, |row| row.accept)
}
