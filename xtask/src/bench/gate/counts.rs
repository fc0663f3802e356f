//! The few numbers of a measurement that are compared from one version to the next.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::bench::systems::{NOTHING, NOTHING_AGAIN, UNPROTECTED};

/// The policy that most users begin with: of its rules, many have wildcards.
pub(super) const RUNTIME_DEFAULT: &str = "RuntimeDefault-BPF";
/// Systems of the product whose costs are compared: a task beside a policy, and tasks under a small one, a large one, and a real one.
pub(super) const GATED: [&str; 4] = [UNPROTECTED, "protected-8", "protected-1000", RUNTIME_DEFAULT];
const UNIT: &str = "guest instructions per operation (tcg-icount), added to its own";

/// The content of a baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) kernel: String,
    /// `uname -r`: another package of the same kernel has other counts.
    pub(super) release: String,
    unit: String,
    pub(super) operations: BTreeMap<String, Operation>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Operation {
    /// Instructions without any enforcer.
    pub(super) own: f64,
    /// What the same differs by at the end of the run.
    pub(super) again: f64,
    /// By system.
    pub(super) added: BTreeMap<String, f64>,
}

/// What of a report of `bench hooks` is read.
#[derive(Deserialize)]
struct Report {
    kernel: String,
    release: String,
    measurements: Vec<Measurement>,
    #[serde(default)]
    problems: Vec<String>,
}

#[derive(Deserialize)]
struct Measurement {
    system: String,
    operation: String,
    instructions: f64,
    added: Option<f64>,
}

impl Counts {
    pub(super) fn read_report(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        Self::of_report(&text, file)
    }

    /// Takes from the JSON of a report what is compared.
    pub(super) fn of_report(text: &str, file: &Path) -> Result<Self> {
        let report: Report =
            serde_json::from_str(text).with_context(|| format!("understand {}", file.display()))?;
        ensure!(
            report.problems.is_empty(),
            "{}: not everything was measured: {}",
            file.display(),
            report.problems.join("; ")
        );
        let find = |system: &str, operation: &str| {
            let found = |one: &&Measurement| one.system == system && one.operation == operation;
            report.measurements.iter().find(found)
        };
        let mut operations = BTreeMap::new();
        for own in report.measurements.iter().filter(|one| one.system == NOTHING) {
            let name = own.operation.as_str();
            let added = GATED
                .iter()
                .filter_map(|system| Some(((*system).to_owned(), tenths(find(system, name)?.added?))))
                .collect();
            let again = find(NOTHING_AGAIN, name)
                .and_then(|again| again.added)
                .with_context(|| format!("{}: {name} was not measured again at the end", file.display()))?;
            let operation = Operation {
                own: tenths(own.instructions),
                again: tenths(again),
                added,
            };
            operations.insert(name.to_owned(), operation);
        }
        ensure!(
            !operations.is_empty(),
            "{}: no operation was measured without an enforcer",
            file.display()
        );
        Ok(Self {
            kernel: report.kernel,
            release: report.release,
            unit: UNIT.to_owned(),
            operations,
        })
    }

    pub(super) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// A tenth of an instruction is as much as can be told; also, `-0` becomes `0`.
fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0 + 0.0
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use super::Counts;

    const REPORT: &str = r#"{"kernel": "6.1", "release": "6.1.0-x", "measurements": [
        {"system": "nothing", "operation": "open-9", "instructions": 7855.04, "added": 0.0},
        {"system": "unprotected", "operation": "open-9", "instructions": 8109.0, "added": 254.0},
        {"system": "protected-8", "operation": "open-9", "instructions": 9732.0, "added": 1877.04},
        {"system": "protected-50", "operation": "open-9", "instructions": 9732.0, "added": 1877.0},
        {"system": "protected-1000", "operation": "open-9", "instructions": 9754.0, "added": 1899.0},
        {"system": "nothing-again", "operation": "open-9", "instructions": 7857.0, "added": -0.01}]}"#;

    pub(in crate::bench::gate) fn counts() -> Counts {
        Counts::of_report(REPORT, Path::new("report")).unwrap()
    }

    #[test]
    fn report_of_all_systems_gives_the_few_that_are_compared() {
        let counts = counts();
        let open = &counts.operations["open-9"];
        assert_eq!((open.own, open.again), (7855.0, 0.0));
        let added: Vec<(&str, f64)> = open
            .added
            .iter()
            .map(|(name, added)| (name.as_str(), *added))
            .collect();
        assert_eq!(
            added,
            [
                ("protected-1000", 1899.0),
                ("protected-8", 1877.0),
                ("unprotected", 254.0)
            ]
        );
    }

    #[test]
    fn baseline_is_read_as_it_was_written() {
        let text = counts().json().unwrap();
        assert_eq!(serde_json::from_str::<Counts>(&text).unwrap(), counts());
    }

    #[test]
    fn report_with_problems_is_no_baseline() {
        let damaged = REPORT.replace("]}", r#"], "problems": ["protected-8: it died"]}"#);
        let error = Counts::of_report(&damaged, Path::new("report")).unwrap_err();
        assert!(error.to_string().contains("it died"), "{error}");
    }
}
