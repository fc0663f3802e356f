//! Many policies one after the other under one enforcer, whose programs are loaded once: every attempt is made before
//! they are loaded, under its policy, and after they have gone.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{Seen, free_outcomes, maker, report, write_policy};
use crate::{
    attack::{Outcomes, outcomes},
    life::{Enforcer, cgroup},
};

/// Judges the policies (name and text) and prints a line per attempt.
pub(super) fn judge(policies: &[(&str, &str)]) -> Result<bool> {
    if policies.is_empty() {
        return Ok(true);
    }
    let mut all = Vec::new();
    for (policy, _) in policies {
        all.push(Seen {
            before: free_outcomes(policy)?,
            during: Outcomes::new(),
            after: Outcomes::new(),
            said: String::new(),
            ms: 0,
        });
    }
    let mut enforcer = Enforcer::start()?;
    for ((policy, text), seen) in policies.iter().zip(&mut all) {
        let start = Instant::now();
        seen.during = under(&mut enforcer, policy, text).with_context(|| format!("policy {policy}"))?;
        seen.ms = start.elapsed().as_millis();
    }
    enforcer.uninstall()?;
    let mut good = true;
    for ((policy, _), seen) in policies.iter().zip(&mut all) {
        seen.after = free_outcomes(policy)?;
        good &= report(policy, seen)?;
    }
    Ok(good)
}

/// What becomes of the policy's attempts in a cgroup that is bound to it.
fn under(enforcer: &mut Enforcer, policy: &str, text: &str) -> Result<Outcomes> {
    let file = write_policy(policy, text)?;
    let place = cgroup(&format!("enforce-{policy}"))?;
    enforcer.apply(&file, policy)?;
    enforcer.protect(std::slice::from_ref(&place), &[policy.to_owned()])?;
    let [program, arguments @ ..] = maker(policy);
    let made = outcomes(Command::new(program).args(arguments).arg("--cgroup").arg(&place));
    enforcer.release(&place)?;
    enforcer.remove(policy)?;
    remove(&place)?;
    Ok(made?.0)
}

/// Becomes the maker of attempts inside the cgroup; the exec gives the label.
pub(super) fn enter(cgroup: &Path, policy: &str) -> Result<ExitCode> {
    fs::write(cgroup.join("cgroup.procs"), "0").context("enter the cgroup")?;
    let [_, arguments @ ..] = maker(policy);
    let error = Command::new("/proc/self/exe").args(arguments).exec();
    Err(error).context("make the attempts")
}

/// Removes a cgroup once its last process has been reaped.
fn remove(cgroup: &Path) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(30);
    let start = Instant::now();
    while let Err(error) = fs::remove_dir(cgroup) {
        if start.elapsed() > PATIENCE {
            bail!("remove {}: {error}", cgroup.display());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
