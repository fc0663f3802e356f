//! `preset seed-pts`: programs of a distribution under nothing and under each mode of each enforcer.
//!
//! All suites share a guest, with their programs in its memory; the block is a boot, and all systems run in each.

mod anchors;
mod overhead;
mod packages;
mod suites;
mod table;

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;

use self::suites::Suite;
use super::{
    Scale, Settings,
    cells::{self, Condition, SEED},
};
use crate::{
    bench::{
        hooks::{self, Room},
        protocol::Plan,
        record::{Folder, Summary},
        report::Report,
        stats::Backend,
        systems::{self, NOTHING, NOTHING_AGAIN},
    },
    kernel::Series,
    test,
};

const PRESET: &str = "seed-pts";
const UNIT: &str = "guest instructions per unit of work";
/// Of one boot; the emulated programs take their time.
const TIMEOUT: Duration = Duration::from_hours(4);

/// A suite on the command line.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Name {
    Apache,
    Gimp,
    Redis,
    Sysbench,
}

impl Name {
    fn suite(self) -> &'static Suite {
        match self {
            Self::Apache => &suites::APACHE,
            Self::Gimp => &suites::GIMP,
            Self::Redis => &suites::REDIS,
            Self::Sysbench => &suites::SYSBENCH,
        }
    }
}

/// The rows of the comparison, in its order.
fn conditions() -> Vec<Condition> {
    let row = |label, mode, enforcer| Condition::new(label, systems::compared(mode, enforcer));
    vec![
        Condition::new("NoProtect", systems::nothing(NOTHING)),
        row("AlwaysAllow AppArmor", "AlwaysAllow", "AppArmor"),
        row("AlwaysAllow BPF", "AlwaysAllow", "BPF"),
        row("RuntimeDefault AppArmor", "RuntimeDefault", "AppArmor"),
        row("RuntimeDefault BPF", "RuntimeDefault", "BPF"),
        row("Enhance AppArmor", "EnhanceProtect", "AppArmor"),
        row("Enhance BPF", "EnhanceProtect", "BPF"),
        row("Seccomp", "EnhanceProtect", "Seccomp"),
    ]
}

pub(super) fn run(settings: &Settings, only: &[Name]) -> Result<ExitCode> {
    let kernel = settings.kernel.unwrap_or(Series::V6_1);
    let boots = settings.boots.unwrap_or(match settings.scale {
        Scale::Smoke => 1,
        Scale::Std => 5,
    });
    let chosen: Vec<&'static Suite> = if only.is_empty() {
        suites::ALL.to_vec()
    } else {
        only.iter().map(|name| name.suite()).collect()
    };
    let names: Vec<&str> = chosen.iter().map(|suite| suite.name).collect();
    let folder = settings.folder(PRESET, boots, &names)?;
    let conditions = conditions();
    let mut summary = Summary {
        preset: PRESET.to_owned(),
        scale: settings.scale.name().to_owned(),
        backend: Backend::TcgIcount,
        unit: UNIT.to_owned(),
        kernels: [].into(),
        cells: Vec::new(),
    };
    let mut samples = Vec::new();
    let mut problems = Vec::new();
    let mut ready = Ready::default();
    for suite in &chosen {
        match left_out(suite, only) {
            Some(reason) => {
                ready.missing.insert(suite.name, reason.to_owned());
            }
            None => ready.add(suite),
        }
    }
    let (reports, failure) = ready.boot(settings, &folder, kernel, boots);
    for report in &reports {
        summary
            .kernels
            .insert(kernel.name().to_owned(), report.release.clone());
        problems.extend(report.problems().iter().cloned());
    }
    problems.extend(failure.clone());
    for suite in &chosen {
        let workloads = suite.workloads(settings.scale);
        let mut cells = cells::cells(suite.name, &reports, &workloads, &conditions);
        let missing = ready.missing.get(suite.name);
        if let Some(reason) = missing.or(failure.as_ref()) {
            let reason = reason.replace(['\n', '|'], " ");
            for cell in cells.iter_mut().filter(|cell| cell.value.is_none()) {
                cell.reason = Some(reason.clone());
            }
        }
        let failed = missing.filter(|_| left_out(suite, only).is_none());
        problems.extend(failed.map(|reason| format!("{}: {reason}", suite.name)));
        summary.cells.extend(cells);
        samples.extend(cells::samples(suite.name, &reports, &workloads, &conditions));
    }
    folder.summary(&summary)?;
    folder.samples(&summary, &samples)?;
    let about = json!({
        "boots": boots,
        "salts": (0..boots).collect::<Vec<_>>(),
        "bootstrap_seed": SEED,
        "packages": ready.versions,
    });
    folder.meta(&summary, &about)?;
    for suite in &chosen {
        let table = table::Table::new(&summary, suite, settings.scale);
        folder.table(suite.name, &table.markdown(), &table.csv())?;
        print!("{}", table.markdown());
    }
    let (markdown, csv) = overhead::table(&summary, &chosen);
    folder.table("overhead", &markdown, &csv)?;
    print!("{markdown}");
    println!("{}", folder.path().display());
    Ok(super::closing(kernel, &problems))
}

/// Why a suite that nobody has named is not run.
fn left_out(suite: &Suite, only: &[Name]) -> Option<&'static str> {
    suite.unproven.filter(|_| only.is_empty())
}

/// Suites whose programs are there, in one guest: to load the policies takes longer than most suites.
#[derive(Default)]
struct Ready {
    suites: Vec<&'static Suite>,
    room: Room,
    /// Packages with their versions.
    versions: Vec<String>,
    /// Suites without programs, and why.
    missing: BTreeMap<&'static str, String>,
}

impl Ready {
    fn add(&mut self, suite: &'static Suite) {
        match packages::shares(suite.packages) {
            Ok((shares, versions)) => {
                self.room.shares.extend(shares);
                self.room.memory = self.room.memory.max(suite.memory);
                self.versions.extend(versions);
                self.suites.push(suite);
            }
            Err(error) => {
                self.missing.insert(suite.name, format!("{error:#}"));
            }
        }
    }

    /// Every boot, and why there are not all of them.
    fn boot(
        &mut self,
        settings: &Settings,
        folder: &Folder,
        kernel: Series,
        boots: u32,
    ) -> (Vec<Report>, Option<String>) {
        let mut reports = Vec::new();
        if self.suites.is_empty() {
            return (reports, None);
        }
        self.room.timeout = TIMEOUT;
        // The parser's libraries are this machine's, and never older than those of the programs.
        let outcome = test::parser().and_then(|parser| {
            self.room.shares.extend(parser);
            for salt in 0..boots {
                eprintln!("[{PRESET} {kernel}: boot {} of {boots}]", salt + 1);
                let plan = plan(&self.suites, settings.scale, salt);
                let kept = folder.boot(&format!("{kernel}-{salt}"));
                reports.push(hooks::measure_kept(
                    kernel,
                    &plan,
                    &settings.programs,
                    &self.room,
                    kept,
                )?);
            }
            Ok(())
        });
        (reports, outcome.err().map(|error| format!("{error:#}")))
    }
}

/// Every row, and the first one once more at the end.
fn plan(suites: &[&Suite], scale: Scale, salt: u32) -> Plan {
    let rows = conditions().into_iter().map(|condition| condition.system);
    Plan {
        systems: rows.chain([systems::nothing(NOTHING_AGAIN)]).collect(),
        operations: suites.iter().flat_map(|suite| suite.work(scale)).collect(),
        count_hooks: false,
        salt,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Scale, anchors, conditions, plan, suites};
    use crate::bench::systems::{NOTHING, NOTHING_AGAIN};

    #[test]
    fn rows_are_those_of_the_comparison_in_its_order() {
        let rows: Vec<String> = conditions().into_iter().map(|row| row.label).collect();
        let anchors: Vec<&str> = anchors::ROWS.iter().map(|row| row.system).collect();
        assert_eq!(rows, anchors);
    }

    #[test]
    fn every_column_of_the_comparison_is_measured() {
        for suite in suites::ALL {
            let anchors = anchors::ROWS[0].values(suite.name);
            assert_eq!(suite.columns.len(), anchors.len(), "{}", suite.name);
        }
    }

    #[test]
    fn plan_begins_and_ends_without_an_enforcer() {
        let plan = plan(&suites::ALL, Scale::Smoke, 3);
        let names: Vec<&str> = plan.systems.iter().map(|system| system.name.as_str()).collect();
        assert_eq!((names[0], names[names.len() - 1]), (NOTHING, NOTHING_AGAIN));
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 9);
        assert_eq!(plan.operations.len(), 6 + 4 + 5 + 2);
        assert!(
            plan.operations
                .iter()
                .all(|work| work.amount > 0 && work.rounds == 1)
        );
    }

    #[test]
    fn larger_scale_does_more_of_the_same() {
        for suite in suites::ALL {
            for (small, large) in suite.work(Scale::Smoke).iter().zip(suite.work(Scale::Std)) {
                assert_eq!(small.name, large.name);
                assert!(small.amount < large.amount && small.batches < large.batches);
            }
        }
    }

    #[test]
    fn redis_sends_whole_rounds_of_its_pipelines() {
        for work in [Scale::Smoke, Scale::Std]
            .into_iter()
            .flat_map(|scale| suites::REDIS.work(scale))
        {
            let clients: u32 = work.name.rsplit('-').next().unwrap().parse().unwrap();
            assert_eq!(work.amount % (clients * 1024), 0, "{}", work.name);
        }
    }
}
