//! A suite of programs: its columns, what is run for each, and how much of it.

use crate::bench::{
    preset::{Scale, cells::Workload},
    protocol::Work,
};

/// Instructions that count as a second.
const BILLION: f64 = 1e9;

/// Units of work for 10⁹ instructions, from the instructions of a unit.
pub(in crate::bench::preset) const fn rate(per_unit: f64) -> f64 {
    BILLION / per_unit
}

/// 10⁹ instructions for so many units of work.
pub(in crate::bench::preset) const fn time(per_unit: f64, units: f64) -> f64 {
    per_unit * units / BILLION
}

/// What the numbers of a table are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::bench::preset) enum Sense {
    /// Units of work for 10⁹ instructions: at a billion instructions a second, units in a second.
    Rate(&'static str),
    /// 10⁹ instructions for the whole work: at a billion instructions a second, seconds.
    Time,
}

pub(in crate::bench::preset) struct Suite {
    pub(in crate::bench::preset) name: &'static str,
    /// As the comparison calls it.
    pub(in crate::bench::preset) title: &'static str,
    pub(in crate::bench::preset) sense: Sense,
    pub(in crate::bench::preset) packages: &'static [&'static str],
    /// Of the guest, in MiB.
    pub(in crate::bench::preset) memory: u32,
    pub(in crate::bench::preset) columns: &'static [Column],
    /// Runs that are kept, of each column under each system of a block, by the work's scale.
    pub(in crate::bench::preset) runs: (u32, u32),
    /// What is run.
    pub(in crate::bench::preset) command: &'static str,
    /// What is not as in the profile behind the comparison.
    pub(in crate::bench::preset) differences: &'static str,
    /// Why its numbers are not to be believed yet; then it runs only when it is named.
    pub(in crate::bench::preset) unproven: Option<&'static str>,
    /// The same for the Phoronix Test Suite, if that can run it.
    pub(in crate::bench::preset) profile: Option<Profile>,
}

/// What a test profile of our own runs.
pub(in crate::bench::preset) struct Profile {
    /// For busybox's shell, under the policy: is given the operation, its amount of work, the processors and their cores, and prints
    /// a line with the result.
    pub(in crate::bench::preset) script: &'static str,
    /// What is not as in the profile behind the comparison.
    pub(in crate::bench::preset) differences: &'static str,
}

pub(in crate::bench::preset) struct Column {
    /// The name that the guest knows.
    pub(in crate::bench::preset) operation: &'static str,
    pub(in crate::bench::preset) title: &'static str,
    /// Units of work of one run.
    pub(in crate::bench::preset) smoke: u32,
    pub(in crate::bench::preset) std: u32,
}

impl Suite {
    pub(in crate::bench::preset) fn work(&self, scale: Scale) -> Vec<Work> {
        let work = |column: &Column| Work {
            name: column.operation.to_owned(),
            rounds: 1,
            batches: match scale {
                Scale::Smoke => self.runs.0,
                Scale::Std => self.runs.1,
            },
            amount: column.amount(scale),
        };
        self.columns.iter().map(work).collect()
    }

    pub(in crate::bench::preset) fn workloads(&self, scale: Scale) -> Vec<Workload> {
        let workload = |column: &Column| Workload {
            operation: column.operation,
            title: column.title,
            units: column.amount(scale),
        };
        self.columns.iter().map(workload).collect()
    }
}

impl Column {
    pub(in crate::bench::preset) fn amount(&self, scale: Scale) -> u32 {
        match scale {
            Scale::Smoke => self.smoke,
            Scale::Std => self.std,
        }
    }
}

pub(in crate::bench::preset) const fn column(
    operation: &'static str,
    title: &'static str,
    smoke: u32,
    std: u32,
) -> Column {
    Column {
        operation,
        title,
        smoke,
        std,
    }
}
