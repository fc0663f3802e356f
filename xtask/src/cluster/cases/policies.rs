//! The life of a policy, and who comes to a pod later.

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::{
    super::service::until,
    example::{Example, changed},
    session::{IMAGE, PATIENCE, Session},
    workloads::{TOKEN, is_free, is_protected},
};

/// Three cases share the pod that ran before its policy.
const NAMESPACE: &str = "lab-ran-before";
const WORKLOAD: &str = "deployment/deployment-bpf";
const POLICY: &str = "varmorpolicy/deployment-bpf";
const SELECTOR: &str = "app=deployment-bpf";

pub(super) fn ran_before(session: &Session) -> Result<()> {
    let example = Example::read("deployment-bpf", NAMESPACE)?;
    session.namespace(NAMESPACE)?;
    session.kubectl.apply(&example.others)?;
    session.ready(NAMESPACE, SELECTOR)?;
    is_free(session, NAMESPACE, WORKLOAD)?;
    let before = running(session)?;
    session.kubectl.apply(&example.policy)?;
    example.in_force(session)?;
    is_protected(session, NAMESPACE, WORKLOAD)?;
    is_same(session, &before)
}

pub(super) fn edited(session: &Session) -> Result<()> {
    session.remember(NAMESPACE);
    let before = running(session)?;
    let rules = |names: &[&str]| {
        json!({"spec": {"policy": {"mode": "EnhanceProtect",
            "enhanceProtect": {"attackProtectionRules": [{"rules": names}]}}}})
    };
    patch(session, &rules(&["mitigate-sa-leak"]))?;
    session.works(NAMESPACE, WORKLOAD, &["cp", "/etc/group", "/etc/planted"])?;
    session.is_denied(NAMESPACE, WORKLOAD, &["cat", TOKEN])?;
    patch(
        session,
        &json!({"spec": {"policy": {"mode": "AlwaysAllow", "enhanceProtect": null}}}),
    )?;
    is_free(session, NAMESPACE, WORKLOAD)?;
    patch(session, &rules(&["mitigate-sa-leak", "disable-write-etc"]))?;
    is_protected(session, NAMESPACE, WORKLOAD)?;
    is_same(session, &before)
}

fn patch(session: &Session, change: &Value) -> Result<()> {
    changed(session, POLICY, NAMESPACE, change)
}

pub(super) fn deleted(session: &Session) -> Result<()> {
    session.remember(NAMESPACE);
    let before = running(session)?;
    session
        .kubectl
        .get(&["delete", POLICY, "--namespace", NAMESPACE, "--timeout=120s"])?;
    until("the profile is gone", PATIENCE, || {
        let left = session.kubectl.get(&[
            "get",
            "armorprofiles",
            "--namespace",
            NAMESPACE,
            "--output",
            "name",
        ])?;
        ensure!(left.trim().is_empty(), "there is still {left}");
        Ok(Some(()))
    })?;
    until("nothing is refused", PATIENCE, || {
        is_free(session, NAMESPACE, WORKLOAD).map(Some)
    })?;
    is_same(session, &before)?;
    session.leave(NAMESPACE)
}

/// The pod and how often its container has started.
fn running(session: &Session) -> Result<String> {
    let path = "jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{end}";
    session.kubectl.get(&[
        "get",
        "pods",
        "--namespace",
        NAMESPACE,
        "--selector",
        SELECTOR,
        "--output",
        path,
    ])
}

fn is_same(session: &Session, before: &str) -> Result<()> {
    let now = running(session)?;
    ensure!(
        now == before,
        "the pod was {before} and is {now}: it was restarted or replaced"
    );
    Ok(())
}

pub(super) fn strictest(session: &Session) -> Result<()> {
    let (namespace, what) = ("lab-strictest", "deployment/only-sleep");
    Example::read("only-sleep", namespace)?.apply(session)?;
    session.ready(namespace, "app=only-sleep")?;
    session.works(namespace, what, &["cat", "/etc/hostname"])?;
    session.is_denied(namespace, what, &["cat", "/etc/passwd"])?;
    session.is_denied(namespace, what, &["cat", TOKEN])?;
    session.is_denied(namespace, what, &["dash", "-c", "true"])?;
    session.leave(namespace)
}

pub(super) fn debug_container(session: &Session) -> Result<()> {
    let namespace = "lab-debug";
    Example::read("pod-bpf", namespace)?.apply(session)?;
    session.ready(namespace, "app=pod-bpf")?;
    session.kubectl.get(&[
        "debug",
        "pod/pod-bpf",
        "--namespace",
        namespace,
        "--image",
        IMAGE,
        "--image-pull-policy=Never",
        "--container=debugger",
        "--profile=general",
        "--",
        "sleep",
        "1000000",
    ])?;
    until("the added container runs", PATIENCE, || {
        let path = "jsonpath={.status.ephemeralContainerStatuses[0].state.running.startedAt}";
        let said = session.kubectl.get(&[
            "get",
            "pod",
            "pod-bpf",
            "--namespace",
            namespace,
            "--output",
            path,
        ])?;
        Ok((!said.is_empty()).then_some(()))
    })?;
    let inside = |command: &[&str]| {
        let words = [
            "exec",
            "--namespace",
            namespace,
            "pod-bpf",
            "--container=debugger",
            "--",
        ];
        session.kubectl.run(&[&words, command].concat())
    };
    let said = inside(&["cp", "/etc/group", "/etc/planted"])?;
    if said.success {
        bail!("the added container writes below /etc");
    }
    let said = inside(&["cat", "/etc/group"])?;
    ensure!(said.success, "the added container cannot read: {}", said.all());
    session.leave(namespace)
}

pub(super) fn with_a_mistake(session: &Session) -> Result<()> {
    let namespace = "lab-mistake";
    session.namespace(namespace)?;
    let good = Example::read("deployment-bpf", namespace)?.policy;
    for (wrong, word) in [
        (
            good.replace("mitigate-sa-leak", "mitigate-sa-leek"),
            "mitigate-sa-leak",
        ),
        (good.replace("enforcer: BPF", "enforcer: BFP"), "enforcer"),
        (good.replace("kind: Deployment", "kind: Job"), "kind"),
    ] {
        let said = session.kubectl.give(&["create", "--filename", "-"], &wrong)?;
        ensure!(!said.success, "it is accepted:\n{wrong}");
        ensure!(
            said.error.contains(word),
            "the refusal does not say {word}: {}",
            said.all()
        );
    }
    session.leave(namespace)
}
