//! What AppArmor refuses and what a filter of seccomp logs is in the same log as what BPF refuses.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    Scale,
    lab::{self, Claims, Node, POLICIES, SHADOW},
};
use crate::demo::survive::replace;

const APP: &str = "node-records";
const PROFILE: &str = "varmor-cluster-varmor-node-records";
const LOADED: &str = "/sys/kernel/security/apparmor/profiles";
const LOG: &str = "/var/log/varmor/violations.log";
const FILTERED: &str = "node-records-filtered";
const PLAIN: &str = "node-records-plain";
const FILTER: &str = "/var/lib/kubelet/seccomp/varmor-cluster-varmor-node-records-filtered";
/// In the container.
const FOLDER: &str = "/tmp/made";
/// How many seconds a process lives on whose record is read: it names no container, so that is asked of the process.
const LIVES: &str = "5";

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    apparmor(&node, claims)?;
    drop(node);
    let node = Node::start(scale)?;
    seccomp(&node, claims)
}

fn apparmor(node: &Node, claims: &mut Claims) -> Result<()> {
    lab::write_for(APP, "AppArmor", "disable-access-shadow")?;
    lab::wait("AppArmor has the profile", || {
        let list = fs::read_to_string(LOADED).with_context(|| format!("read {LOADED}"))?;
        Ok(list.lines().any(|line| line.starts_with(PROFILE)))
    })?;
    lab::sleeper_with(APP, APP, &["--apparmor-profile", PROFILE])?;
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
                found = line(|value| value["enforcer"] == "AppArmor" && value["profileName"] == PROFILE)?;
                Ok(found.is_some())
            })?;
            ensure!(node.agent.is_alive(), "the agent is dead");
            judge(&found.unwrap_or_default())
        }),
    );
    lab::remove(APP);
    Ok(())
}

fn seccomp(node: &Node, claims: &mut Claims) -> Result<()> {
    let policy = format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: {FILTERED}}}\nspec:\n  target: \
         {{kind: Pod, selector: {{matchLabels: {{app: {FILTERED}}}}}}}\n  policy:\n    enforcer: Seccomp\n    mode: \
         EnhanceProtect\n    enhanceProtect:\n      privileged: true\n      auditViolations: true\n      syscallRawRules:\n      \
         - {{names: [mkdir, mkdirat], action: SCMP_ACT_LOG}}\n      - {{names: [rmdir], action: SCMP_ACT_ERRNO}}\n"
    );
    replace(&PathBuf::from(POLICIES).join(format!("{FILTERED}.yaml")), &policy)?;
    lab::wait("the filter is where runtimes look", || {
        Ok(fs::metadata(FILTER).is_ok())
    })?;
    lab::sleeper_with(FILTERED, FILTERED, &["--seccomp", "--seccomp-profile", FILTER])?;
    lab::sleeper_with(PLAIN, PLAIN, &[])?;
    let counts = lab::inside(FILTERED, &["make", FOLDER, LIVES]);
    let control = lab::inside(PLAIN, &["make", FOLDER, "0"]);
    claims.claim(
        "what a filter logs is in the log, with its system call and its container, and runc takes an audited policy",
        counts.and_then(|counts| {
            let control = control?;
            for (counts, removed) in [(&control, 1), (&counts, 0)] {
                ensure!(lab::number(counts, "/made")? == 1, "nothing was made: {counts}");
                ensure!(
                    lab::number(counts, "/removed")? == removed,
                    "{removed} were to be removed: {counts}"
                );
            }
            let mut found = None;
            lab::wait("the record is in the log", || {
                found = line(|value| value["enforcer"] == "Seccomp")?;
                Ok(found.is_some())
            })?;
            ensure!(node.agent.is_alive(), "the agent is dead");
            let line = found.unwrap_or_default();
            for (field, expected) in [
                ("action", "AUDIT|ALLOWED"),
                ("policyName", FILTERED),
                ("policyKind", "VarmorClusterPolicy"),
                ("containerName", FILTERED),
            ] {
                ensure!(line[field] == expected, "{field} is {}: {line}", line[field]);
            }
            let call = line["event"]["syscall"].as_str().unwrap_or_default().to_owned();
            ensure!(call.starts_with("mkdir"), "the event is {}", line["event"]);
            Ok(call)
        }),
    );
    lab::remove(FILTERED);
    lab::remove(PLAIN);
    Ok(())
}

/// The first line that is meant.
fn line(is_meant: impl Fn(&Value) -> bool) -> Result<Option<Value>> {
    let text = fs::read_to_string(LOG).unwrap_or_default();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).with_context(|| format!("read `{line}`"))?;
        if is_meant(&value) {
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
