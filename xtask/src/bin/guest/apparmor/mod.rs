//! `apparmor`: proves on this kernel that `AppArmor` holds each built-in rule, and nothing beside it.

mod capabilities;
mod cases;
mod entry;
mod operations;
mod raw;
mod stage;
mod table;

use std::{fs, process::Command, process::ExitCode, time::Instant};

use anyhow::{Context, Result};

use crate::{
    attack::{self, Outcome, Outcomes},
    line::Line,
};
use cases::Case;
use entry::Entry;
use operations::Done;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these rules and cases
    names: Vec<String>,
    /// Do one operation and print what became of it
    #[arg(long, hide = true)]
    operation: Option<String>,
    /// Do these operations, each in a process of its own
    #[arg(long, hide = true, value_delimiter = ',')]
    attempt: Vec<String>,
}

const VARMOR: &str = "/varmor";

pub(crate) use raw::{load_bpf_program, numbers, with_buffer};

/// What becomes of `RULE/forbidden` or `RULE/benign` here; none for a rule without an entry.
pub(crate) fn outcome_of(rule: &str, is_forbidden: bool) -> Option<Outcome> {
    let entry = table::entries().find(|entry| entry.rule == rule)?;
    let run = if is_forbidden {
        entry.forbidden
    } else {
        entry.benign
    };
    Some(Outcome::of(run()))
}

/// Why the rule cannot be shown here, if it has an entry and cannot.
pub(crate) fn missing(rule: &str) -> Option<String> {
    let entry = table::entries().find(|entry| entry.rule == rule)?;
    (entry.missing)()
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    if let Some(name) = &args.operation {
        println!("{}", serde_json::to_string(&Outcome::of(operation(name)?()))?);
        return Ok(ExitCode::SUCCESS);
    }
    if !args.attempt.is_empty() {
        return attempt(&args.attempt);
    }
    stage::prepare().context("prepare the guest")?;
    let wanted = |name: &str| args.names.is_empty() || args.names.iter().any(|one| one == name);
    let mut good = true;
    let mut held = 0;
    for entry in table::entries().filter(|entry| wanted(entry.rule)) {
        let passed = judge_entry(entry)?;
        good &= passed != "failed";
        held += usize::from(passed == "passed");
    }
    for case in cases::all().iter().filter(|case| wanted(case.name)) {
        good &= judge_case(case)?;
    }
    let left = fs::read_to_string("/sys/kernel/security/apparmor/profiles").unwrap_or_default();
    let is_clean = !left.contains("varmor-");
    print("no profile is left behind", is_clean, left.trim().to_owned(), 0)?;
    // Said as a case, so that the number stands in the report of the suite.
    let detail = format!("{held} built-in rules are held by AppArmor");
    print("built-in rules", held > 0 || !args.names.is_empty(), detail, 0)?;
    Ok(if good && is_clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn operation(name: &str) -> Result<fn() -> Done> {
    if let Some((rule, which)) = name.split_once('/') {
        let entry = table::entries()
            .find(|entry| entry.rule == rule)
            .context("no such rule")?;
        return Ok(if which == "forbidden" {
            entry.forbidden
        } else {
            entry.benign
        });
    }
    cases::operation(name).with_context(|| format!("no operation `{name}`"))
}

/// Some operations change the process for good, so each gets a fresh one.
fn attempt(names: &[String]) -> Result<ExitCode> {
    for name in names {
        let output = Command::new("/proc/self/exe")
            .args(["apparmor", "--operation", name])
            .output()
            .context("start an operation")?;
        let outcome = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            Outcome::Broken(format!(
                "{}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            ))
        });
        println!("{}", serde_json::to_string(&(name, outcome))?);
    }
    Ok(ExitCode::SUCCESS)
}

/// What becomes of the operations, free or under a policy, and what was said beside.
fn outcomes(policy: Option<&str>, names: &[&str]) -> Result<(Outcomes, String)> {
    let attempt = ["/varmor-guest", "apparmor", "--attempt", &names.join(",")].map(str::to_owned);
    let mut command = Command::new(if policy.is_some() { VARMOR } else { &attempt[0] });
    match policy {
        Some(file) => command.args(["run", "--policy", file, "--"]).args(&attempt),
        None => command.args(&attempt[1..]),
    };
    attack::outcomes(&mut command)
}

fn judge_entry(entry: &Entry) -> Result<&'static str> {
    if let Some(reason) = (entry.missing)() {
        let line = Line {
            suite: "apparmor",
            case: entry.rule,
            outcome: "skipped",
            detail: reason,
            ms: 0,
        };
        line.say()?;
        return Ok("skipped");
    }
    let policy = cases::policy_with_rule(entry.rule);
    let (forbidden, benign) = (
        format!("{}/forbidden", entry.rule),
        format!("{}/benign", entry.rule),
    );
    let expected = [(forbidden.as_str(), false), (benign.as_str(), true)];
    Ok(if judge(entry.rule, &policy, &expected)? {
        "passed"
    } else {
        "failed"
    })
}

fn judge_case(case: &Case) -> Result<bool> {
    judge(case.name, case.policy, case.expected)
}

/// Every operation works without the policy; under it those work that should (true) and no others.
fn judge(name: &str, policy: &str, expected: &[(&str, bool)]) -> Result<bool> {
    let start = Instant::now();
    let file = "/tmp/policy.yaml";
    fs::write(file, policy)?;
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    match (outcomes(None, &names), outcomes(Some(file), &names)) {
        (Ok((free, _)), Ok((under, said))) => {
            for (operation, works) in expected {
                let (free, under) = (free.get(*operation), under.get(*operation));
                let held = if *works {
                    under == Some(&Outcome::Allowed)
                } else {
                    matches!(under, Some(Outcome::Denied(_)))
                };
                if free != Some(&Outcome::Allowed) || !held {
                    wrong.push(format!(
                        "{operation}: free {free:?}, under the policy {under:?}; it said {said}"
                    ));
                }
            }
        }
        (free, under) => {
            for error in [free.err(), under.err()].into_iter().flatten() {
                wrong.push(format!("{error:#}"));
            }
        }
    }
    print(
        name,
        wrong.is_empty(),
        wrong.join("; "),
        start.elapsed().as_millis(),
    )
}

fn print(case: &str, good: bool, detail: String, ms: u128) -> Result<bool> {
    let line = Line {
        suite: "apparmor",
        case,
        outcome: if good { "passed" } else { "failed" },
        detail,
        ms,
    };
    line.say()?;
    Ok(good)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{cases, operation, table};

    #[test]
    fn every_rule_and_case_has_one_entry_and_its_operations_exist() {
        let mut names = BTreeSet::new();
        for entry in table::entries() {
            assert!(names.insert(entry.rule), "{} twice", entry.rule);
        }
        for case in cases::all() {
            assert!(names.insert(case.name), "{} twice", case.name);
            for (name, _) in case.expected {
                assert!(operation(name).is_ok(), "{name}");
            }
        }
    }
}
