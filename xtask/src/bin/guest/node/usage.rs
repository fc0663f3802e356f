//! What an agent takes of the machine.

use std::{fs, thread, time::Duration};

use anyhow::{Context, Result};

use super::lab::Node;

/// Long enough for ticks to be small beside what is used in it.
const IDLE: Duration = Duration::from_mins(5);
/// Nanoseconds in a tick (100 in a second, `sysconf(_SC_CLK_TCK)` of every Linux).
const TICK: u64 = 10_000_000;

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

/// Nanoseconds of a processor that it used in a second without work, which are instructions where the clock counts these.
pub(super) fn idle_time(node: &Node) -> Result<u64> {
    let before = processor(node)?;
    thread::sleep(IDLE);
    Ok((processor(node)? - before) / IDLE.as_secs())
}

/// Nanoseconds of a processor since its start, of all threads and also of those that have ended. The kernel tells them in
/// ticks, of which the scheduler's own clock decides how many there are (`cputime_adjust`).
pub(super) fn processor(node: &Node) -> Result<u64> {
    let path = format!("/proc/{}/stat", node.agent.pid());
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    // The name in brackets may hold blanks.
    let rest = text.rsplit_once(") ").map(|(_, rest)| rest).context("no name")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |index: usize| -> Result<u64> { fields[index].parse().context("no number") };
    Ok((ticks(11)? + ticks(12)?) * TICK)
}
