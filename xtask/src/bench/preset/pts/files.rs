//! The result file that a run leaves for the Phoronix Test Suite's own commands: the same numbers as in the tables.

use std::time::SystemTime;

use super::conditions;
use crate::bench::{
    composite::{Better, Composite, Entry, System, Test},
    preset::{
        Engine, Scale, phoronix,
        programs::{
            Measured,
            suite::{Column, Sense, Suite, rate, time},
        },
    },
    record::{Sample, Summary},
    stats::Backend,
};

/// Where the suite has measured: what it saved itself lies beside, in `pts`.
const CLIENT_OF_SUITE: &str = concat!(
    "varmor bench ",
    env!("CARGO_PKG_VERSION"),
    " with the Phoronix Test Suite"
);
const CLIENT: &str = concat!("varmor bench ", env!("CARGO_PKG_VERSION"));

pub(super) fn composite(
    measured: &Measured,
    asked: &[&'static Suite],
    scale: Scale,
    engine: Engine,
) -> Composite {
    let Measured { summary, samples, .. } = measured;
    let now = humantime::format_rfc3339_seconds(SystemTime::now())
        .to_string()
        .replace('T', " ")
        .replace('Z', "");
    let kernels: Vec<&str> = summary.kernels.values().map(String::as_str).collect();
    let systems = conditions().into_iter().map(|condition| System {
        name: condition.label,
        hardware: match summary.backend {
            Backend::TcgIcount => "Processor: one, emulated by QEMU, which counts instructions".to_owned(),
            Backend::NativeWall | Backend::ClusterWall => "Processor: this machine's".to_owned(),
        },
        software: format!("OS: Debian's programs, Kernel: {}", kernels.join(", ")),
        notes: String::new(),
        time: now.clone(),
    });
    Composite {
        title: format!("{} {}", summary.preset, summary.scale),
        client: match engine {
            Engine::Native => CLIENT,
            Engine::Pts => CLIENT_OF_SUITE,
        }
        .to_owned(),
        description: format!(
            "Programs under nothing and under each mode of each enforcer; {}. {}",
            match engine {
                Engine::Native =>
                    "not the profiles of the Phoronix Test Suite, but fixed amounts of the same work",
                Engine::Pts => "profiles of our own, run by the Phoronix Test Suite",
            },
            summary.backend.meaning()
        ),
        systems: systems.collect(),
        tests: asked
            .iter()
            .flat_map(|suite| {
                suite
                    .columns
                    .iter()
                    .map(|column| test(summary, samples, suite, column, scale, engine))
            })
            .collect(),
    }
}

fn test(
    summary: &Summary,
    samples: &[Sample],
    suite: &Suite,
    column: &Column,
    scale: Scale,
    engine: Engine,
) -> Test {
    let value = |per_unit: f64| match suite.sense {
        Sense::Rate(_) => rate(per_unit),
        Sense::Time => time(per_unit, column.amount(scale).into()),
    };
    let entries = conditions().into_iter().map(|condition| {
        let of_it =
            |sample: &&Sample| sample.workload == column.operation && sample.system == condition.system.name;
        Entry::of(
            &condition.label,
            samples
                .iter()
                .filter(of_it)
                .map(|sample| value(sample.value))
                .collect(),
        )
    });
    let (scale_of_values, better) = match suite.sense {
        Sense::Rate(what) => (format!("{what} {}", summary.backend.rate()), Better::Higher),
        Sense::Time => (summary.backend.second().to_owned(), Better::Lower),
    };
    Test {
        profile: match engine {
            // No profile of the suite was run.
            Engine::Native => String::new(),
            Engine::Pts => phoronix::profile(suite),
        },
        title: suite.title.to_owned(),
        version: String::new(),
        arguments: column.operation.to_owned(),
        description: format!("{}, backend {}", column.title, summary.backend.name()),
        scale: scale_of_values,
        better,
        entries: entries.collect(),
    }
}

/// The suites that were asked for, also those without numbers: their rows stay.
pub(super) fn write(
    measured: &Measured,
    asked: &[&'static Suite],
    scale: Scale,
    engine: Engine,
) -> anyhow::Result<()> {
    let text = composite(measured, asked, scale, engine).write();
    measured.folder.file("composite.xml", &text)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{suites, table},
        *,
    };
    use crate::bench::systems::NOTHING;

    #[test]
    fn every_column_and_row_is_in_the_file_with_the_numbers_of_its_table() {
        let suite = &suites::REDIS;
        let sample = |system: &str, value| Sample {
            suite: suite.name,
            workload: "redis-get-50".to_owned(),
            system: system.to_owned(),
            kernel: "6.1".to_owned(),
            lsm: "all".to_owned(),
            block: 0,
            rep: 0,
            value,
        };
        let samples = [
            sample(NOTHING, 500_000.0),
            sample(NOTHING, 250_000.0),
            sample("other", 1.0),
        ];
        let summary = table::tests::summary(suite, 0.0);
        let of = |engine| test(&summary, &samples, suite, &suite.columns[0], Scale::Smoke, engine);
        assert_eq!(of(Engine::Pts).profile, "local/varmor-redis");
        let test = of(Engine::Native);
        assert_eq!(test.profile, "");
        let rows: Vec<&str> = test.entries.iter().map(|entry| entry.system.as_str()).collect();
        let labels: Vec<String> = conditions().into_iter().map(|row| row.label).collect();
        assert_eq!(rows, labels);
        assert_eq!(test.entries[0].runs, [2000.0, 4000.0]);
        assert_eq!(
            (test.entries[0].value, test.entries[1].value),
            (Some(3000.0), None)
        );
        assert_eq!(test.better, Better::Higher);
    }
}
