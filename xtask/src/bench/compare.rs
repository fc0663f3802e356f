//! `bench compare`: two runs of the same preset, cell by cell.

use std::{fmt::Write, path::PathBuf, process::ExitCode};

use anyhow::{Result, ensure};

use super::record::{Cell, Summary};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The folder of the earlier run
    before: PathBuf,
    /// The folder of the later run
    after: PathBuf,
    /// Also print what did not change
    #[arg(long)]
    all: bool,
}

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    let (before, after) = (Summary::read(&args.before)?, Summary::read(&args.after)?);
    print!("{}", text(&before, &after, args.all)?);
    Ok(ExitCode::SUCCESS)
}

/// How a cell changed.
enum Change<'a> {
    /// Only the later run has it.
    New,
    Value {
        before: &'a Cell,
        /// Of the value, as a part.
        value: f64,
        /// Of the overhead, where both have one.
        overhead: Option<f64>,
        /// What neither run can tell from nothing.
        least: f64,
    },
}

fn text(before: &Summary, after: &Summary, all: bool) -> Result<String> {
    ensure!(
        before.backend == after.backend && before.unit == after.unit,
        "the runs cannot be compared: one counts {} ({}), the other {} ({})",
        before.unit,
        before.backend.name(),
        after.unit,
        after.backend.name()
    );
    let mut text = format!(
        "{} ({}) -> {} ({}): {}, backend {}\n",
        before.preset,
        before.scale,
        after.preset,
        after.scale,
        after.unit,
        after.backend.name()
    );
    for (kernel, release) in &after.kernels {
        if let Some(other) = before.kernels.get(kernel).filter(|other| *other != release) {
            let _ = writeln!(
                text,
                "kernel {kernel}: {other} -> {release}: another package has other counts"
            );
        }
    }
    let (mut changed, mut same, mut new) = (0, 0, 0);
    for cell in after
        .cells
        .iter()
        .filter(|cell| cell.value.is_some() || cell.estimate.is_some())
    {
        let title = format!("{:<5} {:<38} {:<20}", cell.kernel, cell.row, cell.column);
        match change(before, cell, after.backend.margin()) {
            Change::New => {
                new += 1;
                let _ = writeln!(text, "new     {title}");
            }
            Change::Value {
                before,
                value,
                overhead,
                least,
            } => {
                // An overhead says more than a value: what the whole machine moved by is not in it.
                let differs = overhead.unwrap_or(value).abs() > least;
                changed += usize::from(differs);
                same += usize::from(!differs);
                if differs || all {
                    let word = match (differs, overhead.unwrap_or(value) > 0.0) {
                        (false, _) => "same   ",
                        (true, true) => "GROWN  ",
                        (true, false) => "less   ",
                    };
                    let number = |value: Option<f64>| {
                        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"))
                    };
                    let points = overhead.map_or_else(String::new, |overhead| {
                        format!(", overhead {:+.3} points", 100.0 * overhead)
                    });
                    let _ = writeln!(
                        text,
                        "{word} {title} {} -> {} ({:+.3} %{points})",
                        number(before.value),
                        number(cell.value),
                        100.0 * value
                    );
                }
            }
        }
    }
    let lost = before
        .cells
        .iter()
        .filter(|cell| find(after, cell).is_none())
        .count();
    let _ = writeln!(
        text,
        "{changed} changed, {same} the same, {new} new, {lost} no longer there"
    );
    Ok(text)
}

fn find<'a>(summary: &'a Summary, like: &Cell) -> Option<&'a Cell> {
    summary.cells.iter().find(|cell| {
        cell.suite == like.suite
            && cell.workload == like.workload
            && cell.system == like.system
            && cell.kernel == like.kernel
    })
}

fn change<'a>(before: &'a Summary, cell: &Cell, margin: f64) -> Change<'a> {
    let Some(old) = find(before, cell).filter(|old| old.value.is_some() || old.estimate.is_some()) else {
        return Change::New;
    };
    let value = old
        .value
        .zip(cell.value)
        .map_or(0.0, |(old, new)| new / old - 1.0);
    let overhead = old
        .estimate
        .zip(cell.estimate)
        .map(|(old, new)| new.overhead - old.overhead);
    let least = old
        .detectable
        .unwrap_or_default()
        .max(cell.detectable.unwrap_or_default())
        .max(margin);
    Change::Value {
        before: old,
        value,
        overhead,
        least,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{record::tests::summary, stats::Backend},
        text,
    };

    #[test]
    fn run_compared_with_itself_has_no_change() {
        let run = summary(0.02);
        assert!(
            text(&run, &run, false)
                .unwrap()
                .ends_with("0 changed, 2 the same, 0 new, 0 no longer there\n")
        );
    }

    #[test]
    fn overhead_that_grew_is_told_in_points() {
        let text = text(&summary(0.02), &summary(0.03), false).unwrap();
        assert!(
            text.contains("GROWN") && text.contains("overhead +1.000 points"),
            "{text}"
        );
        assert!(text.contains("1 changed"), "{text}");
    }

    #[test]
    fn backends_are_never_mixed() {
        let mut time = summary(0.02);
        time.backend = Backend::NativeWall;
        let error = text(&summary(0.02), &time, false).unwrap_err().to_string();
        assert!(
            error.contains("tcg-icount") && error.contains("native-wall"),
            "{error}"
        );
    }

    #[test]
    fn cells_of_one_run_only_are_counted() {
        let mut less = summary(0.02);
        less.cells.pop();
        assert!(
            text(&less, &summary(0.02), false)
                .unwrap()
                .contains("1 new, 0 no longer")
        );
        assert!(
            text(&summary(0.02), &less, false)
                .unwrap()
                .contains("0 new, 1 no longer")
        );
    }
}
