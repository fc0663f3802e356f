//! The commands that are compared, and the program that does the operations.

use std::{
    fs::{self, File},
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::{
    counts::Counts,
    operation::{Operation, Outcome},
    policies::Builtin,
    stage::PLAIN,
};

const VARMOR: &str = "/varmor";
const OPERATIONS: &str = "/tmp/agree-operations";
const EVENTS: &str = "/tmp/agree-events";

#[derive(Deserialize)]
struct Decision {
    outcome: String,
}

/// What `simulate` says.
#[derive(Deserialize)]
struct Simulated {
    decided: u64,
    skipped: u64,
    flips: Vec<Value>,
}

pub(super) fn answer(arguments: &[&str]) -> Result<String> {
    let output = Command::new(VARMOR)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("start varmor")?;
    ensure!(
        output.status.success(),
        "varmor {}: {}: {}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).context("read the answer")
}

pub(super) fn catalogue() -> Result<Vec<Builtin>> {
    serde_json::from_str(&answer(&["rules", "list", "--output", "json"])?).context("read the catalogue")
}

/// What became of a batch, and what was logged.
pub(super) struct Done {
    pub(super) plain: Vec<Outcome>,
    pub(super) targeted: Vec<Outcome>,
    pub(super) events: String,
}

/// Does the operations, free or under a policy: `plain` by a program that no policy has rules for alone, then `targeted`
/// by one that it starts.
pub(super) fn outcomes(policy: Option<&str>, plain: &[Operation], targeted: &[Operation]) -> Result<Done> {
    let mut file = File::create(OPERATIONS)?;
    for operation in plain.iter().chain(targeted) {
        serde_json::to_writer(&mut file, operation)?;
        file.write_all(b"\n")?;
    }
    drop(file);
    let mut command = Command::new(if policy.is_some() { VARMOR } else { PLAIN });
    if let Some(policy) = policy {
        command.args([
            "run",
            "--quiet",
            "--violations",
            EVENTS,
            "--policy",
            policy,
            "--",
            PLAIN,
        ]);
    }
    // A pipe is of no path, so no policy keeps the operator from its work.
    let mut feed = Command::new("/bin/busybox")
        .args(["cat", OPERATIONS])
        .stdout(Stdio::piped())
        .spawn()?;
    let output = command
        .args(["agree", "--operate", "--own", &plain.len().to_string()])
        .stdin(feed.stdout.take().context("no pipe")?)
        .output()
        .context("start the operator")?;
    feed.wait()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}: {}", output.status, errors.trim());
    let text = String::from_utf8(output.stdout).context("read the outcomes")?;
    let mut plains = text
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("read `{line}`")))
        .collect::<Result<Vec<Outcome>>>()?;
    let count = plain.len() + targeted.len();
    ensure!(
        plains.len() == count,
        "{} of {count} operations were done: {}",
        plains.len(),
        errors.trim()
    );
    let targeted = plains.split_off(plain.len());
    let events = match policy {
        Some(_) => fs::read_to_string(EVENTS).context("read the events")?,
        None => String::new(),
    };
    Ok(Done {
        plain: plains,
        targeted,
        events,
    })
}

/// What `explain` says about each operation when `program` does it: refused if one of its questions is.
pub(super) fn explain(policy: &str, program: &str, operations: &[Operation]) -> Result<Vec<bool>> {
    let decisions = decisions(policy, program, operations)?;
    let is_denied = |asked: &Vec<String>| asked.iter().any(|outcome| outcome == "denied");
    Ok(decisions.iter().map(is_denied).collect())
}

/// The answer to each question of each operation.
pub(super) fn decisions(policy: &str, program: &str, operations: &[Operation]) -> Result<Vec<Vec<String>>> {
    let lines: String = operations
        .iter()
        .flat_map(|operation| &operation.asks)
        .flat_map(|ask| [ask, "\n"])
        .collect();
    fs::write(OPERATIONS, lines)?;
    let text = answer(&[
        "explain",
        policy,
        "--operations",
        OPERATIONS,
        "--executable",
        program,
    ])?;
    let mut answers = text.lines();
    operations
        .iter()
        .map(|operation| {
            let of_one = operation.asks.iter().map(|_| {
                let line = answers.next().context("explain said too little")?;
                let decision: Decision =
                    serde_json::from_str(line).with_context(|| format!("read `{line}`"))?;
                Ok(decision.outcome)
            });
            of_one.collect()
        })
        .collect()
}

/// The events of a run, decided again under the same policy: none may flip.
pub(super) fn simulate(policy: &str, events: &str, counts: &mut Counts) -> Result<Vec<String>> {
    fs::write(EVENTS, events)?;
    let output = Command::new(VARMOR)
        .args(["simulate", policy, "--events", EVENTS, "--output", "json"])
        .output()
        .context("start varmor")?;
    let said: Simulated = serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "simulate: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )
    })?;
    counts.decided += said.decided;
    counts.skipped += said.skipped;
    let mut wrong: Vec<String> = said
        .flips
        .iter()
        .take(super::SAID)
        .map(|flip| {
            let line = flip["line"].as_u64().and_then(|line| usize::try_from(line).ok());
            let event = line
                .and_then(|line| events.lines().nth(line - 1))
                .unwrap_or_default();
            format!("simulate flips {flip}, of {event}")
        })
        .collect();
    // Nothing that the suite does is beyond judging.
    if let Some(line) = events.lines().find(|line| line.contains(r#""fault":"#)) {
        wrong.push(format!("something could not be judged: {line}"));
    }
    counts.wrong += said.flips.len();
    Ok(wrong)
}
