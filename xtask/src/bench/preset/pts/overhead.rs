//! What each system costs on the average of each suite, and BPF against `AppArmor` in each mode.

use std::fmt::Write;

use super::{anchors, conditions};
use crate::bench::{
    preset::programs::suite::{Sense, Suite},
    record::{Summary, field},
    stats,
};

const MODES: [&str; 3] = ["AlwaysAllow", "RuntimeDefault", "Enhance"];

/// The geometric mean of the columns' ratios to the first row, as a logarithm; nothing where one is missing.
fn ours(summary: &Summary, suite: &Suite, row: &str) -> Option<f64> {
    let ratio = |operation: &str| {
        let mut cells = summary.cells.iter();
        let cell = cells.find(|cell| cell.workload == operation && cell.column == row)?;
        Some(cell.estimate?.overhead)
    };
    mean(suite.columns.iter().map(|column| ratio(column.operation)))
}

/// The same of the comparison's numbers.
fn theirs(suite: &Suite, row: &str) -> Option<f64> {
    let found = anchors::ROWS.iter().find(|found| found.system == row)?;
    let baseline = anchors::ROWS[0].values(suite.name);
    mean(
        found
            .values(suite.name)
            .iter()
            .zip(baseline)
            .map(|(value, baseline)| {
                Some(match suite.sense {
                    Sense::Rate(_) => (baseline / value).ln(),
                    Sense::Time => (value / baseline).ln(),
                })
            }),
    )
}

fn mean(ratios: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let ratios = ratios.collect::<Option<Vec<f64>>>()?;
    let count = u32::try_from(ratios.len()).ok().filter(|count| *count > 0)?;
    Some(ratios.iter().sum::<f64>() / f64::from(count))
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(
        || "n/a (a cell is missing)".to_owned(),
        |ratio| format!("{:+.2}", stats::percent(ratio)),
    )
}

/// As Markdown and CSV.
pub(super) fn table(summary: &Summary, suites: &[&Suite]) -> (String, String) {
    let mut markdown = "# Overheads by suite\n\nPercent more than *NoProtect*, geometric mean of the suite's columns: ours in what the backend measures, in \
                        parentheses what the comparison's own numbers say in time.\n\n| Test Scenario |"
        .to_owned();
    let mut csv = "Test Scenario".to_owned();
    for suite in suites {
        let _ = write!(markdown, " {} |", suite.title);
        csv.extend([",", &field(suite.title)]);
    }
    let _ = writeln!(markdown, "\n|---|{}", "---:|".repeat(suites.len()));
    csv.push('\n');
    let rows = conditions().into_iter().skip(1);
    let rows = rows.map(|row| {
        let label = row.label;
        let of = |suite: &Suite| (ours(summary, suite, &label), theirs(suite, &label));
        let values: Vec<_> = suites.iter().map(|suite| of(suite)).collect();
        (label, values)
    });
    let against = MODES.map(|mode| {
        let pair = ["BPF", "AppArmor"].map(|enforcer| format!("{mode} {enforcer}"));
        let less = |of: &dyn Fn(&str) -> Option<f64>| Some(of(&pair[0])? - of(&pair[1])?);
        let of = |suite: &Suite| {
            (
                less(&|row| ours(summary, suite, row)),
                less(&|row| theirs(suite, row)),
            )
        };
        let values: Vec<_> = suites.iter().map(|suite| of(suite)).collect();
        (format!("{mode}: BPF against AppArmor"), values)
    });
    for (label, values) in rows.chain(against) {
        let _ = write!(markdown, "| {label} |");
        csv.push_str(&field(&label));
        for (ours, theirs) in values {
            let _ = write!(markdown, " {} ({}) |", percent(ours), percent(theirs));
            csv.extend([",", &field(&percent(ours))]);
        }
        markdown.push('\n');
        csv.push('\n');
    }
    (markdown, csv)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            suites::{REDIS, SYSBENCH},
            table::tests::summary,
        },
        table, theirs,
    };

    #[test]
    fn means_of_the_comparison_are_those_that_its_numbers_give() {
        // (2336892, 1610689, 1936035, 1605186, 2287682) against the first row: 0.48 % on the average.
        assert!((theirs(&REDIS, "AlwaysAllow AppArmor").unwrap() - 0.0048).abs() < 0.0001);
        let against =
            theirs(&SYSBENCH, "Enhance BPF").unwrap() - theirs(&SYSBENCH, "Enhance AppArmor").unwrap();
        assert!((against - 0.001).abs() < 0.00001, "{against}");
    }

    #[test]
    fn missing_cell_leaves_no_mean() {
        let (markdown, csv) = table(&summary(&REDIS, 0.03_f64.ln_1p()), &[&REDIS, &SYSBENCH]);
        assert!(csv.contains("Seccomp,+3.00,n/a (a cell is missing)\n"), "{csv}");
        assert!(csv.contains("Enhance: BPF against AppArmor,+0.00,n/a"), "{csv}");
        assert!(
            markdown.contains("| AlwaysAllow AppArmor | +3.00 (+0.48) |"),
            "{markdown}"
        );
    }
}
