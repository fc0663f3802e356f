//! `enforce`: the kernel programs on a real kernel, without containers. Every attempt is made three times: before
//! the policy (it works), under it (an attack is refused, a benign operation works), and after it (it works again).

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
mod stage;
mod targets;
mod unix;

use std::{
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

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these policies (all)
    policies: Vec<String>,
    /// Make the attempts of this policy and print the outcomes, one JSON line each (internal)
    #[arg(long)]
    attempts: Option<String>,
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
        return make_attempts(policy);
    }
    lift_locked_memory()?;
    stage::prepare().context("prepare the guest")?;
    allowlist::prepare().context("prepare the allow-lists")?;
    targets::prepare().context("prepare the targets")?;
    let mut good = true;
    let wanted = |policy: &str| args.policies.is_empty() || args.policies.iter().any(|name| name == policy);
    for (policy, text) in policies::ALL.iter().filter(|(policy, _)| wanted(policy)) {
        good &= judge(policy, text)?;
    }
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

/// Runs the attempts of one policy three times and prints a line per attempt.
fn judge(policy: &str, text: &str) -> Result<bool> {
    let file = format!("/tmp/{policy}.yaml");
    std::fs::write(&file, text)?;
    let free = ["/varmor-guest", "enforce", "--attempts", policy];
    let (before, _) = outcomes(Command::new(free[0]).args(&free[1..]))?;
    let start = Instant::now();
    let (during, said) = outcomes(
        Command::new(VARMOR)
            .args(["run", "--policy", &file, "--"])
            .args(free),
    )?;
    let ms = start.elapsed().as_millis();
    let (after, _) = outcomes(Command::new(free[0]).args(&free[1..]))?;
    let mut good = true;
    for attempt in all().iter().filter(|attempt| attempt.policy == policy) {
        let (mut outcome, mut detail) = verdict(attempt, &before, &during, &after);
        if outcome == "passed" && !said.contains(attempt.says) {
            outcome = "failed";
            detail = format!("refused, but the enforcer did not say `{}`: {said}", attempt.says);
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
        ms,
    };
    line.say()?;
    Ok(good)
}

fn verdict(
    attempt: &Attempt,
    before: &Outcomes,
    during: &Outcomes,
    after: &Outcomes,
) -> (&'static str, String) {
    let of = |outcomes: &Outcomes| {
        outcomes
            .get(attempt.name)
            .cloned()
            .unwrap_or_else(|| Outcome::Broken("not made".to_owned()))
    };
    let (before, during, after) = (of(before), of(during), of(after));
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

    use super::all;

    #[test]
    fn every_attempt_has_a_name_of_its_own() {
        let names: BTreeSet<_> = all().iter().map(|attempt| attempt.name).collect();
        assert_eq!(names.len(), all().len());
    }
}
