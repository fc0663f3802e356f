//! `preset seed-lsmperf`: the workload of lsm-perf, a million writes to an eventfd, over kernels and sets of security modules.
//!
//! A round is a boot, and its number is the boot's salt. Nothing of the product is active: the question is what the kernel's own
//! modules cost before anybody has loaded a policy.

use std::{fmt::Write, process::ExitCode};

use anyhow::Result;
use serde_json::json;

use super::{Scale, Settings, cells::compared};
use crate::{
    bench::{
        hooks::{self, Room},
        kept::Kept,
        lsm,
        protocol::{Clock, Plan, Work},
        record::{Cell, Sample, Summary, field},
        report::Report,
        stats::{Backend, log_ratio, median, percent},
        systems::{self, NOTHING},
    },
    kernel::Series,
};

const PRESET: &str = "seed-lsmperf";
const SUITE: &str = "lsm-perf";
const OPERATION: &str = "eventfd";
/// Writes in one run; the original has a million, and so the value is scaled to as many.
const WRITES: u32 = 20_000;
const UNIT: &str = "µs of guest time (1 µs = 1000 instructions) for 1,000,000 eventfd_write";

/// A kernel of the seed is one of ours with these security modules.
struct Configuration {
    name: &'static str,
    lsm: Result<&'static str, &'static str>,
}

/// In the seed's order; `apparmor` is ours.
const CONFIGURATIONS: [Configuration; 5] = [
    Configuration {
        name: "alllsm",
        lsm: Ok("lockdown,capability,yama,apparmor,bpf"),
    },
    Configuration {
        name: "bpflsm",
        lsm: Ok("capability,bpf"),
    },
    Configuration {
        name: "paulsm",
        lsm: Err("a kernel with patches of its own, which nobody distributes"),
    },
    Configuration {
        name: "apparmor",
        lsm: Ok("capability,apparmor"),
    },
    Configuration {
        name: NOLSM,
        lsm: Ok("capability"),
    },
];
/// What the others are compared with.
const NOLSM: &str = "nolsm";

/// The runs of one boot.
struct Round {
    kernel: Series,
    configuration: &'static str,
    /// Another boot of `nolsm` with another salt, which tells what boots differ by.
    again: bool,
    number: u32,
    release: String,
    values: Vec<f64>,
}

impl Round {
    fn path(&self) -> String {
        path(self.kernel, self.configuration)
    }

    fn median(&self) -> f64 {
        median(&self.values).unwrap_or(f64::NAN)
    }
}

fn path(kernel: Series, configuration: &str) -> String {
    format!("{kernel}/{configuration}")
}

/// Rounds, and runs in each.
fn size(scale: Scale) -> (u32, u32) {
    match scale {
        Scale::Smoke => (1, 3),
        Scale::Std => (3, 10),
    }
}

pub(super) fn run(settings: &Settings) -> Result<ExitCode> {
    let kernels = settings
        .kernel
        .map_or(Series::ALL.to_vec(), |kernel| vec![kernel]);
    let (rounds, runs) = size(settings.scale);
    let rounds = settings.boots.unwrap_or(rounds);
    let folder = settings.folder(PRESET, rounds, &[])?;
    let mut all = Vec::new();
    for number in 0..rounds {
        eprintln!("Starting round {number}");
        for kernel in &kernels {
            for configuration in &CONFIGURATIONS {
                let lsm = match configuration.lsm {
                    Ok(lsm) => lsm,
                    Err(reason) => {
                        eprintln!("\tSkipping {}: {reason}", path(*kernel, configuration.name));
                        continue;
                    }
                };
                let repeated = configuration.name == NOLSM;
                for again in [false, true].into_iter().filter(|again| repeated || !again) {
                    let salt = if again { number + rounds } else { number };
                    let kept = folder.boot(&format!("{kernel}-{}-{salt}", configuration.name));
                    let report = boot(settings, *kernel, lsm, salt, runs, &kept)?;
                    let round = Round {
                        kernel: *kernel,
                        configuration: configuration.name,
                        again,
                        number,
                        release: report.release.clone(),
                        values: report
                            .values(NOTHING, OPERATION)
                            .into_iter()
                            .map(microseconds)
                            .collect(),
                    };
                    eprintln!("\tEvaluated {}: median={:.0}", round.path(), round.median());
                    all.push(round);
                }
            }
        }
    }
    let summary = summary(settings, &kernels, &all);
    folder.summary(&summary)?;
    folder.samples(&summary, &samples(&all))?;
    let modules: Vec<_> = CONFIGURATIONS
        .iter()
        .map(|one| json!({"name": one.name, "lsm": one.lsm.ok(), "reason": one.lsm.err()}))
        .collect();
    let about = json!({"rounds": rounds, "runs": runs, "writes_per_run": WRITES, "configurations": modules});
    folder.meta(&summary, &about)?;
    crate::workspace::write_file(&folder.path().join("lsm-perf.csv"), csv(&all, runs))?;
    let (markdown, table) = tables(&summary, &kernels);
    folder.table(SUITE, &markdown, &table)?;
    print!("{markdown}");
    println!("{}", folder.path().display());
    Ok(ExitCode::SUCCESS)
}

fn boot(settings: &Settings, kernel: Series, lsm: &str, salt: u32, runs: u32, kept: &Kept) -> Result<Report> {
    let plan = Plan {
        systems: vec![systems::nothing(NOTHING)],
        operations: vec![Work {
            name: OPERATION.to_owned(),
            rounds: WRITES,
            batches: runs,
            amount: 0,
        }],
        count_hooks: false,
        by_program: false,
        salt,
        clock: Clock::Instructions,
    };
    let room = Room {
        lsm: Some(lsm.to_owned()),
        ..Room::default()
    };
    hooks::measure_kept(kernel, &plan, &settings.programs, &room, kept)
}

/// From instructions of one write to microseconds of a million.
fn microseconds(instructions: f64) -> f64 {
    (instructions * 1000.0).round()
}

fn csv(rounds: &[Round], runs: u32) -> String {
    let rounds = rounds.iter().filter(|round| !round.again);
    lsm::file(
        runs,
        rounds.map(|round| (round.path(), round.number, round.values.as_slice())),
    )
}

fn summary(settings: &Settings, kernels: &[Series], all: &[Round]) -> Summary {
    let mut cells = Vec::new();
    for kernel in kernels {
        let of = |configuration: &str, again: bool| -> Vec<&Round> {
            let here = |round: &&Round| {
                round.kernel == *kernel && round.configuration == configuration && round.again == again
            };
            all.iter().filter(here).collect()
        };
        let ratios = |rounds: &[&Round]| -> Vec<f64> {
            let base = of(NOLSM, false);
            let pairs = base.iter().zip(rounds);
            pairs
                .filter_map(|(base, round)| log_ratio(&base.values, &round.values))
                .collect()
        };
        let same = ratios(&of(NOLSM, true));
        for configuration in &CONFIGURATIONS {
            let rounds = of(configuration.name, false);
            let values: Vec<f64> = rounds.iter().map(|round| round.median()).collect();
            let mut cell = Cell {
                suite: SUITE.to_owned(),
                workload: OPERATION.to_owned(),
                row: path(*kernel, configuration.name),
                system: configuration.name.to_owned(),
                column: configuration.name.to_owned(),
                kernel: kernel.name().to_owned(),
                value: median(&values),
                estimate: None,
                detectable: None,
                verdict: None,
                reason: configuration.lsm.err().map(str::to_owned),
            };
            if configuration.name != NOLSM && cell.reason.is_none() {
                compared(&mut cell, &ratios(&rounds), &same, Backend::TcgIcount);
            }
            cells.push(cell);
        }
    }
    Summary {
        preset: PRESET.to_owned(),
        scale: settings.scale.name().to_owned(),
        backend: Backend::TcgIcount,
        unit: UNIT.to_owned(),
        kernels: all
            .iter()
            .map(|round| (round.kernel.name().to_owned(), round.release.clone()))
            .collect(),
        cells,
    }
}

fn samples(all: &[Round]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for round in all {
        let again = if round.again { " (again)" } else { "" };
        samples.extend(round.values.iter().enumerate().map(|(rep, value)| {
            Sample {
                suite: SUITE,
                workload: OPERATION.to_owned(),
                system: format!("{}{again}", round.configuration),
                kernel: round.release.clone(),
                lsm: CONFIGURATIONS
                    .iter()
                    .find(|one| one.name == round.configuration)
                    .and_then(|one| one.lsm.ok())
                    .unwrap_or_default()
                    .to_owned(),
                block: usize::try_from(round.number).unwrap_or_default(),
                rep,
                value: *value,
            }
        }));
    }
    samples
}

/// One row per kernel and set of modules, as Markdown and CSV.
fn tables(summary: &Summary, kernels: &[Series]) -> (String, String) {
    let mut markdown = format!(
        "# lsm-perf, scale {}\n\nMedian {UNIT}, backend `{}`. `nolsm` is `lsm=capability`; no policy and no program is loaded. The \
         seed's own overheads (real time, a kernel per row): paulsm +4.2 %, bpflsm +4.5 %, alllsm +12.2 %.\n\n\
         | kernel path | value | overhead % | interval | detectable % | verdict |\n|---|---:|---:|---|---:|---|\n",
        summary.scale,
        summary.backend.name()
    );
    let mut csv = "kernel path,value,overhead_pct,low_pct,high_pct,verdict\n".to_owned();
    for kernel in kernels {
        for configuration in &CONFIGURATIONS {
            let row = path(*kernel, configuration.name);
            let cell = summary.cells.iter().find(|cell| cell.row == row);
            let (value, found) =
                cell.map_or((None, None), |cell| (cell.value, cell.estimate.zip(cell.verdict)));
            let _ = match (value, found) {
                (Some(value), Some((found, verdict))) => {
                    let (overhead, low, high) =
                        (percent(found.overhead), percent(found.low), percent(found.high));
                    let least = percent(cell.and_then(|cell| cell.detectable).unwrap_or(f64::NAN));
                    let _ = writeln!(csv, "{row},{value:.0},{overhead:.3},{low:.3},{high:.3},{verdict}");
                    writeln!(
                        markdown,
                        "| {row} | {value:.0} | {overhead:+.2} | {low:+.2} to {high:+.2} | {least:.3} | {verdict} |"
                    )
                }
                (Some(value), None) => {
                    let _ = writeln!(csv, "{row},{value:.0},,,,");
                    writeln!(markdown, "| {row} | {value:.0} | | | | |")
                }
                (None, _) => {
                    let reason = configuration.lsm.err().unwrap_or("not measured");
                    let missing = format!("n/a ({reason})");
                    let _ = writeln!(csv, "{row},{},,,,", field(&missing));
                    writeln!(markdown, "| {row} | {missing} | | | | |")
                }
            };
        }
    }
    (markdown, csv)
}

#[cfg(test)]
mod tests {
    use super::{CONFIGURATIONS, Round, Series, csv, microseconds};

    fn round(configuration: &'static str, number: u32, again: bool) -> Round {
        Round {
            kernel: Series::V6_1,
            configuration,
            again,
            number,
            release: "6.1.0-x".to_owned(),
            values: vec![568_300.0, 568_301.0],
        }
    }

    #[test]
    fn file_looks_like_the_one_of_the_original() {
        let rounds = [
            round("alllsm", 0, false),
            round("nolsm", 0, false),
            round("nolsm", 0, true),
        ];
        assert_eq!(
            csv(&rounds, 2),
            "kernel path,round,run 0,run 1\n6.1/alllsm,0,568300,568301\n6.1/nolsm,0,568300,568301\n"
        );
    }

    #[test]
    fn every_kernel_of_the_seed_has_a_configuration_or_a_reason() {
        for name in ["alllsm", "bpflsm", "paulsm", "nolsm"] {
            assert!(CONFIGURATIONS.iter().any(|one| one.name == name), "{name}");
        }
    }

    #[test]
    fn instructions_of_one_write_are_microseconds_of_a_million() {
        assert!((microseconds(568.3) - 568_300.0).abs() < 1e-9);
    }
}
