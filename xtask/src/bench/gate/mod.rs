//! `bench ci`: what operations cost in a guest, against the committed baseline.

mod compare;
mod counts;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use compare::Comparison;
use counts::Counts;

use super::{
    hooks, operations,
    protocol::{Clock, Plan},
    systems,
};
use crate::{kernel::Series, tools, workspace};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The kernel of the guest [default: 6.1, or that of --from]
    #[arg(long)]
    kernel: Option<Series>,
    /// Do not boot: read what an earlier `bench hooks` measured
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Take `varmor` and `varmor-guest` from this folder instead of building them
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    programs: Option<PathBuf>,
    /// Make these numbers the baseline
    #[arg(long)]
    write: bool,
}

/// A kernel package that the baseline does not know is neither good nor bad.
const NOT_JUDGED: u8 = 2;

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    let counts = match &args.from {
        Some(file) => Counts::read_report(file)?,
        None => measure(args)?,
    };
    let file = baseline_file(&counts.kernel);
    if args.write {
        workspace::write_file(&file, counts.json()?)?;
        println!("{}", file.display());
        return Ok(ExitCode::SUCCESS);
    }
    let text = fs::read(&file).with_context(|| {
        format!(
            "read {} (`cargo xtask bench ci --kernel {} --write` makes it)",
            file.display(),
            counts.kernel
        )
    })?;
    let baseline: Counts =
        serde_json::from_slice(&text).with_context(|| format!("understand {}", file.display()))?;
    if baseline.release != counts.release {
        println!(
            "not judged: the baseline is of kernel {}, this guest had {}: another kernel package has other counts, so \
             look at the difference and write the baseline anew (--write)",
            baseline.release, counts.release
        );
        print!("{}", Comparison::new(&baseline, &counts).text());
        return Ok(ExitCode::from(NOT_JUDGED));
    }
    let comparison = Comparison::new(&baseline, &counts);
    print!("{}", comparison.text());
    Ok(if comparison.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn baseline_file(kernel: &str) -> PathBuf {
    workspace::root().join(format!("benches/baseline/hooks-{kernel}.json"))
}

/// All operations under the few systems of the baseline: a quarter of a whole `bench hooks`.
fn measure(args: &Args) -> Result<Counts> {
    tools::need(tools::GUEST)?;
    let programs = hooks::programs(args.programs.as_deref())?;
    let mut plan = Plan {
        systems: systems::all(),
        operations: operations::ALL.iter().map(operations::Operation::work).collect(),
        count_hooks: false,
        by_program: false,
        salt: 0,
        clock: Clock::Instructions,
    };
    let real = systems::of_comparison(counts::RUNTIME_DEFAULT).context("find the real policy of the gate")?;
    // What is compared with stands at both ends.
    plan.systems.insert(plan.systems.len() - 1, real);
    plan.systems.retain(|system| {
        let name = system.name.as_str();
        [systems::NOTHING, systems::NOTHING_AGAIN].contains(&name) || counts::GATED.contains(&name)
    });
    let report = hooks::measure(args.kernel.unwrap_or(Series::V6_1), &plan, &programs)?;
    let folder = workspace::target().join("bench/ci");
    hooks::write(&report, &folder)?;
    Counts::of_report(&report.json()?, Path::new("the guest's report"))
}
