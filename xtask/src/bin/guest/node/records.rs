//! What AppArmor and seccomp refuse is in the same log as what BPF refuses.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    Scale,
    lab::{self, Claims, GUEST, Node, SHADOW},
};
use crate::demo::containers;

const APP: &str = "node-records";
const PROFILE: &str = "varmor-cluster-varmor-node-records";
const LOADED: &str = "/sys/kernel/security/apparmor/profiles";
const LOG: &str = "/var/log/varmor/violations.log";

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    lab::write_for(APP, "AppArmor", "disable-access-shadow")?;
    lab::wait("AppArmor has the profile", || {
        let list = fs::read_to_string(LOADED).with_context(|| format!("read {LOADED}"))?;
        Ok(list.lines().any(|line| line.starts_with(PROFILE)))
    })?;
    let label = format!("app={APP}");
    containers::ctr(&[
        "run",
        "--detach",
        "--net-host",
        "--apparmor-profile",
        PROFILE,
        "--label",
        &label,
        containers::IMAGE,
        APP,
        GUEST,
        "wait",
    ])?;
    let counts = lab::inside(APP, &["attack", SHADOW, "0"]);
    claims.claim(
        "a denial of AppArmor is in the log, with its rule and its container",
        counts.and_then(|counts| {
            ensure!(
                lab::number(&counts, "/allowed")? == 0,
                "AppArmor let it: {counts}"
            );
            let mut found = None;
            lab::wait("the record is in the log", || {
                found = line()?;
                Ok(found.is_some())
            })?;
            ensure!(node.agent.is_alive(), "the agent is dead");
            judge(&found.unwrap_or_default())
        }),
    );
    lab::remove(APP);
    Ok(())
}

/// The line of this container.
fn line() -> Result<Option<Value>> {
    let text = fs::read_to_string(LOG).unwrap_or_default();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).with_context(|| format!("read `{line}`"))?;
        if value["enforcer"] == "AppArmor" && value["profileName"] == PROFILE {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn judge(line: &Value) -> Result<String> {
    for (field, expected) in [
        ("ruleID", "disable-access-shadow"),
        ("action", "DENIED"),
        ("policyName", APP),
        ("policyKind", "VarmorClusterPolicy"),
    ] {
        ensure!(line[field] == expected, "{field} is {}: {line}", line[field]);
    }
    // As vArmor writes it.
    ensure!(line["event"]["name"] == SHADOW, "the event is {}", line["event"]);
    Ok(format!(
        "container `{}`",
        line["containerName"].as_str().unwrap_or_default()
    ))
}
