//! Carries a plan out: one system after the other, all operations under each.

use std::{collections::BTreeMap, fs, io::Read, thread::sleep, time::Duration};

use anyhow::{Context, Result};

use super::{
    attached, kept, plan, programs,
    protocol::{Clock, Line, Plan, Setup, Work},
    say, spent, stage,
    systems::{self, Active},
};

/// The first seconds after boot cost up to three times more on some kernels.
const SETTLE: Duration = Duration::from_secs(20);
/// A step of the salt is no part of a tick.
const SALT: Duration = Duration::from_micros(7300);
/// Operations for counting the hooks that they pass.
const COUNTED: u32 = 100;

pub(super) fn run() -> Result<()> {
    let plan = plan()?;
    if plan.clock == Clock::Time {
        return in_time(&plan);
    }
    stage::prepare()?;
    collect_randomness()?;
    sleep(SETTLE + SALT * plan.salt);
    attached::prepare()?;
    let before = attached::count()?;
    let mut known = systems::Known::new();
    let mut left = plan
        .systems
        .iter()
        .filter(|system| uses_product(&system.setup))
        .count();
    // The measuring process cannot take its priority itself where a policy refuses it the capability. All systems of one
    // plan are treated alike.
    let is_granted = plan.operations.iter().any(programs::is_one)
        || plan
            .systems
            .iter()
            .any(|system| system.name.starts_with("EnhanceProtect"));
    for system in &plan.systems {
        let outcome = systems::activate(&system.setup, &mut known).and_then(|active| {
            let _companion = active.companion()?;
            let lines = if is_granted {
                active.measure_granted(plan.salt)?
            } else {
                active.measure(plan.salt)?
            };
            for line in lines {
                say(&named(line, &system.name))?;
            }
            let hooks = active.hooks()?;
            if !hooks.is_empty() {
                say(&Line::Note {
                    system: system.name.clone(),
                    text: hooks.join(" "),
                })?;
            }
            if plan.count_hooks {
                count(&active, &plan.operations)?;
            }
            if plan.by_program && matches!(system.setup, Setup::Under { .. } | Setup::Beside { .. }) {
                spent::tell(&system.name, &active, &plan.operations)?;
            }
            active.end()?;
            attached::wait_for(before)
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

/// On a machine at its own work nobody waits for its kernel to be quiet.
fn in_time(plan: &Plan) -> Result<()> {
    if !plan.operations.iter().all(programs::is_one) {
        stage::prepare()?;
    }
    let mut known = systems::Known::new();
    for system in &plan.systems {
        let measured = systems::activate(&system.setup, &mut known).and_then(|active| {
            let lines = active.measure(plan.salt)?;
            active.end()?;
            Ok(lines)
        });
        match measured {
            Ok(lines) => {
                for line in lines {
                    say(&named(line, &system.name))?;
                }
            }
            Err(error) => say(&Line::Problem {
                system: system.name.clone(),
                operation: None,
                text: format!("{error:#}"),
            })?,
        }
    }
    Ok(())
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
