//! `bench hooks`: boots a deterministic guest per kernel, lets it measure, writes the report.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::{
    apparmor::Compiler,
    intake::Intake,
    kept::{Boot, Kept},
    operations,
    protocol::{Clock, FOLDER, PLAN, Plan},
    report::Report,
    systems,
};
use crate::{
    build::{self, Profile},
    kernel::Series,
    oci::sha256,
    progress, test, tools,
    vm::{Guest, Share},
    workspace,
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Only these kernels [default: all]
    #[arg(long)]
    kernel: Vec<Series>,
    /// Only these operations [default: all]; prints numbers instead of writing a report, with one operation and one
    /// system only what the system adds
    #[arg(long)]
    operation: Vec<String>,
    /// Only these systems [default: all]; `nothing` is always measured too. Also rows of the comparison that seed-pts repeats, such as
    /// `RuntimeDefault-BPF`
    #[arg(long)]
    system: Vec<String>,
    /// Take `varmor` and `varmor-guest` from this folder instead of building them
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Also say what each program takes of an operation (kernels from 5.12)
    #[arg(long)]
    by_program: bool,
    /// Boot twice and compare every number
    #[arg(long)]
    twice: bool,
}

/// The programs of the guest.
pub(super) struct Programs {
    pub(super) varmor: PathBuf,
    pub(super) guest: PathBuf,
}

impl Programs {
    pub(super) fn digests(&self) -> Result<Vec<String>> {
        [&self.varmor, &self.guest]
            .into_iter()
            .map(|file| sha256(file))
            .collect()
    }
}

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    tools::need(tools::GUEST)?;
    let programs = programs(args.programs.as_deref())?;
    let plan = plan(args)?;
    let whole = args.operation.is_empty() && args.system.is_empty();
    let kernels = if args.kernel.is_empty() {
        Series::ALL.to_vec()
    } else {
        args.kernel.clone()
    };
    // The product compiles its profiles in the guest; the usual systems bring theirs, and another guest has other numbers.
    let compiles = args.system.iter().any(|name| name.ends_with("-AppArmor"));
    let room = Room {
        shares: if compiles { test::parser()? } else { Vec::new() },
        ..Room::default()
    };
    let measure = |kernel| measure_with(kernel, &plan, &programs, &room);
    let mut good = true;
    for kernel in kernels {
        let report = measure(kernel)?;
        if args.twice {
            let second = measure(kernel)?;
            println!("{kernel}: {}", report.compare(&second));
        }
        if whole {
            println!(
                "{}",
                write(&report, &workspace::target().join("bench"))?.display()
            );
            print!("{}", report.verdicts());
            good &= report.problems().is_empty();
        } else if let ([operation], [system]) = (&*args.operation, &*args.system) {
            let name = operations::find(operation).map_or("", |operation| operation.name);
            eprint!("{}", report.numbers());
            println!("{:.1}", report.added(system, name).unwrap_or(f64::NAN));
        } else {
            print!("{}{}", report.numbers(), report.verdicts());
        }
        for problem in report.problems() {
            println!("FAILED: {kernel}: {problem}");
        }
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes the report as JSON and Markdown; returns the file that people read.
pub(super) fn write(report: &Report, folder: &Path) -> Result<PathBuf> {
    let base = folder.join(format!("hooks-{}", report.kernel_name()));
    // A name with dots has no extension that could be replaced.
    let file = |ending: &str| PathBuf::from(format!("{}.{ending}", base.display()));
    workspace::write_file(&file("json"), report.json()?)?;
    workspace::write_file(&file("md"), report.markdown())?;
    Ok(file("md"))
}

pub(super) fn programs(folder: Option<&Path>) -> Result<Programs> {
    let programs = if let Some(folder) = folder {
        Programs {
            varmor: folder.join("varmor"),
            guest: folder.join("varmor-guest"),
        }
    } else {
        let built = build::build(Profile::Release)?;
        Programs {
            varmor: built.program("varmor"),
            guest: built.program("varmor-guest"),
        }
    };
    for file in [&programs.varmor, &programs.guest] {
        ensure!(file.is_file(), "no program {}", file.display());
    }
    Ok(programs)
}

/// What to measure. A system or operation that does not exist is an error that names those that do.
fn plan(args: &Args) -> Result<Plan> {
    let mut systems = systems::all();
    for name in &args.system {
        if systems.iter().any(|system| system.name == *name) {
            continue;
        }
        let Some(system) = systems::of_comparison(name) else {
            let names: Vec<&str> = systems.iter().map(|system| system.name.as_str()).collect();
            bail!("no system `{name}`; there are: {}", names.join(", "));
        };
        // What is compared with stands at both ends.
        systems.insert(systems.len() - 1, system);
    }
    let chosen = |name: &str| args.system.is_empty() || args.system.iter().any(|chosen| chosen == name);
    // The product's programs are loaded once, under the first system that has a neighbour, and counted one by one while they
    // are kept.
    let loads = args
        .system
        .iter()
        .filter(|name| systems::uses_product(name))
        .count();
    systems.retain(|system| {
        system.name == systems::NOTHING
            || chosen(&system.name)
            || (system.name == systems::UNPROTECTED && (loads > 1 || args.by_program))
    });
    Ok(Plan {
        systems,
        operations: operations::chosen(&args.operation)?
            .into_iter()
            .map(operations::Operation::work)
            .collect(),
        count_hooks: true,
        by_program: args.by_program,
        salt: 0,
        clock: Clock::Instructions,
    })
}

pub(super) fn measure(kernel: Series, plan: &Plan, programs: &Programs) -> Result<Report> {
    measure_with(kernel, plan, programs, &Room::default())
}

/// What a guest is given besides the plan.
pub(super) struct Room {
    /// Its security modules [default: all that the product works with].
    pub(super) lsm: Option<String>,
    pub(super) shares: Vec<Share>,
    /// In MiB.
    pub(super) memory: u32,
    pub(super) timeout: Duration,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            lsm: None,
            shares: Vec::new(),
            memory: 1024,
            timeout: Duration::from_mins(40),
        }
    }
}

/// Boots a guest and lets it carry the plan out.
pub(super) fn measure_with(kernel: Series, plan: &Plan, programs: &Programs, room: &Room) -> Result<Report> {
    let (report, failure) = boot(kernel, plan, programs, room, None)?;
    match failure {
        None => Ok(report),
        Some(failure) => Err(failure.context(format!("guest {kernel}"))),
    }
}

/// As [`measure_with`], unless an earlier run has kept this boot. A guest that dies leaves what it has measured, and a
/// problem in the report.
pub(super) fn measure_kept(
    kernel: Series,
    plan: &Plan,
    programs: &Programs,
    room: &Room,
    kept: &Kept,
) -> Result<Report> {
    if let Some(report) = kept.report(kernel)? {
        eprintln!("[bench {kernel}: measured before]");
        return Ok(report);
    }
    let (mut report, failure) = boot(kernel, plan, programs, room, Some(kept.begin()?))?;
    if let Some(failure) = failure {
        report.broken_off(&format!("{failure:#}"));
    }
    Ok(report)
}

/// What a guest has measured, and why that is not everything.
fn boot(
    kernel: Series,
    plan: &Plan,
    programs: &Programs,
    room: &Room,
    boot_file: Option<Boot>,
) -> Result<(Report, Option<anyhow::Error>)> {
    let scratch = workspace::Scratch::new(&format!("bench-{kernel}-{}", plan.salt))?;
    let compiler = Compiler::new(kernel, &programs.guest, scratch.path())?;
    let mut shares =
        systems::write_files(scratch.path(), &plan.systems, |profile| compiler.compile(profile))?;
    let file = scratch.path().join(PLAN);
    workspace::write_file(&file, serde_json::to_vec(plan)?)?;
    shares.push(Share::new(file, format!("{FOLDER}/{PLAN}")));
    shares.push(Share::new(&programs.varmor, "/varmor"));
    shares.push(Share::new(&programs.guest, "/varmor-guest"));

    let mut guest = Guest::new(kernel, ["/varmor-guest", "bench", "run"]);
    guest.icount = true;
    guest.smp = 1;
    guest.timeout = room.timeout;
    guest.memory = room.memory;
    // Later files replace earlier ones of the same name.
    guest.shares = room.shares.iter().cloned().chain(shares).collect();
    if let Some(lsm) = &room.lsm {
        guest.lsm.clone_from(lsm);
    }
    let mut intake = Intake::new(Some(kernel), boot_file);
    let outcome = progress::timed(&format!("guest {kernel} that counts instructions"), || {
        guest.run(&mut |bytes| intake.hear(bytes))
    });
    let failure = match outcome {
        Ok(outcome) => {
            intake.report.release.clone_from(&outcome.release);
            let rest = intake.rest();
            (outcome.code != 0)
                .then(|| anyhow!("the measurement ended with exit code {}: {rest}", outcome.code))
        }
        Err(error) => Some(error),
    };
    let measured = intake.report.check().with_context(|| format!("guest {kernel}"));
    let report = intake.end(failure.is_none() && measured.is_ok())?;
    if let Some(failure) = failure {
        return match measured {
            Ok(()) => Ok((report, Some(failure))),
            Err(_) => Err(failure.context(format!("guest {kernel}"))),
        };
    }
    measured?;
    Ok((report, None))
}
