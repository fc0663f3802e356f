//! What an agent takes of the machine.

use std::{fs, thread, time::Duration};

use anyhow::{Context, Result};

use super::lab::Node;

const IDLE: Duration = Duration::from_mins(1);
/// The kernel's clock ticks in a second (`sysconf(_SC_CLK_TCK)` of every Linux).
const TICKS: f64 = 100.0;

/// Resident memory in KiB: all, anonymous, of files.
pub(super) fn memory(node: &Node) -> Result<[u64; 3]> {
    let path = format!("/proc/{}/status", node.agent.pid());
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let field = |name: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next())
            .and_then(|word| word.parse().ok())
            .with_context(|| format!("no {name}"))
    };
    Ok([field("VmRSS:")?, field("RssAnon:")?, field("RssFile:")?])
}

/// The share of a processor that it used in a while without work.
pub(super) fn idle(node: &Node) -> Result<f64> {
    let before = processor(node)?;
    thread::sleep(IDLE);
    Ok((processor(node)? - before) / IDLE.as_secs_f64())
}

/// Nanoseconds of a processor that it used in a second without work, which are instructions where the clock counts these.
/// The scheduler's own figure: a second has too few ticks of the clock.
pub(super) fn idle_time(node: &Node) -> Result<u64> {
    let before = scheduled(node)?;
    thread::sleep(IDLE);
    Ok((scheduled(node)? - before) / IDLE.as_secs())
}

/// The first field of `schedstat` of every thread (Linux, `Documentation/scheduler/sched-stats.rst`): its time on a processor.
fn scheduled(node: &Node) -> Result<u64> {
    let folder = format!("/proc/{}/task", node.agent.pid());
    let threads = fs::read_dir(&folder).with_context(|| format!("read {folder}"))?;
    let mut sum = 0;
    for thread in threads {
        let path = thread?.path().join("schedstat");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let time = text
            .split_whitespace()
            .next()
            .and_then(|word| word.parse::<u64>().ok());
        sum += time.with_context(|| format!("read `{text}` of {}", path.display()))?;
    }
    Ok(sum)
}

/// Seconds of a processor since its start.
pub(super) fn processor(node: &Node) -> Result<f64> {
    let path = format!("/proc/{}/stat", node.agent.pid());
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    // The name in brackets may hold blanks.
    let rest = text.rsplit_once(") ").map(|(_, rest)| rest).context("no name")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let field = |index: usize| -> Result<f64> { fields[index].parse().context("no number") };
    Ok((field(11)? + field(12)?) / TICKS)
}
