//! The rules of the gate.
//!
//! Counts of the same program in the same guest are equal to the instruction, but another build of the product moves the
//! guest's memory, and operations that make processes then differ by hundreds. So there are two rules. A single number may
//! grow by a part of what the operation costs without an enforcer. A growth under every policy may be smaller: scatter rarely has the same
//! sign under all of them, code that became longer always has.

use std::fmt::Write;

use super::counts::{Counts, Operation};
use crate::bench::systems;

/// Of an operation's own instructions, one number may grow by this part.
const PART: f64 = 0.01;
/// And what grows under every policy by this part.
const PART_OF_ALL: f64 = 0.0025;
/// So many instructions are always free.
const FREE: f64 = 20.0;

/// All numbers of a run beside those of the baseline.
pub(super) struct Comparison {
    rows: Vec<Row>,
    /// What one of both lacks.
    missing: Vec<String>,
    new: Vec<String>,
}

struct Row {
    operation: String,
    system: String,
    before: f64,
    now: f64,
    allowed: f64,
}

impl Row {
    fn growth(&self) -> f64 {
        self.now - self.before
    }

    fn has_grown(&self) -> bool {
        self.growth() > self.allowed
    }

    fn has_shrunk(&self) -> bool {
        -self.growth() > self.allowed
    }

    fn text(&self, what: &str) -> String {
        format!(
            "{what}: {:<14} {:<22} {:>8.0} -> {:>8.0} instructions added: {:+.0}, allowed {:+.0}\n",
            self.operation,
            self.system,
            self.before,
            self.now,
            self.growth(),
            self.allowed
        )
    }
}

impl Comparison {
    pub(super) fn new(baseline: &Counts, counts: &Counts) -> Self {
        let mut rows = Vec::new();
        let mut missing = Vec::new();
        for (name, before) in &baseline.operations {
            let Some(now) = counts.operations.get(name) else {
                missing.push(name.clone());
                continue;
            };
            rows.extend(of_operation(name, before, now, &mut missing));
        }
        let new = counts
            .operations
            .iter()
            .flat_map(|(name, now)| unknown(name, baseline.operations.get(name), now))
            .collect();
        Self { rows, missing, new }
    }

    pub(super) fn is_good(&self) -> bool {
        self.missing.is_empty() && !self.rows.is_empty() && !self.rows.iter().any(Row::has_grown)
    }

    /// What has grown, what has shrunk, what cannot be compared.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let grown: Vec<&Row> = self.rows.iter().filter(|row| row.has_grown()).collect();
        for row in &grown {
            text.push_str(&row.text("GROWN"));
        }
        for row in self.rows.iter().filter(|row| row.has_shrunk()) {
            text.push_str(&row.text("less"));
        }
        for name in &self.missing {
            let _ = writeln!(text, "MISSING: {name} is in the baseline and was not measured");
        }
        for name in &self.new {
            let _ = writeln!(text, "new: {name} is not in the baseline (--write adds it)");
        }
        let _ = writeln!(
            text,
            "{} comparisons: {} grown, {} missing",
            self.rows.len(),
            grown.len(),
            self.missing.len()
        );
        text
    }
}

/// What of an operation the baseline does not have: all of it, or some systems.
fn unknown(name: &str, before: Option<&Operation>, now: &Operation) -> Vec<String> {
    let Some(before) = before else {
        return vec![name.to_owned()];
    };
    let systems = now
        .added
        .keys()
        .filter(|system| !before.added.contains_key(*system));
    systems.map(|system| format!("{name} under {system}")).collect()
}

fn of_operation(name: &str, before: &Operation, now: &Operation, missing: &mut Vec<String>) -> Vec<Row> {
    // What runs without an enforcer is measured at the start and at the end. Where two runs moved by different amounts in
    // between, they cannot tell that difference from a growth.
    let moved = (now.again - before.again).abs();
    let row = |system: &str, before: f64, now: f64, allowed: f64| Row {
        operation: name.to_owned(),
        system: system.to_owned(),
        before,
        now,
        allowed: allowed + moved,
    };
    let mut rows = Vec::new();
    for (system, added) in &before.added {
        match now.added.get(system) {
            Some(now) => rows.push(row(system, *added, *now, FREE.max(PART * before.own))),
            None => missing.push(format!("{name} under {system}")),
        }
    }
    // The policy under which it grew least.
    let least = rows
        .iter()
        .filter(|row| systems::is_protected(&row.system))
        .min_by(|one, other| one.growth().total_cmp(&other.growth()));
    let all = least.map(|least| {
        let system = format!("every policy ({})", least.system);
        row(
            &system,
            least.before,
            least.now,
            FREE.max(PART_OF_ALL * before.own),
        )
    });
    rows.extend(all);
    rows
}

#[cfg(test)]
mod tests {
    use super::{super::counts::tests::counts, Comparison, Counts};

    /// The counts with so many more instructions under each system.
    fn more(own: f64, changes: [(&str, f64); 3]) -> (Counts, Counts) {
        let mut before = counts();
        before.operations.get_mut("open-9").unwrap().own = own;
        let mut now = before.clone();
        for (system, more) in changes {
            let open = now.operations.get_mut("open-9").unwrap();
            *open.added.get_mut(system).unwrap() += more;
        }
        (before, now)
    }

    fn comparison(own: f64, few: f64, many: f64, beside: f64) -> Comparison {
        let changes = [
            ("protected-8", few),
            ("protected-1000", many),
            ("unprotected", beside),
        ];
        let (before, now) = more(own, changes);
        Comparison::new(&before, &now)
    }

    #[test]
    fn same_counts_are_good() {
        let same = comparison(7855.0, 0.0, 0.0, 0.0);
        assert!(
            same.is_good() && same.text().contains("0 grown"),
            "{}",
            same.text()
        );
    }

    #[test]
    fn twenty_one_instructions_under_every_policy_are_a_growth() {
        assert!(comparison(7855.0, 20.0, 20.0, 20.0).is_good());
        let grown = comparison(7855.0, 21.0, 25.0, 0.0);
        assert!(!grown.is_good());
        assert!(
            grown
                .text()
                .contains("GROWN: open-9         every policy (protected-8)"),
            "{}",
            grown.text()
        );
    }

    #[test]
    fn scatter_of_one_number_is_none_but_a_hundredth_is() {
        assert!(comparison(7855.0, 78.0, 0.0, 0.0).is_good());
        assert!(!comparison(7855.0, 79.0, 0.0, 0.0).is_good());
        assert!(!comparison(7855.0, 0.0, 0.0, 79.0).is_good());
    }

    #[test]
    fn operation_that_makes_processes_scatters_but_a_new_hook_on_its_way_is_seen() {
        assert!(comparison(754_848.0, 600.0, -400.0, 900.0).is_good());
        assert!(!comparison(754_848.0, 2600.0, 1900.0, 900.0).is_good());
    }

    #[test]
    fn run_that_moved_by_itself_allows_as_much() {
        let (before, mut now) = more(
            7855.0,
            [
                ("protected-8", 60.0),
                ("protected-1000", 60.0),
                ("unprotected", 60.0),
            ],
        );
        assert!(!Comparison::new(&before, &now).is_good());
        now.operations.get_mut("open-9").unwrap().again += 60.0;
        assert!(Comparison::new(&before, &now).is_good());
    }

    #[test]
    fn what_was_not_measured_is_not_good() {
        let (before, mut now) = more(
            7855.0,
            [
                ("protected-8", 0.0),
                ("protected-1000", 0.0),
                ("unprotected", 0.0),
            ],
        );
        now.operations
            .get_mut("open-9")
            .unwrap()
            .added
            .remove("protected-8");
        assert!(
            Comparison::new(&before, &now)
                .text()
                .contains("MISSING: open-9 under protected-8")
        );
        now.operations.clear();
        assert!(!Comparison::new(&before, &now).is_good());
    }

    #[test]
    fn system_that_the_baseline_does_not_have_is_told_and_no_growth() {
        let now = counts();
        let mut before = now.clone();
        let open = before.operations.get_mut("open-9").unwrap();
        open.added.remove("protected-1000");
        let comparison = Comparison::new(&before, &now);
        assert!(comparison.is_good());
        let text = comparison.text();
        assert!(text.contains("new: open-9 under protected-1000"), "{text}");
    }

    #[test]
    fn less_is_good_news() {
        let less = comparison(7855.0, -900.0, -900.0, 0.0);
        assert!(
            less.is_good() && less.text().contains("less: open-9"),
            "{}",
            less.text()
        );
    }
}
