//! `enforce`: the kernel programs on a real kernel, without containers. Every attempt is made three times: before
//! the programs are loaded (it works), under its policy (an attack is refused, a benign operation works), and after the
//! programs have gone (it works again).
//!
//! Loading takes most of a minute on an emulated processor, so most policies come and go under one enforcer.

mod aliases;
mod allowlist;
mod attempt;
mod attributes;
mod devices;
mod execution;
mod files;
mod guard;
mod identity;
mod mounts;
mod namespaces;
mod network;
mod policies;
mod raw;
mod shared;
mod stage;
mod targets;
mod unix;

use std::{
    fs,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result};
use attempt::{Attempt, Expect};

use crate::{
    attack::{Outcome, Outcomes, outcomes},
    limits::lift_locked_memory,
    line::Line,
};

const VARMOR: &str = "/varmor";
/// Policies that get programs of their own by `varmor run`: their attempts are about it, or about what it says.
const BY_RUN: &[&str] = &[policies::NO_RULES, policies::ALIASES];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these policies (all)
    policies: Vec<String>,
    /// Make the attempts of this policy and print the outcomes, one JSON line each (internal)
    #[arg(long)]
    attempts: Option<String>,
    /// With --attempts: in this cgroup (internal)
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Print that this program was allowed to run (internal)
    #[arg(long)]
    say: bool,
    /// Wait until the standard input ends (internal)
    #[arg(long)]
    wait: bool,
    /// Make one attempt (internal)
    #[arg(long)]
    one: Option<String>,
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    if args.say {
        println!("{}", serde_json::to_string(&Outcome::Allowed)?);
        return Ok(ExitCode::SUCCESS);
    }
    if args.wait {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &args.one {
        let attempts = all();
        let attempt = attempts
            .iter()
            .find(|attempt| attempt.name == name)
            .context("no such attempt")?;
        println!("{}", serde_json::to_string(&attempt.outcome())?);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(policy) = &args.attempts {
        return match &args.cgroup {
            Some(cgroup) => shared::enter(cgroup, policy),
            None => make_attempts(policy),
        };
    }
    lift_locked_memory()?;
    stage::prepare().context("prepare the guest")?;
    allowlist::prepare().context("prepare the allow-lists")?;
    targets::prepare().context("prepare the targets")?;
    let wanted = |policy: &str| args.policies.is_empty() || args.policies.iter().any(|name| name == policy);
    let (by_run, together): (Vec<_>, Vec<_>) = policies::ALL
        .iter()
        .filter(|(policy, _)| wanted(policy))
        .partition(|(policy, _)| BY_RUN.contains(policy));
    let mut good = true;
    for (policy, text) in by_run {
        good &= judge(policy, text)?;
    }
    good &= shared::judge(&together)?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn all() -> Vec<Attempt> {
    [
        files::attempts(),
        execution::attempts(),
        identity::attempts(),
        mounts::attempts(),
        network::attempts(),
        guard::attempts(),
        attributes::attempts(),
        devices::attempts(),
        namespaces::attempts(),
        aliases::attempts(),
        unix::attempts(),
        allowlist::attempts(),
        targets::attempts(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Each attempt in a process of its own: some change the process for good.
fn make_attempts(policy: &str) -> Result<ExitCode> {
    for attempt in all().iter().filter(|attempt| attempt.policy == policy) {
        let output = Command::new("/proc/self/exe")
            .args(["enforce", "--one", attempt.name])
            .output()
            .context("start an attempt")?;
        let outcome = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            Outcome::Broken(format!(
                "{}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            ))
        });
        println!("{}", serde_json::to_string(&(attempt.name, outcome))?);
    }
    Ok(ExitCode::SUCCESS)
}

/// The outcomes of one policy's attempts.
struct Seen {
    before: Outcomes,
    during: Outcomes,
    after: Outcomes,
    /// What the enforcer said meanwhile.
    said: String,
    /// How long the attempts under the policy took, in milliseconds.
    ms: u128,
}

/// Runs the attempts of one policy three times, under it by `varmor run`, and prints a line per attempt.
fn judge(policy: &str, text: &str) -> Result<bool> {
    let file = write_policy(policy, text)?;
    let before = free_outcomes(policy)?;
    let start = Instant::now();
    let (during, said) = outcomes(
        Command::new(VARMOR)
            .args(["run", "--policy", &file, "--"])
            .args(maker(policy)),
    )?;
    let ms = start.elapsed().as_millis();
    let after = free_outcomes(policy)?;
    report(
        policy,
        &Seen {
            before,
            during,
            after,
            said,
            ms,
        },
    )
}

fn write_policy(policy: &str, text: &str) -> Result<String> {
    let file = format!("/tmp/{policy}.yaml");
    fs::write(&file, text).with_context(|| format!("write {file}"))?;
    Ok(file)
}

/// The command that makes the attempts of a policy.
fn maker(policy: &str) -> [&str; 4] {
    ["/varmor-guest", "enforce", "--attempts", policy]
}

/// What becomes of the attempts without any policy.
fn free_outcomes(policy: &str) -> Result<Outcomes> {
    let [program, arguments @ ..] = maker(policy);
    Ok(outcomes(Command::new(program).args(arguments))?.0)
}

/// Prints a line per attempt of the policy and one for the policy.
fn report(policy: &str, seen: &Seen) -> Result<bool> {
    let mut good = true;
    for attempt in all().iter().filter(|attempt| attempt.policy == policy) {
        let (mut outcome, mut detail) = verdict(attempt, seen);
        if outcome == "passed" && !seen.said.contains(attempt.says) {
            outcome = "failed";
            detail = format!(
                "refused, but the enforcer did not say `{}`: {}",
                attempt.says, seen.said
            );
        }
        good &= outcome != "failed";
        let line = Line {
            suite: "enforce",
            case: attempt.name,
            outcome,
            detail,
            ms: 0,
        };
        line.say()?;
    }
    let line = Line {
        suite: "enforce",
        case: policy,
        outcome: "passed",
        detail: String::new(),
        ms: seen.ms,
    };
    line.say()?;
    Ok(good)
}

fn verdict(attempt: &Attempt, seen: &Seen) -> (&'static str, String) {
    let of = |outcomes: &Outcomes| {
        outcomes
            .get(attempt.name)
            .cloned()
            .unwrap_or_else(|| Outcome::Broken("not made".to_owned()))
    };
    let (before, during, after) = (of(&seen.before), of(&seen.during), of(&seen.after));
    if let Some(reason) = (attempt.missing)() {
        return ("skipped", reason);
    }
    let works = |outcome: &Outcome| *outcome == Outcome::Allowed;
    let held = match attempt.expect {
        Expect::Denied => matches!(during, Outcome::Denied(_)),
        Expect::Allowed => works(&during),
    };
    if works(&before) && held && works(&after) {
        ("passed", String::new())
    } else {
        (
            "failed",
            format!("before {before:?}, under the policy {during:?}, after {after:?}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{BY_RUN, all};

    #[test]
    fn what_the_enforcer_says_is_looked_for_only_where_it_is_kept() {
        let asking = all().into_iter().filter(|attempt| !attempt.says.is_empty());
        let elsewhere: Vec<_> = asking
            .filter(|attempt| !BY_RUN.contains(&attempt.policy))
            .map(|attempt| attempt.name)
            .collect();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
    }

    #[test]
    fn every_attempt_has_a_name_of_its_own() {
        let names: BTreeSet<_> = all().iter().map(|attempt| attempt.name).collect();
        assert_eq!(names.len(), all().len());
    }
}
