//! Every kind of workload under BPF.

use anyhow::{Result, bail};

use super::{
    super::service::until,
    example::Example,
    session::{PATIENCE, Session},
};

/// Where the token of a pod's service account is.
pub(super) const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

pub(super) fn deployment(session: &Session) -> Result<()> {
    protects(session, "deployment-bpf", "deployment")
}

pub(super) fn stateful_set(session: &Session) -> Result<()> {
    protects(session, "statefulset-bpf", "statefulset")
}

pub(super) fn daemon_set(session: &Session) -> Result<()> {
    protects(session, "daemonset-bpf", "daemonset")
}

pub(super) fn pod(session: &Session) -> Result<()> {
    protects(session, "pod-bpf", "pod")
}

fn protects(session: &Session, name: &str, kind: &str) -> Result<()> {
    let namespace = format!("lab-{kind}");
    Example::read(name, &namespace)?.apply(session)?;
    session.ready(&namespace, &format!("app={name}"))?;
    is_protected(session, &namespace, &format!("{kind}/{name}"))?;
    session.leave(&namespace)
}

/// The two rules that most examples have hold, and what they do not mean works.
pub(super) fn is_protected(session: &Session, namespace: &str, what: &str) -> Result<()> {
    session.is_denied(namespace, what, &["cat", TOKEN])?;
    session.is_denied(namespace, what, &["cp", "/etc/group", "/etc/planted"])?;
    session.works(namespace, what, &["cat", "/etc/group"])?;
    session.works(namespace, what, &["cp", "/etc/group", "/tmp/copy"])?;
    Ok(())
}

/// The same operations work: a denial above was the policy's, not the pod's.
pub(super) fn is_free(session: &Session, namespace: &str, what: &str) -> Result<()> {
    session.works(namespace, what, &["cat", TOKEN])?;
    session.works(namespace, what, &["cp", "/etc/group", "/etc/planted"])?;
    Ok(())
}

pub(super) fn cluster_policy(session: &Session) -> Result<()> {
    let spaces = ["lab-cluster-a", "lab-cluster-b"];
    let example = Example::read("cluster-policy", spaces[0])?;
    session.namespace(spaces[1])?;
    example.apply(session)?;
    session
        .kubectl
        .apply(&Example::read("cluster-policy", spaces[1])?.others)?;
    for namespace in spaces {
        session.ready(namespace, "app=cluster-policy")?;
        is_protected(session, namespace, "pod/cluster-policy")?;
    }
    session
        .kubectl
        .get(&["delete", &example.policy_name()?, "--timeout=120s"])?;
    spaces.iter().try_for_each(|namespace| session.leave(namespace))
}

pub(super) fn own_rules(session: &Session) -> Result<()> {
    let namespace = "lab-own-rules";
    Example::read("own-rules", namespace)?.apply(session)?;
    session.ready(namespace, "app=own-rules")?;
    let what = "deployment/own-rules";
    session.is_denied(namespace, what, &["cat", "/etc/hostname"])?;
    session.is_denied(namespace, what, &["wget", "-q", "-O", "-", "http://127.0.0.1/"])?;
    session.is_denied(namespace, what, &["bash", "-c", "exec 3<>/dev/tcp/10.96.0.1/443"])?;
    session.works(namespace, what, &["cat", "/etc/group"])?;
    session.leave(namespace)
}

pub(super) fn audit_only(session: &Session) -> Result<()> {
    let namespace = "lab-audit-only";
    Example::read("audit-only", namespace)?.apply(session)?;
    session.ready(namespace, "app=audit-only")?;
    is_free(session, namespace, "deployment/audit-only")?;
    until("the violation is in the log of a node", PATIENCE, || {
        for node in &session.nodes {
            let text = session
                .on_node(node, &["cat", "/host/var/log/varmor/violations.log"])?
                .output;
            if text
                .lines()
                .any(|line| line.contains(namespace) && line.contains("serviceaccount"))
            {
                return Ok(Some(()));
            }
        }
        bail!("no line names the namespace {namespace}")
    })?;
    session.leave(namespace)
}
