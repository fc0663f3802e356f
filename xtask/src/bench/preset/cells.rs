//! Turns boots into cells: every workload under every system, against the first system of the same boot.

use crate::bench::{
    operations::Operation,
    protocol::System,
    record::{Cell, Sample},
    report::Report,
    stats::{Backend, detectable, estimate, judge, log_ratio, median, withdraw_chance},
    systems::{NOTHING, NOTHING_AGAIN},
};

/// Of the bootstrap.
pub(in crate::bench) const SEED: u64 = 1;

/// A column of a table.
pub(in crate::bench) struct Condition {
    pub(in crate::bench) label: String,
    pub(in crate::bench) system: System,
}

impl Condition {
    pub(in crate::bench) fn new(label: &str, system: System) -> Self {
        Self {
            label: label.to_owned(),
            system,
        }
    }
}

/// A row of a table.
#[derive(Clone, Copy)]
pub(in crate::bench) struct Workload {
    pub(in crate::bench) operation: &'static str,
    pub(in crate::bench) title: &'static str,
    /// Units of work in one repetition.
    pub(in crate::bench) units: u32,
}

impl Workload {
    /// One operation of `bench hooks` as a row.
    pub(in crate::bench) fn of(operation: &Operation) -> Self {
        Self {
            operation: operation.name,
            title: operation.does,
            units: 1,
        }
    }
}

/// Every workload under every condition.
pub(in crate::bench) fn cells(
    suite: &str,
    reports: &[Report],
    workloads: &[Workload],
    conditions: &[Condition],
    backend: Backend,
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in workloads {
        let name = workload.operation;
        let same = ratios(reports, name, NOTHING_AGAIN);
        for condition in conditions {
            let system = condition.system.name.as_str();
            let values: Vec<f64> = reports
                .iter()
                .filter_map(|report| Some(report.total(system, name)? / f64::from(workload.units)))
                .collect();
            let mut cell = empty(suite, reports, name, workload.title, condition);
            cell.value = median(&values);
            if cell.value.is_none() {
                cell.reason = Some(reason(reports, system, name));
            }
            judged(&mut cell, &ratios(reports, name, system), &same, backend);
            cells.push(cell);
        }
    }
    let mut asked: Vec<_> = cells
        .iter_mut()
        .map(|cell| (cell.estimate, &mut cell.verdict))
        .collect();
    withdraw_chance(backend, &mut asked);
    cells
}

/// A cell without numbers.
pub(super) fn empty(
    suite: &str,
    reports: &[Report],
    workload: &str,
    row: &str,
    condition: &Condition,
) -> Cell {
    let kernel = reports.first().map_or("", |report| report.kernel_name());
    Cell {
        suite: suite.to_owned(),
        workload: workload.to_owned(),
        row: row.to_owned(),
        system: condition.system.name.clone(),
        column: condition.label.clone(),
        kernel: kernel.to_owned(),
        value: None,
        estimate: None,
        detectable: None,
        verdict: None,
        reason: None,
    }
}

/// Adds the overhead and what may be said about it; the first column is what the others are compared with.
pub(super) fn judged(cell: &mut Cell, ratios: &[f64], same: &[f64], backend: Backend) {
    if cell.system != NOTHING && cell.reason.is_none() {
        compared(cell, ratios, same, backend);
    }
}

/// Adds the overhead and what may be said about it to a cell that has a baseline.
pub(super) fn compared(cell: &mut Cell, ratios: &[f64], same: &[f64], backend: Backend) {
    // Not only how much the boots scatter: also what a boot itself moves by from its start to its end.
    let moved = median(same).unwrap_or(f64::INFINITY).abs();
    let least = detectable(same).max(moved);
    cell.estimate = estimate(ratios, SEED);
    cell.detectable = Some(least).filter(|least| least.is_finite());
    cell.verdict = cell
        .estimate
        .map(|estimate| judge(&estimate, least, backend.margin()));
}

/// The overhead in one boot. What is compared with stands at both ends of a boot, and its mean is used.
pub(super) fn ratio(report: &Report, operation: &str, system: &str) -> Option<f64> {
    let first = report.total(NOTHING, operation)?;
    let mut baseline = vec![first];
    if system != NOTHING_AGAIN {
        baseline.extend(report.total(NOTHING_AGAIN, operation));
    }
    log_ratio(&baseline, &[report.total(system, operation)?])
}

fn ratios(reports: &[Report], operation: &str, system: &str) -> Vec<f64> {
    reports
        .iter()
        .filter_map(|report| ratio(report, operation, system))
        .collect()
}

/// What the guest said about a measurement that is missing.
fn reason(reports: &[Report], system: &str, operation: &str) -> String {
    let about = |problem: &&String| {
        problem.starts_with(&format!("{system}, {operation}:")) || problem.starts_with(&format!("{system}:"))
    };
    let mut problems = reports.iter().flat_map(Report::problems);
    problems.find(about).map_or_else(
        || "not measured".to_owned(),
        |problem| problem.replace(['\n', '|'], " "),
    )
}

/// Every batch of every boot, per unit of work.
pub(in crate::bench) fn samples(
    suite: &'static str,
    reports: &[Report],
    workloads: &[Workload],
    conditions: &[Condition],
) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (block, report) in reports.iter().enumerate() {
        let names = conditions.iter().map(|condition| condition.system.name.as_str());
        for system in names.chain([NOTHING_AGAIN]) {
            for workload in workloads {
                let values = report.values(system, workload.operation);
                samples.extend(values.into_iter().enumerate().map(|(rep, value)| Sample {
                    suite,
                    workload: workload.operation.to_owned(),
                    system: system.to_owned(),
                    kernel: report.release.clone(),
                    lsm: "all".to_owned(),
                    block,
                    rep,
                    value: value / f64::from(workload.units),
                }));
            }
        }
    }
    samples
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::{Cell, Condition, Workload, cells};
    use crate::{
        bench::{
            protocol::Line,
            record::Summary,
            report::Report,
            stats::{Backend, Estimate, Verdict},
            systems::{self, NOTHING, NOTHING_AGAIN},
        },
        kernel::Series,
    };

    /// Half a million instructions, and so much more than the first system if it is not the first itself.
    pub(in crate::bench::preset) fn cell(names: [&str; 3], condition: Condition, overhead: f64) -> Cell {
        let [suite, workload, row] = names.map(str::to_owned);
        let measured = condition.system.name != "nothing";
        let estimate = Estimate {
            blocks: 3,
            overhead,
            low: overhead,
            high: overhead,
            chance: 0.0,
        };
        Cell {
            suite,
            workload,
            row,
            system: condition.system.name,
            column: condition.label,
            kernel: "6.1".to_owned(),
            value: Some(500_000.0),
            estimate: measured.then_some(estimate),
            detectable: Some(0.0),
            verdict: measured.then_some(Verdict::Slower),
            reason: None,
        }
    }

    /// A run of one boot.
    pub(in crate::bench::preset) fn one_boot(preset: &str, unit: &str, cells: Vec<Cell>) -> Summary {
        Summary {
            preset: preset.to_owned(),
            scale: "smoke".to_owned(),
            backend: Backend::TcgIcount,
            unit: unit.to_owned(),
            kernels: BTreeMap::from([("6.1".to_owned(), "6.1.0-x".to_owned())]),
            cells,
        }
    }

    /// A boot that counted so much without an enforcer, at its end, and under a policy.
    fn boot(nothing: u64, again: u64, protected: u64) -> Report {
        let mut report = Report::new(Series::V6_1);
        for (system, instructions) in [
            (NOTHING, nothing),
            (NOTHING_AGAIN, again),
            ("protected-8", protected),
        ] {
            report.take(Line::Sample {
                system: system.to_owned(),
                operation: "fork".to_owned(),
                rounds: 1,
                batches: vec![instructions; 3],
            });
        }
        report
    }

    fn measured(reports: &[Report]) -> Vec<super::Cell> {
        let workload = Workload {
            operation: "fork",
            title: "Fork",
            units: 2,
        };
        let conditions = [
            Condition::new("none", systems::nothing(NOTHING)),
            Condition::new("8", systems::protected(8)),
            Condition::new("AppArmor", systems::apparmor(8)),
        ];
        cells("suite", reports, &[workload], &conditions, Backend::TcgIcount)
    }

    #[test]
    fn policy_is_compared_with_both_ends_of_the_boot() {
        let cells = measured(&[
            boot(100_000, 100_000, 102_000),
            boot(200_000, 200_000, 204_000),
            boot(100_000, 100_000, 102_000),
        ]);
        assert_eq!(cells[0].value, Some(50_000.0));
        assert_eq!(cells[0].estimate, None);
        let overhead = cells[1].estimate.unwrap().overhead;
        assert!((overhead - 1.02_f64.ln()).abs() < 1e-12);
        assert_eq!(cells[1].verdict, Some(Verdict::Slower));
    }

    #[test]
    fn boot_that_moves_by_more_than_the_policy_costs_says_nothing() {
        let cells = measured(&[
            boot(100_000, 103_000, 102_500),
            boot(100_000, 103_000, 102_500),
            boot(100_000, 103_000, 102_500),
        ]);
        assert_eq!(cells[1].verdict, Some(Verdict::Inconclusive));
    }

    #[test]
    fn system_without_a_measurement_says_so() {
        let mut report = boot(100, 100, 100);
        report.take(Line::Problem {
            system: "apparmor-8".to_owned(),
            operation: None,
            text: "no such file".to_owned(),
        });
        assert_eq!(
            measured(&[report])[2].reason.as_deref(),
            Some("apparmor-8: no such file")
        );
    }
}
