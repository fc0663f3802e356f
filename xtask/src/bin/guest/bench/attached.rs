//! How many LSM hooks the kernel leads through programs. A link that is closed leaves the kernel's list of links at once,
//! but its program is called until its turn comes in a queue, which waits for a grace period each time.

use std::{fs, thread::sleep, time::Duration};

use anyhow::{Context, Result, ensure};
use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
};

const TRACEFS: &str = "/sys/kernel/tracing";
const LIMIT: Duration = Duration::from_mins(2);
const STEP: Duration = Duration::from_millis(100);

pub(super) fn prepare() -> Result<()> {
    const NOTHING: Option<&str> = None;
    match mount(NOTHING, TRACEFS, Some("tracefs"), MsFlags::empty(), NOTHING) {
        Ok(()) | Err(Errno::EBUSY) => Ok(()),
        Err(error) => Err(error).context("mount tracefs"),
    }
}

/// Hooks with programs, of whoever has attached them.
pub(super) fn count() -> Result<usize> {
    let path = format!("{TRACEFS}/enabled_functions");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    Ok(text.lines().filter(|line| line.starts_with("bpf_lsm_")).count())
}

/// Until the programs of whatever was measured before are called no more, and those of what comes are.
pub(super) fn wait_for(hooks: usize) -> Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        let found = count()?;
        if found == hooks {
            return Ok(());
        }
        ensure!(
            waited < LIMIT,
            "the kernel calls programs on {found} hooks and not on {hooks}, {} s later",
            LIMIT.as_secs()
        );
        sleep(STEP);
        waited += STEP;
    }
}
