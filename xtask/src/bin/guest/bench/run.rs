//! Carries a plan out: one system after the other, all operations under each.

use std::{collections::BTreeMap, fs, io::Read, thread::sleep, time::Duration};

use anyhow::{Context, Result, ensure};
use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
};

use super::{
    kept, plan, programs,
    protocol::{Line, Setup, Work},
    say, stage,
    systems::{self, Active},
};

/// The first seconds after boot cost up to three times more on some kernels.
const SETTLE: Duration = Duration::from_secs(20);
/// A step of the salt is no part of a tick.
const SALT: Duration = Duration::from_micros(7300);
/// A link that is closed leaves the kernel's list of links at once, but its program is called until its turn comes in a
/// queue, which waits for a grace period each time.
const DETACHED: Duration = Duration::from_secs(120);
const TRACEFS: &str = "/sys/kernel/tracing";
/// Operations for counting the hooks that they pass.
const COUNTED: u32 = 100;

pub(super) fn run() -> Result<()> {
    let plan = plan()?;
    stage::prepare()?;
    collect_randomness()?;
    sleep(SETTLE + SALT * plan.salt);
    mount_tracefs()?;
    let before = attached()?;
    let mut known = systems::Known::new();
    let mut left = plan
        .systems
        .iter()
        .filter(|system| uses_product(&system.setup))
        .count();
    for system in &plan.systems {
        let outcome = systems::activate(&system.setup, &mut known).and_then(|active| {
            let _companion = active.companion()?;
            let lines = if plan.operations.iter().any(programs::is_one) {
                active.measure_programs(plan.salt)?
            } else {
                active.measure(plan.salt)?
            };
            for line in lines {
                say(&named(line, &system.name))?;
            }
            let hooks = active.hooks()?;
            if !hooks.is_empty() {
                ensure!(
                    attached()? > before,
                    "the kernel lists no program that it calls: nobody could tell when they are detached"
                );
                say(&Line::Note {
                    system: system.name.clone(),
                    text: hooks.join(" "),
                })?;
            }
            if plan.count_hooks {
                count(&active, &plan.operations)?;
            }
            active.end()?;
            wait_until_detached(before)
        });
        if uses_product(&system.setup) {
            left -= 1;
            if left == 0 {
                kept::forget()?;
            }
        }
        if let Err(error) = outcome {
            say(&Line::Problem {
                system: system.name.clone(),
                operation: None,
                text: format!("{error:#}"),
            })?;
        }
    }
    Ok(())
}

/// Until the kernel calls only as many programs as before: the next system must not pay for this one's.
fn wait_until_detached(before: usize) -> Result<()> {
    const STEP: Duration = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    while attached()? > before {
        ensure!(
            waited < DETACHED,
            "programs are still attached {} s after the end",
            DETACHED.as_secs()
        );
        sleep(STEP);
        waited += STEP;
    }
    Ok(())
}

fn mount_tracefs() -> Result<()> {
    const NOTHING: Option<&str> = None;
    match mount(NOTHING, TRACEFS, Some("tracefs"), MsFlags::empty(), NOTHING) {
        Ok(()) | Err(Errno::EBUSY) => Ok(()),
        Err(error) => Err(error).context("mount tracefs"),
    }
}

/// How many LSM hooks the kernel leads through a program.
fn attached() -> Result<usize> {
    let path = format!("{TRACEFS}/enabled_functions");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    Ok(text.lines().filter(|line| line.starts_with("bpf_lsm_")).count())
}

/// Until the kernel has enough randomness, every random number costs it ten thousand instructions, and inodes,
/// processes and ports take one each.
fn collect_randomness() -> Result<()> {
    let mut random = fs::File::open("/dev/random").context("open /dev/random")?;
    random.read_exact(&mut [0; 32]).context("wait for randomness")
}

fn uses_product(setup: &Setup) -> bool {
    match setup {
        Setup::Under { .. } | Setup::Beside { .. } | Setup::Empty { .. } => true,
        Setup::Nothing | Setup::AppArmor { .. } | Setup::Seccomp { .. } => false,
    }
}

/// The measuring process does not know what it runs under.
fn named(line: Line, name: &str) -> Line {
    match line {
        Line::Sample {
            operation,
            rounds,
            batches,
            ..
        } => Line::Sample {
            system: name.to_owned(),
            operation,
            rounds,
            batches,
        },
        Line::Problem { operation, text, .. } => Line::Problem {
            system: name.to_owned(),
            operation,
            text,
        },
        other => other,
    }
}

/// A process that does the operation many times, compared with one that only makes ready for it.
fn count(active: &Active, operations: &[Work]) -> Result<()> {
    let Active::Empty(programs) = active else {
        return Ok(());
    };
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").context("count runs of programs")?;
    for work in operations {
        let runs = |repeat: u32| -> Result<BTreeMap<String, u64>> {
            let before = programs.runs()?;
            active.repeat(&work.name, repeat)?;
            let mut after = programs.runs()?;
            for (hook, count) in &mut after {
                *count -= before.get(hook).copied().unwrap_or_default();
            }
            Ok(after)
        };
        let idle = runs(0)?;
        let mut passed = runs(COUNTED)?;
        for (hook, count) in &mut passed {
            *count = count.saturating_sub(idle.get(hook).copied().unwrap_or_default());
            *count = *count * 1000 / u64::from(COUNTED);
        }
        passed.retain(|_, count| *count >= 500);
        say(&Line::Hooks {
            operation: work.name.clone(),
            passes: passed,
        })?;
    }
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "0").context("stop counting")
}
