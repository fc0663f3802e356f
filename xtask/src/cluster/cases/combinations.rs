//! Every combination of enforcers on every kind of workload: each enforcer has a rule that no other has, and holds it.

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::{
    example,
    session::{IMAGE, Session},
};

const KINDS: [&str; 4] = ["Deployment", "StatefulSet", "DaemonSet", "Pod"];
/// Each enforcer, what its own rule refuses, and `nobody` for what is allowed everywhere.
const OPERATIONS: [(&str, &str); 4] = [
    ("AppArmor", "cat /etc/hostname"),
    ("BPF", "cat /etc/passwd"),
    ("Seccomp", "busybox mkdir /tmp/made"),
    ("nobody", "cat /etc/group"),
];
const LABEL: &str = "lab=combinations";

/// Every kind of workload under a policy for these enforcers, in the words of `spec.policy.enforcer`.
pub(super) fn hold(session: &Session, enforcers: &str) -> Result<()> {
    let namespace = format!("lab-kinds-{}", enforcers.to_lowercase());
    session.namespace(&namespace)?;
    let list = |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let policies = KINDS.map(|kind| policy(kind, enforcers, &namespace));
    session.kubectl.apply(&list(policies.into()))?;
    for kind in KINDS {
        let policy = format!("varmorpolicy/{}", kind.to_lowercase());
        example::in_force(session, &policy, &namespace)?;
    }
    let workloads = KINDS.map(|kind| workload(kind, &namespace));
    session.kubectl.apply(&list(workloads.into()))?;
    for kind in KINDS {
        let name = kind.to_lowercase();
        session.ready(&namespace, &format!("{LABEL},app={name}"))?;
        let script = script();
        let said = session.works(&namespace, &format!("{name}/{name}"), &["bash", "-c", &script])?;
        judge(&said, enforcers).map_err(|error| error.context(format!("{enforcers} on a {kind}")))?;
    }
    session.leave(&namespace)
}

/// Tries each operation and says how it went.
fn script() -> String {
    let tries = OPERATIONS.map(|(who, operation)| {
        format!(
            "if said=$({operation} 2>&1 >/dev/null); then echo {who}: works; else echo \"{who}: $said\"; fi\n"
        )
    });
    tries.concat()
}

fn judge(said: &str, enforcers: &str) -> Result<()> {
    for (who, operation) in OPERATIONS {
        let answer = said
            .lines()
            .find_map(|line| line.strip_prefix(who)?.strip_prefix(": "));
        let Some(answer) = answer else {
            bail!("`{operation}` said nothing: {said}");
        };
        if !enforcers.contains(who) {
            ensure!(answer == "works", "`{operation}` should work: {answer}");
            continue;
        }
        let is_refused = ["Operation not permitted", "Permission denied"]
            .iter()
            .any(|words| answer.contains(words));
        ensure!(is_refused, "`{operation}` should be refused by {who}: {answer}");
    }
    Ok(())
}

fn policy(kind: &str, enforcers: &str, namespace: &str) -> Value {
    let name = kind.to_lowercase();
    let mut rules = json!({});
    if enforcers.contains("AppArmor") {
        rules["appArmorRawRules"] = json!([{"rules": "deny /etc/hostname r,"}]);
    }
    if enforcers.contains("BPF") {
        let file = json!({"qualifiers": ["deny"], "pattern": "/etc/passwd", "permissions": ["read"]});
        rules["bpfRawRules"] = json!({"files": [file]});
    }
    if enforcers.contains("Seccomp") {
        rules["syscallRawRules"] = json!([{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]);
    }
    json!({
        "apiVersion": "crd.varmor.org/v1beta1",
        "kind": "VarmorPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "target": {"kind": kind, "name": name},
            "policy": {"enforcer": enforcers, "mode": "EnhanceProtect", "enhanceProtect": rules},
        },
    })
}

fn workload(kind: &str, namespace: &str) -> Value {
    let name = kind.to_lowercase();
    let (lab, value) = LABEL.split_once('=').unwrap_or_default();
    let labels = json!({"app": name, lab: value, "sandbox.varmor.org/enable": "true"});
    let about = json!({"name": name, "namespace": namespace, "labels": labels});
    let containers = json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{
            "name": "main",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": ["sleep", "1000000"],
        }],
    });
    if kind == "Pod" {
        return json!({"apiVersion": "v1", "kind": kind, "metadata": about, "spec": containers});
    }
    let mut spec = json!({
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name, lab: value}}, "spec": containers},
    });
    if kind == "StatefulSet" {
        spec["serviceName"] = json!(name);
    }
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": about, "spec": spec})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_enforcer_must_refuse_its_own_and_nothing_else() {
        let said = "AppArmor: works\nBPF: cat: can't open '/etc/passwd': Operation not permitted\nSeccomp: works\nnobody: works\n";
        judge(said, "BPF").unwrap();
        for other in ["AppArmor", "AppArmorBPF", "BPFSeccomp", "Seccomp"] {
            assert!(judge(said, other).is_err(), "{other}");
        }
        let missing = "BPF: cat: can't open '/etc/passwd': No such file or directory\n";
        assert!(judge(missing, "BPF").is_err());
        assert!(judge(&said.replace("nobody: works", "nobody: Permission denied"), "BPF").is_err());
    }

    #[test]
    fn a_policy_has_rules_of_its_enforcers_alone() {
        let rules = |enforcers| {
            let policy = policy("Pod", enforcers, "demo");
            let rules = policy["spec"]["policy"]["enhanceProtect"]
                .as_object()
                .unwrap()
                .clone();
            rules.keys().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(rules("BPFSeccomp"), "bpfRawRules syscallRawRules");
        assert_eq!(rules("AppArmor"), "appArmorRawRules");
    }
}
