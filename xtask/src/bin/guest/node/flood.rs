//! A container that is refused as often as it can: the machine stays usable, and nothing is lost without being counted.

use std::{fs, thread, time::Duration, time::Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    Scale,
    lab::{self, Claims, Node, SHADOW},
};
use crate::demo::containers;

const APP: &str = "node-flood";
const LOGS: &str = "/var/log/varmor";
const READY: Duration = Duration::from_mins(5);
/// Sums of repetitions are written when their window has passed.
const SETTLED: Duration = Duration::from_secs(5);
/// Another container must be able to start meanwhile.
const RESPONSIVE: Duration = Duration::from_mins(1);

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    lab::enforce(APP, "disable-access-shadow")?;
    lab::sleeper(APP, APP)?;
    node.agent.wait_until_protected(APP, READY)?;
    let times = scale.flood.to_string();
    let flood = thread::spawn(move || lab::inside(APP, &["flood", SHADOW, &times]));
    let start = Instant::now();
    let meanwhile = containers::ctr(&["containers", "list"]).map(|_| start.elapsed());
    let counts = flood
        .join()
        .map_err(|_| anyhow::anyhow!("the flood panicked"))??;
    claims.claim(
        "the machine answers during a flood of denials",
        meanwhile.and_then(|took| {
            ensure!(took < RESPONSIVE, "containerd took {} s", took.as_secs());
            ensure!(node.agent.is_alive(), "the agent is dead");
            Ok(format!("containerd answered in {} ms", took.as_millis()))
        }),
    );
    claims.claim(
        "every denial of a flood is in the log or counted",
        account(scale.flood, &counts),
    );
    lab::remove(APP);
    Ok(())
}

fn account(asked: u64, counts: &Value) -> Result<String> {
    let denied = lab::number(counts, "/denied")?;
    ensure!(denied == asked, "{denied} of {asked} were denied");
    let mut found = String::new();
    let mut is_equal = || -> Result<bool> {
        thread::sleep(SETTLED);
        let status = lab::kernel_status()?;
        let activity = status["activity"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|one| one["profile"].as_str().is_some_and(|name| name.ends_with(APP)))
            .context("the profile has no activity")?
            .clone();
        let produced = lab::number(&activity, "/denied")?;
        let (limited, lost) = (
            lab::number(&activity, "/limited")?,
            lab::number(&activity, "/lost")?,
        );
        let (lines, logged) = logged()?;
        found = format!(
            "{produced} denials = {logged} in {lines} lines of the log + {limited} above the rate + {lost} lost; the flood took {} ms",
            counts["ms"]
        );
        Ok(produced == logged + limited + lost)
    };
    for _ in 0..6 {
        if is_equal()? {
            return Ok(found);
        }
    }
    anyhow::bail!("not equal: {found}")
}

/// Lines of this container in the log and its older parts, and for how many denials they stand.
fn logged() -> Result<(u64, u64)> {
    let (mut lines, mut denials) = (0, 0);
    for entry in fs::read_dir(LOGS).with_context(|| format!("read {LOGS}"))? {
        let path = entry.context("read an entry")?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).with_context(|| format!("read `{line}`"))?;
            if line["profileName"]
                .as_str()
                .is_some_and(|name| name.ends_with(APP))
            {
                lines += 1;
                denials += lab::number(&line, "/count")?;
            }
        }
    }
    Ok((lines, denials))
}
