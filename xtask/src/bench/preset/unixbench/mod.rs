//! `preset seed-unixbench`: how much of each test's score is left under more and more rules.

mod table;
mod tests;

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::{
    Scale, Settings,
    cells::{self, Condition, SEED, Workload},
};
use crate::{
    bench::{
        boots,
        hooks::{self, Room},
        protocol::{Clock, Plan, System},
        record::{Cell, Summary},
        report::Report,
        stats::Backend,
        systems::{self, NOTHING, NOTHING_AGAIN},
    },
    kernel::Series,
};

const PRESET: &str = "seed-unixbench";
const SUITE: &str = "unixbench";
const UNIT: &str = "guest instructions per unit of work";
/// What an index is called among the workloads.
const INDEX: &str = "index";
const INDEX_WITHOUT_CPU: &str = "index-without-cpu";

/// The seed's six columns, then more rules, then other enforcers.
fn conditions() -> Vec<Condition> {
    let column = Condition::new;
    vec![
        column("Not installed", systems::nothing(NOTHING)),
        column("Installed/No rules", systems::always_allow()),
        column("1 rule", systems::protected(1)),
        column("2 rules", systems::protected(2)),
        column("4 rules", systems::protected(4)),
        column("8 rules", systems::protected(8)),
        column("50 rules", systems::protected(50)),
        column("1000 rules", systems::protected(1000)),
        column("AppArmor, no rules", systems::apparmor(0)),
        column("AppArmor, 8 rules", systems::apparmor(8)),
        column("Seccomp, 8 calls", systems::seccomp(8)),
    ]
}

pub(super) fn run(settings: &Settings) -> Result<ExitCode> {
    let kernel = settings.kernel.unwrap_or(Series::V6_1);
    let boots = settings.boots.unwrap_or(match settings.scale {
        Scale::Smoke => 1,
        Scale::Std => 7,
    });
    let folder = settings.folder(PRESET, boots, &[])?;
    let conditions = conditions();
    let (reports, failure) = boots::measure(&format!("{PRESET} {kernel}"), boots, |salt| {
        let mut systems: Vec<System> = conditions
            .iter()
            .map(|condition| condition.system.clone())
            .collect();
        systems.push(systems::nothing(NOTHING_AGAIN));
        let plan = Plan {
            systems,
            operations: tests::ALL.iter().map(|test| test.work(settings.scale)).collect(),
            count_hooks: false,
            by_program: false,
            salt,
            clock: Clock::Instructions,
        };
        let kept = folder.boot(&format!("{kernel}-{salt}"));
        hooks::measure_kept(kernel, &plan, &settings.programs, &Room::default(), &kept)
    });
    failure.map_or(Ok(()), Err)?;
    let summary = Summary {
        preset: PRESET.to_owned(),
        scale: settings.scale.name().to_owned(),
        backend: Backend::TcgIcount,
        unit: UNIT.to_owned(),
        kernels: reports
            .iter()
            .map(|report| (kernel.name().to_owned(), report.release.clone()))
            .collect(),
        cells: cells(&reports, &conditions),
    };
    folder.summary(&summary)?;
    folder.samples(
        &summary,
        &cells::samples(SUITE, &reports, &workloads(), &conditions),
    )?;
    let about = json!({"boots": boots, "salts": (0..boots).collect::<Vec<_>>(), "bootstrap_seed": SEED});
    folder.meta(&summary, &about)?;
    let table = table::Table::new(&summary);
    folder.table(SUITE, &table.markdown(), &table.csv())?;
    print!("{}", table.markdown());
    println!("{}", folder.path().display());
    let problems: Vec<String> = reports.iter().flat_map(Report::problems).cloned().collect();
    Ok(super::closing(kernel.name(), &problems))
}

/// Every test and both indices under every condition.
fn cells(reports: &[Report], conditions: &[Condition]) -> Vec<Cell> {
    let mut all = cells::cells(SUITE, reports, &workloads(), conditions, Backend::TcgIcount);
    for (name, title, with_cpu) in [
        (INDEX, "System Benchmarks Index", true),
        (INDEX_WITHOUT_CPU, "Index without Dhrystone and Whetstone", false),
    ] {
        let members: Vec<&tests::Test> = tests::ALL.iter().filter(|test| with_cpu || !test.cpu).collect();
        let of = |system: &str| -> Vec<f64> {
            reports
                .iter()
                .filter_map(|report| mean(report, &members, system))
                .collect()
        };
        let same = of(NOTHING_AGAIN);
        for condition in conditions {
            let mut cell = cells::empty(SUITE, reports, name, title, condition);
            let ratios = of(&condition.system.name);
            if ratios.len() < reports.len() {
                cell.reason = Some("a test of the index was not measured".to_owned());
            }
            cells::judged(&mut cell, &ratios, &same, Backend::TcgIcount);
            all.push(cell);
        }
    }
    all
}

fn workloads() -> Vec<Workload> {
    let workload = |test: &tests::Test| Workload {
        operation: test.operation,
        title: test.title,
        units: test.units,
    };
    tests::ALL.iter().map(workload).collect()
}

/// The overhead of an index, the geometric mean of its tests.
fn mean(report: &Report, members: &[&tests::Test], system: &str) -> Option<f64> {
    let ratios = members
        .iter()
        .map(|test| cells::ratio(report, test.operation, system))
        .collect::<Option<Vec<f64>>>()?;
    let count = u32::try_from(ratios.len()).ok().filter(|count| *count > 0)?;
    Some(ratios.iter().sum::<f64>() / f64::from(count))
}
