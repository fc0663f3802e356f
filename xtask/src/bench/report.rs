//! What the guest measured, and what it means: tables, JSON, verdicts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    operations,
    protocol::{Line, Runs},
    systems::{EMPTY, NOTHING, UNCONCERNED, UNPROTECTED},
    verdict::{self, Verdict},
};
use crate::kernel::Series;

/// The kernel that no guest booted, in tables.
const THIS_MACHINE: &str = "native";

/// The measurements of one boot, or of one block on this machine.
pub(super) struct Report {
    /// Of the guest; this machine has its own.
    pub(super) kernel: Option<Series>,
    /// `uname -r`.
    pub(super) release: String,
    /// Systems in the order in which they were measured.
    systems: Vec<String>,
    samples: BTreeMap<(String, String), Sample>,
    /// Per operation: how often a thousand of it pass each hook.
    passes: BTreeMap<String, BTreeMap<String, u64>>,
    /// By operation and system: what a thousand operations cost in each program.
    programs: BTreeMap<(String, String), BTreeMap<String, Runs>>,
    notes: BTreeMap<String, String>,
    problems: Vec<String>,
}

struct Sample {
    rounds: u32,
    /// Instructions of each batch, smallest first.
    batches: Vec<u64>,
    /// In the order in which they were measured.
    measured: Vec<u64>,
}

impl Sample {
    fn per_operation(&self, instructions: u64) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a batch has fewer than 2^52 instructions"
        )]
        let instructions = instructions as f64;
        instructions / f64::from(self.rounds)
    }

    /// A minority of batches is disturbed, by a tick of the clock or the freeing of memory.
    fn median(&self) -> f64 {
        self.per_operation(self.batches[self.batches.len() / 2])
    }

    /// Between the tenth part of the batches that is smallest and the one that is largest.
    fn spread(&self) -> f64 {
        let tenth = self.batches.len() / 10;
        let (low, high) = (self.batches[tenth], self.batches[self.batches.len() - 1 - tenth]);
        self.per_operation(high - low)
    }
}

impl Report {
    pub(super) fn new(kernel: impl Into<Option<Series>>) -> Self {
        Self {
            kernel: kernel.into(),
            release: String::new(),
            systems: Vec::new(),
            samples: BTreeMap::new(),
            passes: BTreeMap::new(),
            programs: BTreeMap::new(),
            notes: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    /// Adds a line of the guest; returns the name of a system that is new.
    pub(super) fn take(&mut self, line: Line) -> Option<String> {
        match line {
            Line::Sample {
                system,
                operation,
                rounds,
                batches: measured,
            } => {
                if measured.is_empty() || rounds == 0 {
                    self.problems
                        .push(format!("{system}, {operation}: nothing was measured"));
                    return None;
                }
                let mut batches = measured.clone();
                batches.sort_unstable();
                let new = !self.systems.contains(&system);
                if new {
                    self.systems.push(system.clone());
                }
                let sample = Sample {
                    rounds,
                    batches,
                    measured,
                };
                self.samples.insert((system.clone(), operation), sample);
                return new.then_some(system);
            }
            Line::Hooks { operation, passes } => {
                self.passes.insert(operation, passes);
            }
            Line::Programs {
                system,
                operation,
                programs,
            } => {
                self.programs.insert((operation, system), programs);
            }
            Line::Note { system, text } => {
                self.notes.insert(system, text);
            }
            Line::Problem {
                system,
                operation,
                text,
            } => {
                let operation = operation.map(|name| format!(", {name}")).unwrap_or_default();
                self.problems.push(format!("{system}{operation}: {text}"));
            }
        }
        None
    }

    /// A block on this machine: each system was measured once in an order and once in the reverse order. What is kept is the
    /// geometric mean of the two, and nothing of what was measured only once.
    pub(super) fn mirrored(first: &Self, second: &Self) -> Self {
        let mut block = Self::new(None);
        block.release.clone_from(&first.release);
        for ((system, operation), sample) in &first.samples {
            let Some(again) = second.sample(system, operation) else {
                continue;
            };
            let mean = (sample.median() * again.median()).sqrt().round();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between two numbers that were measured"
            )]
            let batches = vec![mean as u64];
            block.take(Line::Sample {
                system: system.clone(),
                operation: operation.clone(),
                rounds: 1,
                batches,
            });
        }
        let problems = first.problems.iter().chain(&second.problems);
        for problem in problems {
            if !block.problems.contains(problem) {
                block.problems.push(problem.clone());
            }
        }
        block
    }

    /// What tables call the kernel.
    pub(super) fn kernel_name(&self) -> &'static str {
        self.kernel.map_or(THIS_MACHINE, Series::name)
    }

    /// The guest died; what it had measured is here.
    pub(super) fn broken_off(&mut self, why: &str) {
        self.problems.push(why.to_owned());
    }

    pub(super) fn check(&self) -> Result<()> {
        let measured = |(system, _): &&(String, String)| system == NOTHING;
        ensure!(
            self.samples.keys().any(|key| measured(&key)),
            "nothing was measured: {}",
            self.problems.join("; ")
        );
        Ok(())
    }

    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    fn sample(&self, system: &str, operation: &str) -> Option<&Sample> {
        self.samples.get(&(system.to_owned(), operation.to_owned()))
    }

    /// Instructions of an operation under a system.
    pub(super) fn total(&self, system: &str, operation: &str) -> Option<f64> {
        self.sample(system, operation).map(Sample::median)
    }

    /// Instructions of an operation in each batch, in the order of time.
    pub(super) fn values(&self, system: &str, operation: &str) -> Vec<f64> {
        let sample = self.sample(system, operation);
        let values = sample.map(|sample| {
            let batches = sample.measured.iter();
            batches.map(|batch| sample.per_operation(*batch)).collect()
        });
        values.unwrap_or_default()
    }

    /// Instructions that a system adds to an operation.
    pub(super) fn added(&self, system: &str, operation: &str) -> Option<f64> {
        Some(self.total(system, operation)? - self.total(NOTHING, operation)?)
    }

    /// How many programs of the product one operation runs.
    pub(super) fn hooks(&self, operation: &str) -> Option<f64> {
        let passes = self.passes.get(operation)?;
        let thousandths: u64 = passes.values().sum();
        Some(f64::from(u32::try_from(thousandths).ok()?) / 1000.0)
    }

    /// Whether the product attached a program under `system` that the operation passes.
    pub(super) fn concerned(&self, system: &str, operation: &str) -> Option<bool> {
        let attached: BTreeSet<&str> = self.notes.get(system)?.split_whitespace().collect();
        let passes = self.passes.get(operation)?;
        Some(passes.keys().any(|hook| attached.contains(hook.as_str())))
    }

    fn operations(&self) -> impl Iterator<Item = &'static operations::Operation> {
        operations::ALL
            .iter()
            .filter(|operation| self.sample(NOTHING, operation.name).is_some())
    }

    /// One line per measurement.
    pub(super) fn numbers(&self) -> String {
        let mut text = String::new();
        for operation in self.operations() {
            for system in &self.systems {
                if let Some(sample) = self.sample(system, operation.name) {
                    let added = self.added(system, operation.name).unwrap_or_default();
                    line(
                        &mut text,
                        format_args!(
                            "{:<5} {:<16} {system:<16} {:>10.1} added {added:>8.1} spread {:.1}",
                            self.kernel_name(),
                            operation.name,
                            sample.median(),
                            sample.spread()
                        ),
                    );
                }
            }
        }
        for ((operation, system), programs) in &self.programs {
            for (hook, Runs { runs, instructions }) in programs {
                let (runs, each) = (per_thousand(*runs), per_thousand(*instructions));
                line(
                    &mut text,
                    format_args!(
                        "{:<5} {operation:<16} {system:<16} {hook:<24} {runs:>6.1} runs {each:>8.1}",
                        self.kernel_name()
                    ),
                );
            }
        }
        text
    }

    /// Says how far another boot is from this one.
    pub(super) fn compare(&self, other: &Self) -> String {
        let mut different = Vec::new();
        for ((system, operation), sample) in &self.samples {
            let second = other.sample(system, operation);
            if second.is_none_or(|second| second.batches != sample.batches) {
                let medians = (sample.median(), second.map_or(f64::NAN, Sample::median));
                different.push(format!("{system} {operation} {:.1}/{:.1}", medians.0, medians.1));
            }
        }
        let all = self.samples.len();
        let same = all - different.len();
        let rest = different.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
        format!("two boots: {same} of {all} measurements are equal in every batch; not: {rest}")
    }

    pub(super) fn json(&self) -> Result<String> {
        let measurements: Vec<_> = self
            .samples
            .iter()
            .map(|((system, operation), sample)| {
                json!({
                    "system": system,
                    "operation": operation,
                    "rounds": sample.rounds,
                    "batches": sample.batches,
                    "instructions": sample.median(),
                    "spread": sample.spread(),
                    "added": self.added(system, operation),
                })
            })
            .collect();
        let verdicts: Vec<_> = verdict::all(self).iter().map(Verdict::json).collect();
        let value = json!({
            "kernel": self.kernel_name(),
            "release": self.release,
            "unit": "guest instructions per operation",
            "measurements": measurements,
            "hooks": self.passes,
            "attached": self.notes,
            "verdicts": verdicts,
            "problems": self.problems,
        });
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }

    /// The verdicts alone.
    pub(super) fn verdicts(&self) -> String {
        let mut text = String::new();
        for verdict in verdict::all(self) {
            line(&mut text, format_args!("{}: {verdict}", self.kernel_name()));
        }
        text
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "# Cost of hooks, kernel {}\n\nInstructions that a deterministic guest ({}) counted, per operation: median of the \
             batches. `{NOTHING}` is the whole operation with no program attached and no profile; every other column is what \
             is added to it. `{EMPTY}` = a program that does nothing on each hook that the product attaches; \
             `{UNPROTECTED}` = another task is under a policy with 8 rules of each kind; `{UNCONCERNED}` = another task is \
             under a policy with one capability rule.\n\n",
            self.kernel_name(),
            self.release
        );
        let columns: Vec<&String> = self.systems.iter().filter(|name| *name != NOTHING).collect();
        text.push_str("| operation | nothing | spread |");
        for name in &columns {
            text.extend([" ", name, " |"]);
        }
        text.push_str("\n|---|---:|---:|");
        text.push_str(&"---:|".repeat(columns.len()));
        text.push('\n');
        for operation in self.operations() {
            let sample = self.sample(NOTHING, operation.name);
            let (median, spread) = sample.map_or((0.0, 0.0), |sample| (sample.median(), sample.spread()));
            let _ = write!(text, "| {} | {median:.0} | {spread:.0} |", operation.name);
            for name in &columns {
                match self.added(name, operation.name) {
                    Some(added) => {
                        let _ = write!(text, " {added:+.0} |");
                    }
                    None => text.push_str(" - |"),
                }
            }
            text.push('\n');
        }
        text.push_str("\n## Operations\n\n| operation | what | programs of the product that it passes (and how often) |\n|---|---|---|\n");
        for operation in self.operations() {
            let passes = self.passes.get(operation.name).map(|passes| {
                let each = passes
                    .iter()
                    .map(|(hook, count)| format!("{hook} ×{}.{}", count / 1000, count % 1000 / 100));
                each.collect::<Vec<_>>().join(", ")
            });
            line(
                &mut text,
                format_args!(
                    "| {} | {} | {} |",
                    operation.name,
                    operation.does,
                    passes.unwrap_or_default()
                ),
            );
        }
        text.push_str(
            "\n## Verdicts\n\n| operation | what | added | at most | verdict |\n|---|---|---:|---:|---|\n",
        );
        for verdict in verdict::all(self) {
            line(&mut text, format_args!("{}", verdict.row()));
        }
        if !self.problems.is_empty() {
            text.push_str("\n## Not measured\n\n");
            for problem in &self.problems {
                line(&mut text, format_args!("- {problem}"));
            }
        }
        text
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn per_thousand(count: u64) -> f64 {
    count as f64 / 1000.0
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("a string takes every text");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Line, Report, Series};

    /// Two batches of ten rounds that are disturbed, and three that are not.
    fn sample(system: &str, operation: &str, instructions: u64) -> Line {
        let quiet = instructions * 10;
        Line::Sample {
            system: system.to_owned(),
            operation: operation.to_owned(),
            rounds: 10,
            batches: vec![quiet + 9000, quiet, quiet, quiet + 500, quiet],
        }
    }

    fn report(open: u64) -> Report {
        let mut report = Report::new(Series::V6_1);
        for (system, operation, instructions) in [
            ("nothing", "open-9", 7000),
            ("protected-8", "open-9", 7000 + open),
            ("protected-10000", "open-9", 7000 + open + 300),
            ("apparmor-8", "open-9", 9400),
            ("nothing", "stat", 5000),
            ("unconcerned", "stat", 5007),
            ("unconcerned", "open-9", 7250),
        ] {
            report.take(sample(system, operation, instructions));
        }
        let hooks = BTreeMap::from([("file_open".to_owned(), 1000)]);
        for (operation, passes) in [("open-9", hooks), ("stat", BTreeMap::new())] {
            let operation = operation.to_owned();
            report.take(Line::Hooks { operation, passes });
        }
        report.take(Line::Note {
            system: "unconcerned".to_owned(),
            text: "file_open task_alloc".to_owned(),
        });
        report
    }

    #[test]
    fn disturbed_batches_do_not_count() {
        assert_eq!(report(1900).added("protected-8", "open-9"), Some(1900.0));
    }

    #[test]
    fn block_is_the_mean_of_its_halves_and_nothing_of_what_one_has_not() {
        let half = |nothing: u64, seccomp: Option<u64>| {
            let mut report = Report::new(None);
            report.take(sample("nothing", "redis", nothing));
            if let Some(seccomp) = seccomp {
                report.take(sample("seccomp", "redis", seccomp));
            }
            report.broken_off("BPF: not here");
            report
        };
        let block = Report::mirrored(&half(100, Some(300)), &half(400, None));
        assert_eq!(block.total("nothing", "redis"), Some(200.0));
        assert_eq!(block.total("seccomp", "redis"), None);
        assert_eq!(block.problems(), ["BPF: not here"]);
        assert_eq!(block.kernel_name(), "native");
    }

    #[test]
    fn target_that_is_missed_says_by_how_much() {
        let text = report(2100).verdicts();
        assert!(text.contains("2100 of   2000: missed by 100"), "{text}");
        assert!(!report(1700).verdicts().contains("of   2000: missed"));
    }

    #[test]
    fn many_rules_that_cost_more_than_few_are_a_miss() {
        let text = report(1900).verdicts();
        assert!(text.contains("300 of    220: missed by 80"), "{text}");
    }

    #[test]
    fn unneeded_hook_must_cost_nothing_where_no_program_is_passed() {
        let text = report(1900).verdicts();
        assert_eq!(text.matches("no policy needs the hook").count(), 1);
        assert!(text.contains("7 of      1: missed by 6"), "{text}");
    }

    #[test]
    fn every_system_has_a_column_and_every_operation_a_row() {
        let text = report(1900).markdown();
        assert!(text.contains(
            "| operation | nothing | spread | protected-8 | protected-10000 | apparmor-8 | unconcerned |"
        ));
        assert!(text.contains("| stat | 5000 | 900 | - | - | - | +7 |"), "{text}");
    }

    #[test]
    fn boots_are_compared_batch_by_batch() {
        assert!(report(1900).compare(&report(1900)).contains("7 of 7"));
        assert!(report(1900).compare(&report(1901)).contains("5 of 7"));
    }
}
