//! The chart itself: what helm, the API server and its rules about rights say.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use super::{
    super::service::until,
    example,
    session::{PATIENCE, Session},
};
use crate::{images, workspace};

pub(super) const NAMESPACE: &str = "varmor";
pub(super) const RELEASE: &str = "varmor";

/// How helm is told where the images are: on the node already.
pub(super) fn settings() -> Result<Vec<String>> {
    let name = images::name("varmor-agent");
    let (registry, rest) = name
        .rsplit_once('/')
        .context("the name of an image has a folder")?;
    let (_, tag) = rest.split_once(':').context("the name of an image has a tag")?;
    Ok([
        format!("--set=image.registry={registry}"),
        format!("--set=image.tag={tag}"),
        "--set=image.pullPolicy=Never".to_owned(),
        // The node's processor is emulated and starts pods while the webhook is asked.
        "--set=manager.webhookTimeoutSeconds=30".to_owned(),
        // What the agent knows of each start is what a case that fails asks for first.
        r"--set=logLevel=info\,varmor_agent::daemon::worker=debug\,varmor_agent::containers=debug".to_owned(),
    ]
    .into())
}

fn folder() -> String {
    workspace::root().join("charts/varmor").display().to_string()
}

/// Runs helm with the chart and the lab's settings.
pub(super) fn helm(session: &Session, action: &[&str], more: &[&str]) -> Result<String> {
    let settings = settings()?;
    let folder = folder();
    let mut words: Vec<&str> = action.to_vec();
    words.extend([RELEASE, folder.as_str(), "--namespace", NAMESPACE]);
    words.extend(settings.iter().map(String::as_str));
    words.extend(more);
    session.kubectl.helm(&words)
}

pub(super) fn is_clean(session: &Session) -> Result<()> {
    let said = session.kubectl.helm(&["lint", "--strict", &folder()])?;
    ensure!(said.contains("0 chart(s) failed"), "{said}");
    let version = super::super::binaries::KUBERNETES;
    for values in [
        &[][..],
        &[
            "--set=metrics.enabled=true",
            "--api-versions=monitoring.coreos.com/v1/ServiceMonitor",
        ],
        &[
            "--set=manager.replicaCount=1",
            "--set=agent.network.hostNetwork=true",
            "--set=priorityClass.create=false",
        ],
    ] {
        let more = [&["--kube-version", version], values].concat();
        let text = helm(session, &["template"], &more)?;
        ensure!(
            text.contains("kind: DaemonSet"),
            "the chart has no DaemonSet with {values:?}"
        );
    }
    for (value, reason) in [
        (
            "bpfExclusiveMode=true",
            "REMOVE THIS VALUE: both enforcers may hold",
        ),
        ("agent.replicaCount=3", "replicaCount"),
        ("manager.replicaCount=0", "minimum"),
    ] {
        match helm(session, &["template"], &["--set", value]) {
            Ok(_) => bail!("the value {value} is accepted"),
            Err(error) => ensure!(format!("{error:#}").contains(reason), "{value}: {error:#}"),
        }
    }
    Ok(())
}

pub(super) fn installs(session: &Session) -> Result<()> {
    session.remember(NAMESPACE);
    let place = ["--namespace", NAMESPACE];
    if session
        .kubectl
        .helm(&[&["status", RELEASE][..], &place].concat())
        .is_ok()
    {
        session
            .kubectl
            .helm(&[&["uninstall", RELEASE, "--wait"][..], &place].concat())?;
    }
    session.kubectl.define()?;
    // Before there is a controller: the schemas alone accept them.
    examples_are_accepted(session)?;
    helm(session, &["install"], &["--create-namespace", "--dry-run=server"])?;
    helm(session, &["install"], &["--create-namespace"])?;
    Ok(())
}

/// The schemas of the definitions hold for the examples; nothing is stored.
fn examples_are_accepted(session: &Session) -> Result<()> {
    let namespace = "lab-examples";
    session.namespace(namespace)?;
    session.remember(NAMESPACE);
    let mut files: Vec<_> = fs::read_dir(example::folder())
        .context("read the examples")?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    ensure!(!files.is_empty(), "the chart has no examples");
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let text = text.replace("namespace: demo", &format!("namespace: {namespace}"));
        let said = session
            .kubectl
            .give(&["create", "--dry-run=server", "--filename", "-"], &text)?;
        ensure!(said.success, "{}: {}", file.display(), said.all());
    }
    session.leave(namespace)
}

pub(super) fn has_few_rights(session: &Session) -> Result<()> {
    for (account, verb, what, scope, expected) in [
        (
            "varmor-agent",
            "list",
            "armorprofiles.crd.varmor.org",
            "--all-namespaces",
            "yes",
        ),
        (
            "varmor-agent",
            "patch",
            "armorprofiles.crd.varmor.org",
            "--all-namespaces",
            "no",
        ),
        ("varmor-agent", "list", "pods", "--all-namespaces", "no"),
        ("varmor-agent", "get", "secrets", "--namespace=varmor", "no"),
        ("varmor-manager", "get", "secrets", "--namespace=varmor", "yes"),
        ("varmor-manager", "get", "secrets", "--namespace=default", "no"),
        ("varmor-manager", "list", "secrets", "--all-namespaces", "no"),
        ("varmor-manager", "create", "pods", "--namespace=varmor", "no"),
        ("varmor-manager", "patch", "pods", "--namespace=default", "no"),
        (
            "varmor-manager",
            "patch",
            "deployments.apps",
            "--all-namespaces",
            "yes",
        ),
        (
            "varmor-manager",
            "delete",
            "varmorpolicies.crd.varmor.org",
            "--all-namespaces",
            "no",
        ),
        (
            "varmor-manager",
            "escalate",
            "clusterroles",
            "--all-namespaces",
            "no",
        ),
    ] {
        let user = format!("--as=system:serviceaccount:{NAMESPACE}:{account}");
        let said = session
            .kubectl
            .run(&["auth", "can-i", verb, what, scope, &user])?;
        ensure!(
            said.output.trim() == expected,
            "may {account} {verb} {what} ({scope})? {} instead of {expected}",
            said.all()
        );
    }
    Ok(())
}

pub(super) fn is_ready(session: &Session) -> Result<()> {
    session.remember(NAMESPACE);
    session.rolled_out(NAMESPACE, "deployment/varmor-manager")?;
    session.rolled_out(NAMESPACE, "daemonset/varmor-agent")?;
    leader(session, None).map(drop)
}

/// The name of the pod that leads, once there is exactly one and it is not the one that led before.
pub(super) fn leader(session: &Session, before: Option<&str>) -> Result<String> {
    until("one replica of the controller leads", PATIENCE, || {
        let names = session.kubectl.get(&[
            "get",
            "pods",
            "--namespace",
            NAMESPACE,
            "--selector",
            "app=varmor-manager,identity=leader",
            "--field-selector",
            "status.phase=Running",
            "--output",
            "jsonpath={.items[*].metadata.name}",
        ])?;
        let names: Vec<&str> = names.split_whitespace().collect();
        match names.as_slice() {
            [one] if Some(*one) != before => Ok(Some((*one).to_owned())),
            other => bail!("the pods that say that they lead are {other:?}"),
        }
    })
}
