//! `preset smoke`: a few operations under a few systems on one kernel, to see that all parts work.

use std::{fmt::Write, process::ExitCode};

use anyhow::Result;
use serde_json::json;

use super::{
    Settings,
    cells::{self, Condition, SEED, Workload},
};
use crate::{
    bench::{
        hooks, operations,
        protocol::{Clock, Plan},
        record::{Folder, Summary, field},
        stats::{Backend, percent},
        systems::{self, NOTHING, NOTHING_AGAIN},
    },
    kernel::Series,
};

const SUITE: &str = "hooks";
const OPERATIONS: [&str; 6] = [
    "open-9",
    "create-unlink",
    "connect-v4",
    "socket",
    "fork",
    "eventfd",
];

fn conditions() -> Vec<Condition> {
    vec![
        Condition::new("nothing", systems::nothing(NOTHING)),
        Condition::new("BPF, 8 rules", systems::protected(8)),
        Condition::new("AppArmor, 8 rules", systems::apparmor(8)),
        Condition::new("Seccomp, 8 calls", systems::seccomp(8)),
    ]
}

pub(super) fn run(settings: &Settings) -> Result<ExitCode> {
    let kernel = settings.kernel.unwrap_or(Series::V6_1);
    let folder = Folder::new("smoke")?;
    let conditions = conditions();
    let chosen: Vec<&operations::Operation> = OPERATIONS
        .iter()
        .filter_map(|name| operations::find(name))
        .collect();
    let workloads: Vec<Workload> = chosen.iter().map(|operation| Workload::of(operation)).collect();
    let names = conditions.iter().map(|condition| condition.system.clone());
    let plan = Plan {
        systems: names.chain([systems::nothing(NOTHING_AGAIN)]).collect(),
        operations: chosen.iter().map(|operation| operation.work()).collect(),
        count_hooks: false,
        by_program: false,
        salt: 0,
        clock: Clock::Instructions,
    };
    let reports = [hooks::measure(kernel, &plan, &settings.programs)?];
    let [report] = &reports;
    let summary = Summary {
        preset: "smoke".to_owned(),
        scale: settings.scale.name().to_owned(),
        backend: Backend::TcgIcount,
        unit: "guest instructions per operation".to_owned(),
        kernels: [(kernel.name().to_owned(), report.release.clone())].into(),
        cells: cells::cells(SUITE, &reports, &workloads, &conditions, Backend::TcgIcount),
    };
    folder.summary(&summary)?;
    folder.samples(
        &summary,
        &cells::samples(SUITE, &reports, &workloads, &conditions),
    )?;
    folder.meta(&summary, &json!({"boots": 1, "bootstrap_seed": SEED}))?;
    let (markdown, csv) = tables(&summary);
    folder.table(SUITE, &markdown, &csv)?;
    print!("{markdown}");
    println!("{}", folder.path().display());
    for problem in report.problems() {
        println!("FAILED: {kernel}: {problem}");
    }
    Ok(if report.problems().is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A row per operation and system.
fn tables(summary: &Summary) -> (String, String) {
    let kernels: Vec<&str> = summary.kernels.values().map(String::as_str).collect();
    let mut markdown = format!(
        "# Smoke, kernel {}\n\nMedian {}, backend `{}`, one boot: the overhead has no interval yet.\n\n\
         | operation | system | instructions | overhead % |\n|---|---|---:|---:|\n",
        kernels.join(", "),
        summary.unit,
        summary.backend.name()
    );
    let mut csv = "operation,system,instructions,overhead_pct\n".to_owned();
    for cell in &summary.cells {
        let value = cell.said();
        let overhead = cell.estimate.map(|found| percent(found.overhead));
        let overhead = overhead
            .map(|overhead| format!("{overhead:+.2}"))
            .unwrap_or_default();
        let _ = writeln!(
            markdown,
            "| {} | {} | {value} | {overhead} |",
            cell.row, cell.column
        );
        let _ = writeln!(
            csv,
            "{},{},{},{overhead}",
            cell.workload,
            field(&cell.column),
            field(&value)
        );
    }
    (markdown, csv)
}

#[cfg(test)]
mod tests {
    use super::{OPERATIONS, operations};

    #[test]
    fn operations_of_the_smoke_test_exist() {
        assert!(OPERATIONS.iter().all(|name| operations::find(name).is_some()));
    }
}
