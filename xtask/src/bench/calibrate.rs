//! `bench calibrate`: a system against itself, and so the smallest overhead that a run of so many blocks can see.

use std::{fmt::Write, path::PathBuf, process::ExitCode};

use anyhow::Result;
use serde_json::json;

use super::{
    boots,
    hooks::{self, Programs, Room},
    native,
    operations::{self, Operation},
    preset::{
        On,
        cells::{self, Condition, SEED, Workload},
    },
    protocol::{Clock, Plan},
    record::{Cell, Folder, Summary},
    report::Report,
    stats::{Backend, Verdict, percent},
    systems::{self, NOTHING, NOTHING_AGAIN},
};
use crate::{kernel::Series, tools};

#[derive(clap::Args)]
pub(super) struct Args {
    /// What is counted: instructions of a guest, or the time of this machine (as root)
    #[arg(long, default_value = "guest")]
    backend: On,
    /// The kernel of the guest
    #[arg(long, default_value = "6.1")]
    kernel: Series,
    /// Boots of the guest, or blocks on this machine [default: as many as a verdict takes]
    #[arg(long, value_parser = clap::value_parser!(u32).range(3..=100))]
    blocks: Option<u32>,
    /// Only these operations [default: all]
    #[arg(long)]
    operation: Vec<String>,
    /// Take `varmor` and `varmor-guest` from this folder instead of building them
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

const NAME: &str = "calibrate";

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    tools::need(tools::GUEST)?;
    let backend = args.backend.backend();
    let blocks = args.blocks.unwrap_or(backend.blocks_for_a_verdict());
    let chosen = operations::chosen(&args.operation)?;
    let programs = hooks::programs(args.programs.as_deref())?;
    let folder = Folder::new(NAME)?;
    let reports = measure(args, &chosen, blocks, &programs, &folder)?;
    let conditions = [
        Condition::new(NOTHING, systems::nothing(NOTHING)),
        Condition::new(NOTHING_AGAIN, systems::nothing(NOTHING_AGAIN)),
    ];
    let workloads: Vec<Workload> = chosen.iter().map(|operation| Workload::of(operation)).collect();
    let release = reports.first().map(|report| report.release.clone());
    let release = release.unwrap_or_default();
    let kernel = match backend {
        Backend::TcgIcount => args.kernel.name(),
        Backend::NativeWall | Backend::ClusterWall => "this machine",
    };
    let summary = Summary {
        preset: NAME.to_owned(),
        scale: format!("{blocks} {}", backend.blocks()),
        backend,
        unit: backend.unit().to_owned(),
        kernels: [(kernel.to_owned(), release)].into(),
        cells: cells::cells(NAME, &reports, &workloads, &conditions, backend),
    };
    folder.summary(&summary)?;
    folder.samples(
        &summary,
        &cells::samples(NAME, &reports, &workloads, &conditions[..1]),
    )?;
    folder.meta(
        &summary,
        &json!({"blocks": blocks, "schedule_seed": SEED, "bootstrap_seed": SEED}),
    )?;
    let (markdown, csv) = tables(&summary, blocks);
    folder.table(NAME, &markdown, &csv)?;
    print!("{markdown}");
    println!("{}", folder.path().display());
    let mut good = true;
    for problem in reports.iter().flat_map(Report::problems) {
        println!("FAILED: {problem}");
        good = false;
    }
    for cell in summary.cells.iter().filter(|cell| is_wrong(cell)) {
        println!(
            "FAILED: {}: a system is called different from itself",
            cell.workload
        );
        good = false;
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn measure(
    args: &Args,
    chosen: &[&Operation],
    blocks: u32,
    programs: &Programs,
    folder: &Folder,
) -> Result<Vec<Report>> {
    let mut plan = Plan {
        systems: [NOTHING, NOTHING_AGAIN].map(systems::nothing).into(),
        operations: chosen.iter().map(|operation| operation.work()).collect(),
        ..Plan::default()
    };
    match args.backend {
        On::Guest => {
            let title = format!("{NAME} {}", args.kernel);
            let (reports, failure) = boots::measure(&title, blocks, |salt| {
                let plan = Plan { salt, ..plan.clone() };
                let kept = folder.boot(&format!("{}-{salt}", args.kernel));
                hooks::measure_kept(args.kernel, &plan, programs, &Room::default(), &kept)
            });
            failure.map_or(Ok(reports), Err)
        }
        On::Native => {
            plan.clock = Clock::Time;
            let room = native::Room::new(&plan, programs, &[])?;
            native::blocks(plan, blocks, folder, NAME, |plan, kept| room.measure(plan, kept))
        }
    }
}

/// Only chance can make a system differ from itself, and chance must not be called a difference.
fn is_wrong(cell: &Cell) -> bool {
    matches!(cell.verdict, Some(Verdict::Slower | Verdict::Faster))
}

/// Blocks for which the smallest overhead that can be seen is the margin: it shrinks with their root.
fn blocks_for_the_margin(detectable: f64, margin: f64, blocks: u32) -> f64 {
    (f64::from(blocks) * (detectable / margin.ln_1p()).powi(2))
        .ceil()
        .max(3.0)
}

/// A row per operation.
fn tables(summary: &Summary, blocks: u32) -> (String, String) {
    let backend = summary.backend;
    let (kernel, release) = summary.kernels.first_key_value().unzip();
    let mut markdown = format!(
        "# Nothing against nothing, {} ({}), {}\n\n\
         {} (median); how far the same system is from itself, with its interval; the smallest overhead that this run could have told \
         from none; and how many {} it would take to see {} %, below which an overhead does not matter.\n\n\
         | operation | {} | differs by % | interval | detectable % | verdict | {} for the margin |\n|---|---:|---:|---|---:|---|---:|\n",
        kernel.map_or("", String::as_str),
        release.map_or("", String::as_str),
        summary.scale,
        summary.unit,
        backend.blocks(),
        100.0 * backend.margin(),
        summary.unit,
        backend.blocks(),
    );
    let mut csv =
        "operation,value,overhead_pct,low_pct,high_pct,detectable_pct,verdict,blocks_for_margin\n".to_owned();
    for cell in summary.cells.iter().filter(|cell| cell.system == NOTHING_AGAIN) {
        let enough = cell
            .detectable
            .map(|least| format!("{:.0}", blocks_for_the_margin(least, backend.margin(), blocks)))
            .unwrap_or_default();
        let _ = writeln!(
            markdown,
            "| {} | {} | {} {enough} |",
            cell.workload,
            cell.said(),
            cell.judgement()
        );
        if let (Some(found), Some(least), Some(verdict)) = (cell.estimate, cell.detectable, cell.verdict) {
            let _ = writeln!(
                csv,
                "{},{},{:.4},{:.4},{:.4},{:.4},{verdict},{enough}",
                cell.workload,
                cell.said(),
                percent(found.overhead),
                percent(found.low),
                percent(found.high),
                percent(least),
            );
        }
    }
    (markdown, csv)
}

#[cfg(test)]
mod tests {
    use super::blocks_for_the_margin;

    #[test]
    fn twice_the_margin_takes_four_times_the_blocks() {
        let margin = 0.01_f64;
        let blocks = |times: f64| blocks_for_the_margin(times * margin.ln_1p(), margin, 10);
        assert!((blocks(1.0) - 10.0).abs() < 1e-9);
        assert!((blocks(2.0) - 40.0).abs() < 1e-9);
        assert!((blocks(0.01) - 3.0).abs() < 1e-9, "fewer decide nothing");
    }
}
