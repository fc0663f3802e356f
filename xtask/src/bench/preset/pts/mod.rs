//! `preset seed-pts`: programs of a distribution under nothing and under each mode of each enforcer.

mod anchors;
mod files;
mod overhead;
pub(super) mod suites;
mod table;

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;

use super::{
    Settings,
    cells::Condition,
    programs::{Programs, suite::Suite},
};
use crate::bench::systems::{self, NOTHING};

const PRESET: &str = "seed-pts";

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
pub(in crate::bench) fn conditions() -> Vec<Condition> {
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

fn programs(only: &[Name]) -> Programs {
    Programs {
        preset: PRESET,
        conditions: conditions(),
        suites: if only.is_empty() {
            suites::ALL.to_vec()
        } else {
            only.iter().map(|name| name.suite()).collect()
        },
        named: !only.is_empty(),
    }
}

pub(super) fn run(settings: &Settings, only: &[Name]) -> Result<ExitCode> {
    let programs = programs(only);
    let measured = programs.measure(settings)?;
    let (folder, summary) = (&measured.folder, &measured.summary);
    for suite in &programs.suites {
        let table = table::Table::new(summary, suite, settings.work(), settings.engine);
        folder.table(suite.name, &table.markdown(), &table.csv())?;
        print!("{}", table.markdown());
    }
    let (markdown, csv) = overhead::table(summary, &programs.suites);
    folder.table("overhead", &markdown, &csv)?;
    print!("{markdown}");
    files::write(&measured, &programs.suites, settings.work(), settings.engine)?;
    println!("{}", folder.path().display());
    Ok(super::closing(&measured.kernel, &measured.problems))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{anchors, conditions, programs, suites};
    use crate::bench::{
        preset::Scale,
        systems::{NOTHING, NOTHING_AGAIN},
    };

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
        let plan = programs(&[]).plan(&suites::ALL, Scale::Smoke, 3);
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
