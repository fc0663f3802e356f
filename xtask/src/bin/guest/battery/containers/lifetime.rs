//! Cases about the time in which a policy holds: the agent killed, the policy changed, everything at once.

use std::{process::Command, thread, time::Duration};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use super::{BOUND, Claim, MAIN, MAIN_POLICY, Node, READY, Row, SHADOW, policy, remove, row, start, wait};
use crate::demo::{
    agent::Agent,
    containers::{self, Counts},
};

const UPDATES: usize = 1000;
const KILL_SECONDS: u64 = 20;

/// Takes the agent: these cases kill it.
pub(super) fn rows(node: &Node, agent: Agent) -> Vec<Row> {
    let updated = row(
        "I-9",
        "read a denied file while its policy is updated 1,000 times",
        updates,
    );
    let mut agent = Some(agent);
    let killed = row("I-7", "read it while the agent is killed and restarted", || {
        killed(node, &mut agent)
    });
    let storm = row(
        "S5",
        "the agent killed, the policy changed, containers started, while everything is attacked",
        || storm(node, &mut agent),
    );
    vec![killed, updated, storm]
}

fn attack(operation: &'static str, seconds: u64) -> thread::JoinHandle<Result<Counts>> {
    thread::spawn(move || containers::counts(MAIN, operation, seconds))
}

fn join(thread: thread::JoinHandle<Result<Counts>>) -> Result<Counts> {
    thread.join().map_err(|_| anyhow!("the attacks panicked"))?
}

/// The policy with a rule that changes, behind those that stay.
fn version(number: usize) -> String {
    format!(
        "{MAIN_POLICY}        - {{qualifiers: [deny], pattern: \"/data/version-{number}/**\", permissions: [all]}}\n"
    )
}

fn updates() -> Result<Claim> {
    let before = generation()?;
    let reader = attack(SHADOW, 60);
    let benign = attack("proc-status", 60);
    for number in 0..UPDATES {
        policy(MAIN, &version(number))?;
        thread::sleep(Duration::from_millis(50));
    }
    let (denied, allowed) = (join(reader)?, join(benign)?);
    let applied = generation()?.saturating_sub(before);
    ensure!(applied > 1, "no version of the policy was taken");
    Ok(Claim::of(
        denied.allowed == 0 && denied.denied > 0 && allowed.denied == 0,
        format!(
            "{UPDATES} versions of the file, {applied} of them loaded; {} denied reads, {} successes; {} allowed reads, {} refused",
            denied.denied, denied.allowed, allowed.allowed, allowed.denied
        ),
    ))
}

/// The generation of the profile, as the kernel's tables have it.
fn generation() -> Result<u64> {
    let output = Command::new("varmor")
        .args(["status", "--output", "json"])
        .output()
        .context("run varmor status")?;
    let status: Value = serde_json::from_slice(&output.stdout).context("read varmor status")?;
    let profiles = status["profiles"].as_array().cloned().unwrap_or_default();
    let found = profiles
        .iter()
        .find(|profile| profile["name"].as_str().is_some_and(|name| name.contains(MAIN)));
    found
        .and_then(|profile| profile["generation"].as_u64())
        .context("the profile is not loaded")
}

fn killed(node: &Node, agent: &mut Option<Agent>) -> Result<Claim> {
    let reader = attack(SHADOW, KILL_SECONDS);
    thread::sleep(Duration::from_secs(3));
    // Dropping it kills it with SIGKILL.
    drop(agent.take());
    thread::sleep(Duration::from_secs(5));
    *agent = Some(restarted(node)?);
    let counts = join(reader)?;
    Ok(Claim::of(
        counts.allowed == 0 && counts.denied > 0,
        format!("{} denied reads, {} successes", counts.denied, counts.allowed),
    ))
}

fn restarted(node: &Node) -> Result<Agent> {
    let agent = node.agent()?;
    agent.wait_until_protected(MAIN, READY)?;
    Ok(agent)
}

fn begin(name: &str) -> Result<()> {
    start(name, &["--label", &format!("app={MAIN}")], &[])
}

/// The agent that has come back answers everybody who waited for it first, and that may take longer than a start waits.
fn begin_again(name: &str) -> Result<()> {
    const TIMES: usize = 5;
    let mut outcome = Ok(());
    for _ in 0..TIMES {
        remove(name);
        outcome = begin(name);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

fn storm(node: &Node, agent: &mut Option<Agent>) -> Result<Claim> {
    const STARTED: usize = 10;
    let attacks = [SHADOW, "shadow-symlink", "unshare-read"].map(|name| (name, attack(name, 45)));
    thread::sleep(Duration::from_secs(2));
    drop(agent.take());
    let starts: Vec<_> = (0..STARTED)
        .map(|number| {
            thread::spawn(move || {
                let name = format!("storm-{number}");
                let outcome = begin(&name);
                (name, outcome)
            })
        })
        .collect();
    for number in 0..10 {
        policy(MAIN, &version(number))?;
        thread::sleep(Duration::from_millis(100));
    }
    *agent = Some(restarted(node)?);
    let mut names = Vec::new();
    let mut refused = 0;
    for start in starts {
        let (name, outcome) = start.join().map_err(|_| anyhow!("a start panicked"))?;
        if outcome.is_err() {
            // Without an agent for too long a start is refused; who asked for it asks again, like the kubelet.
            refused += 1;
            begin_again(&name)?;
        }
        names.push(name);
    }
    let mut late = Vec::new();
    for name in &names {
        if wait("protected", BOUND, || {
            Ok(containers::counts(name, SHADOW, 1)?.allowed == 0)
        })
        .is_err()
        {
            late.push(name.clone());
        }
    }
    let mut found = Vec::new();
    let mut good = late.is_empty();
    for (name, thread) in attacks {
        let counts = join(thread)?;
        good &= counts.allowed == 0 && counts.denied > 0;
        found.push(format!(
            "{name}: {} denied, {} successes",
            counts.denied, counts.allowed
        ));
    }
    let text = found.join("; ");
    for name in &names {
        remove(name);
    }
    Ok(Claim::of(
        good,
        format!(
            "{text}; {refused} of {STARTED} starts refused without an agent, {} containers protected in the end",
            STARTED - late.len()
        ),
    ))
}
