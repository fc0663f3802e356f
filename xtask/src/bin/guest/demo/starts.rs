//! The first instructions of containers: with the agent there, while it is away for a moment, and without one.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::containers;

/// `metadata.name` of the policy and the label that it selects.
pub(super) const APP: &str = "starts";
pub(super) const POLICY: &str = r"apiVersion: crd.varmor.org/v1beta1
kind: VarmorClusterPolicy
metadata: {name: starts}
spec:
  target: {kind: Pod, selector: {matchLabels: {app: starts}}}
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      attackProtectionRules:
      - rules: [disable-access-shadow]
";

/// Longer than the agent may be silent (`AGENT_LAPSE` of the ABI).
const LAPSE: Duration = Duration::from_secs(15);
/// Time for a container to come to the gate.
const AT_THE_GATE: Duration = Duration::from_secs(4);

/// What a container got done that reads a denied file from its first instruction on.
#[derive(Debug)]
struct First {
    allowed: u64,
    denied: u64,
}

fn run(name: &str, app: &str) -> Result<First> {
    let label = format!("app={app}");
    let text = containers::ctr(&[
        "run",
        "--rm",
        "--net-host",
        "--label",
        &label,
        containers::IMAGE,
        name,
        "/usr/bin/varmor-guest",
        "battery",
        "--here",
        "first",
    ])?;
    let counts: Value = serde_json::from_str(text.trim()).with_context(|| format!("read `{text}`"))?;
    let number = |key: &str| counts[key].as_u64().context("no number");
    Ok(First {
        allowed: number("allowed")?,
        denied: number("denied")?,
    })
}

fn is_protected(first: &First) -> Result<()> {
    ensure!(first.allowed == 0 && first.denied > 0, "{first:?}");
    Ok(())
}

/// Many starts, and one that no policy is about.
pub(super) fn with_agent(starts: usize) -> Result<()> {
    for number in 0..starts {
        is_protected(&run(&format!("starts-{number}"), APP)?)?;
    }
    let free = run("starts-free", "other")?;
    ensure!(free.allowed > 0 && free.denied == 0, "without a policy: {free:?}");
    Ok(())
}

/// `back` starts the agent again.
pub(super) fn while_away<T>(back: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = thread::spawn(|| run("starts-away", APP));
    thread::sleep(AT_THE_GATE);
    ensure!(!start.is_finished(), "it ran without an agent");
    let agent = back()?;
    let first = start
        .join()
        .map_err(|_| anyhow::anyhow!("the start panicked"))??;
    is_protected(&first)?;
    Ok(agent)
}

/// There has been no agent for a while: whoever starts is refused, with a policy or without.
pub(super) fn without_agent() -> Result<()> {
    thread::sleep(LAPSE);
    for app in [APP, "other"] {
        let outcome = run("starts-refused", app);
        // What could not start left its container behind.
        let _ = containers::ctr(&["containers", "delete", "starts-refused"]);
        ensure!(outcome.is_err(), "app {app}: {outcome:?}");
    }
    Ok(())
}

/// There still is none, but a gatekeeper that is told to end: whoever starts runs.
pub(super) fn without_agent_and_gatekeeper(agent: &Path) -> Result<()> {
    let mut gatekeeper = Command::new(agent)
        .arg("--gatekeeper")
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {}", agent.display()))?;
    // Read to the end of this function: what it says at its end needs a reader.
    let said = gatekeeper.stderr.take().context("no output")?;
    let mut lines = BufReader::new(said).lines();
    let is_waiting = lines.any(|line| line.is_ok_and(|line| line.contains("gatekeeper waits")));
    ensure!(is_waiting, "the gatekeeper does not wait");
    let process = Pid::from_child(&gatekeeper);
    kill_process(process, Signal::TERM).context("end the gatekeeper")?;
    let status = gatekeeper.wait().context("wait for the gatekeeper")?;
    ensure!(status.success(), "the gatekeeper ended with {status}");
    let first = run("starts-let-run", "other")?;
    ensure!(first.allowed > 0, "{first:?}");
    Ok(())
}

/// What the refused starts have left in the log of violations.
pub(super) fn refusals(log: &str) -> Result<usize> {
    let text = fs::read_to_string(log).with_context(|| format!("read {log}"))?;
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| {
            line["fault"]
                .as_str()
                .is_some_and(|fault| fault.contains("no agent"))
        })
        .count())
}
