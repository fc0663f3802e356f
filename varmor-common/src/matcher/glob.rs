//! Byte automata: one for the globs of all names of a profile, one for the sources of mounts.

mod byteset;
mod determinise;
mod names;
mod sources;

pub use byteset::ByteSet;
pub use names::{NameGlobs, build as name_globs};
pub use sources::build as mount_sources;

use crate::abi::{GLOB_DEAD, GLOB_START, GlobRow};
use crate::matcher::glob_step;

/// A pattern of one file name that is neither literal nor `*` alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Glob(pub Vec<Item>);

/// One element of a glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    Byte(u8),
    Set(ByteSet),
    /// Any run of bytes, also none.
    Star,
}

/// The byte automaton would have more states than a row can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRows;

/// What the automaton says about a whole text; 0 for an empty automaton.
#[must_use]
pub fn run(rows: &[GlobRow], text: &[u8]) -> u64 {
    let mut state = GLOB_START;
    for &byte in text {
        let Some(row) = rows.get(state as usize) else {
            return 0;
        };
        state = glob_step(row, byte);
        if state == GLOB_DEAD {
            return 0;
        }
    }
    rows.get(state as usize).map_or(0, |row| row.accept)
}
