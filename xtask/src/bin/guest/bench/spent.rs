//! What an operation costs in each program of the product. The kernel's clock counts instructions here.

use std::{
    collections::BTreeMap,
    fs,
    os::fd::{AsRawFd, OwnedFd},
};

use anyhow::{Context, Result};

use super::{
    kept,
    protocol::{Line, Runs, Work},
    raw, say,
    systems::Active,
};

const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// Operations for what is said of a thousand.
const REPEATED: u32 = 200;

/// A process that does the operation many times, compared with one that only makes ready for it.
pub(super) fn tell(system: &str, active: &Active, operations: &[Work]) -> Result<()> {
    let programs = kept::programs()?
        .into_iter()
        .map(|pin| {
            let name = pin.file_name().map(|name| name.to_string_lossy().into_owned());
            let program = raw::pinned(&pin).with_context(|| format!("open {}", pin.display()))?;
            Ok((name.unwrap_or_default(), program))
        })
        .collect::<Result<Vec<_>>>()?;
    fs::write(SWITCH, "1").context("count what programs take")?;
    for work in operations {
        let spent = |repeat: u32| -> Result<BTreeMap<String, Runs>> {
            let before = counted(&programs)?;
            active.repeat(&work.name, repeat)?;
            let mut after = counted(&programs)?;
            for (name, runs) in &mut after {
                *runs = less(*runs, before.get(name).copied().unwrap_or_default());
            }
            Ok(after)
        };
        let idle = spent(0)?;
        let mut all = spent(REPEATED)?;
        for (name, runs) in &mut all {
            *runs = less(*runs, idle.get(name).copied().unwrap_or_default());
            runs.runs = runs.runs * 1000 / u64::from(REPEATED);
            runs.instructions = runs.instructions * 1000 / u64::from(REPEATED);
        }
        all.retain(|_, runs| runs.runs >= 500);
        say(&Line::Programs {
            system: system.to_owned(),
            operation: work.name.clone(),
            programs: all,
        })?;
    }
    fs::write(SWITCH, "0").context("stop counting")
}

fn less(count: Runs, other: Runs) -> Runs {
    Runs {
        runs: count.runs.saturating_sub(other.runs),
        instructions: count.instructions.saturating_sub(other.instructions),
    }
}

fn counted(programs: &[(String, OwnedFd)]) -> Result<BTreeMap<String, Runs>> {
    let count = |(name, program): &(String, OwnedFd)| {
        let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))?;
        let field = |name: &str| -> Result<u64> {
            let value = about.lines().find_map(|line| line.strip_prefix(name));
            Ok(value
                .with_context(|| format!("the kernel tells no {name}"))?
                .trim()
                .parse()?)
        };
        let runs = Runs {
            runs: field("run_cnt:")?,
            instructions: field("run_time_ns:")?,
        };
        Ok((name.clone(), runs))
    };
    programs.iter().map(count).collect()
}
