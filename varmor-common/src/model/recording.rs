//! What a workload did while it was recorded.

use std::collections::{BTreeMap, BTreeSet};

use crate::abi::PERM_EXEC;
use crate::analysis::{Operation, Recorded, Unusable};
use crate::matcher::name_hash;
use crate::policy::Losses;

/// Different operations that a recording holds; what is more is counted.
const MAX_OPERATIONS: usize = 200_000;
const SECOND: u64 = 1_000_000_000;
/// Any key will do: it only has to choose the same operations every time.
const KEY: u64 = 7;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    operations: BTreeMap<Operation, Seen>,
    /// Files that were executed as a program; others were mapped only.
    programs: BTreeSet<String>,
    /// Files whose names were changed: `AppArmor` asks for reading as well.
    renamed: BTreeSet<String>,
    pub syscalls: BTreeSet<String>,
    pub losses: Losses,
    /// What is not in the operations, and why, with the number of events.
    unhandled: BTreeMap<String, u64>,
}

/// When, in seconds since the epoch, and how often in that second.
type Seen = BTreeMap<u64, u64>;

/// Which part of a recording is not learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldOut {
    /// The last so many percent of the time.
    Time(u8),
    /// So many percent of the different operations, by the hash of their text.
    Operations(u8),
}

impl Recording {
    /// Takes one line of `violations.log`; whether it is an event that counts here. Only a line that is no event at
    /// all is an error.
    pub fn add(&mut self, line: &str) -> Result<bool, Unusable> {
        match Recorded::of_recording(line) {
            Ok(recorded) if recorded.denied => {
                // It did not happen, so it is not known what would have followed.
                self.note(format!("refused by {}: {}", recorded.rule, recorded.operation), 1);
                Ok(false)
            }
            Ok(recorded) => {
                self.record(recorded);
                Ok(true)
            }
            Err(Unusable::Other(reason)) => {
                self.note(reason, 1);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn record(&mut self, recorded: Recorded) {
        if let Operation::File { path, access, .. } = &recorded.operation {
            // In events control characters and bytes that are no text are spelled out, and so the name is not known.
            if path.contains('\\') {
                return self.note(
                    format!("the path `{path}` has bytes that are no text"),
                    recorded.count,
                );
            }
            match recorded.hook.as_str() {
                "mmap" | "mprotect" => {}
                "rename" | "link" => {
                    self.renamed.insert(path.clone());
                }
                _ if access & PERM_EXEC == 0 => {}
                _ => {
                    self.programs.insert(path.clone());
                }
            }
        }
        let is_full = self.operations.len() >= MAX_OPERATIONS;
        if is_full && !self.operations.contains_key(&recorded.operation) {
            self.losses.overflow += recorded.count;
            return;
        }
        let seen = self.operations.entry(recorded.operation).or_default();
        *seen.entry(recorded.time / SECOND).or_default() += recorded.count;
    }

    /// Something happened that no operation stands for; with 0 events, nobody knows how often.
    pub fn note(&mut self, what: String, count: u64) {
        *self.unhandled.entry(what).or_default() += count;
    }

    /// Each operation, and how often it was seen.
    pub fn operations(&self) -> impl Iterator<Item = (&Operation, u64)> {
        self.operations
            .iter()
            .map(|(operation, seen)| (operation, seen.values().sum()))
    }

    pub(super) fn is_program(&self, path: &str) -> bool {
        self.programs.contains(path)
    }

    pub(super) fn is_renamed(&self, path: &str) -> bool {
        self.renamed.contains(path)
    }

    pub(super) fn unhandled(&self) -> impl Iterator<Item = String> {
        self.unhandled.iter().map(|(what, count)| match count {
            0 => what.clone(),
            _ => format!("{what} ({count} events)"),
        })
    }

    #[must_use]
    pub fn events(&self) -> u64 {
        self.operations().map(|(_, count)| count).sum()
    }

    /// Different operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The part to learn from, and the one that is held out. System calls have no time: they stay in the first.
    #[must_use]
    pub fn split(&self, hold_out: HoldOut) -> (Self, Self) {
        let times = self.operations.values().flat_map(|seen| seen.keys().copied());
        let (first, last) = times.fold((u64::MAX, 0), |(first, last), time| {
            (first.min(time), last.max(time))
        });
        let is_held = |operation: &Operation, time: u64| match hold_out {
            HoldOut::Time(percent) => {
                let span = last.saturating_sub(first);
                time > last - span * u64::from(percent.min(100)) / 100
            }
            HoldOut::Operations(percent) => {
                name_hash(KEY, operation.to_string().as_bytes()) % 100 < u64::from(percent)
            }
        };
        let (mut kept, mut held) = (self.clone(), Self::default());
        kept.operations.clear();
        for (operation, seen) in &self.operations {
            for (time, count) in seen {
                let part = if is_held(operation, *time) {
                    &mut held
                } else {
                    &mut kept
                };
                let seen = part.operations.entry(operation.clone()).or_default();
                *seen.entry(*time).or_default() += count;
            }
        }
        (kept, held)
    }
}
