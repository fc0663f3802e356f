//! What happens to controller, agents and nodes while workloads are protected.

use std::{fs, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{
    super::{lab::node_is_ready, place, service::until},
    chart::{self, leader},
    example::{Example, in_force},
    session::{PATIENCE, Session},
    workloads::{is_free, is_protected},
};

const NAME: &str = "deployment-bpf";
const WHAT: &str = "deployment/deployment-bpf";
const POLICY: &str = "varmorpolicy/deployment-bpf";
/// A boot, and the import of all images.
const BOOT: Duration = Duration::from_mins(8);

/// A protected Deployment in a namespace of its own.
fn protected(session: &Session, namespace: &str) -> Result<()> {
    Example::read(NAME, namespace)?.apply(session)?;
    session.ready(namespace, "app=deployment-bpf")?;
    is_protected(session, namespace, WHAT)
}

pub(super) fn agent_killed(session: &Session) -> Result<()> {
    let namespace = "lab-agent-killed";
    protected(session, namespace)?;
    session.kubectl.get(&[
        "delete",
        "pods",
        "--namespace",
        chart::NAMESPACE,
        "--selector",
        "app=varmor-agent",
        "--force",
        "--grace-period=0",
    ])?;
    is_protected(session, namespace, WHAT)?;
    session.rolled_out(chart::NAMESPACE, "daemonset/varmor-agent")?;
    is_protected(session, namespace, WHAT)?;
    session.leave(namespace)
}

pub(super) fn controller_killed(session: &Session) -> Result<()> {
    let namespace = "lab-controller-killed";
    protected(session, namespace)?;
    let first = leader(session, None)?;
    session.kubectl.get(&[
        "delete",
        "pod",
        &first,
        "--namespace",
        chart::NAMESPACE,
        "--force",
        "--grace-period=0",
    ])?;
    leader(session, Some(&first))?;
    let change = r#"{"spec":{"policy":{"enhanceProtect":{"attackProtectionRules":[{"rules":["mitigate-sa-leak"]}]}}}}"#;
    // Until the Service has lost the killed replica, the API server may still ask it, and refuses the change then.
    let patch = [
        "patch",
        POLICY,
        "--namespace",
        namespace,
        "--type=merge",
        "--patch",
        change,
    ];
    until("the policy can be changed", Duration::from_mins(1), || {
        session.kubectl.get(&patch).map(Some)
    })?;
    in_force(session, POLICY, namespace)?;
    session.works(namespace, WHAT, &["cp", "/etc/group", "/etc/planted"])?;
    session.rolled_out(chart::NAMESPACE, "deployment/varmor-manager")?;
    session.leave(namespace)
}

pub(super) fn node_rebooted(session: &Session) -> Result<()> {
    let namespace = "lab-node-rebooted";
    protected(session, namespace)?;
    let node = session.nodes.last().context("there is a node")?;
    let boot = boot_of(session, node)?;
    let request = place::reboot_request(node);
    fs::write(&request, "").with_context(|| format!("write {}", request.display()))?;
    until(&format!("{node} was turned off and on"), BOOT, || {
        let is_new = boot_of(session, node)? != boot;
        Ok((is_new && node_is_ready(&session.kubectl, node)?).then_some(()))
    })?;
    // The pod of the look at the node died with it.
    until("the pods of varmor run again", BOOT, || {
        session.rolled_out(chart::NAMESPACE, "daemonset/varmor-agent")?;
        session
            .rolled_out(chart::NAMESPACE, "deployment/varmor-manager")
            .map(Some)
    })?;
    until("the workload is protected", BOOT, || {
        is_protected(session, namespace, WHAT).map(Some)
    })?;
    in_force(session, POLICY, namespace)?;
    session.leave(namespace)
}

/// What differs from one boot of a node to the next.
fn boot_of(session: &Session, node: &str) -> Result<String> {
    session.kubectl.get(&[
        "get",
        "node",
        node,
        "--output",
        "jsonpath={.status.nodeInfo.bootID}",
    ])
}

pub(super) fn upgraded(session: &Session) -> Result<()> {
    let namespace = "lab-upgraded";
    protected(session, namespace)?;
    chart::helm(session, &["upgrade"], &["--set=logLevel=debug"])?;
    // While the agents are replaced.
    is_protected(session, namespace, WHAT)?;
    chart::is_ready(session)?;
    is_protected(session, namespace, WHAT)?;
    in_force(session, POLICY, namespace)?;
    session.leave(namespace)
}

pub(super) fn uninstalled(session: &Session) -> Result<()> {
    let namespace = "lab-uninstalled";
    protected(session, namespace)?;
    session.kubectl.helm(&[
        "uninstall",
        chart::RELEASE,
        "--namespace",
        chart::NAMESPACE,
        "--wait",
        "--timeout",
        "5m",
    ])?;
    is_free(session, namespace, WHAT)?;
    for (kind, scope) in [
        (
            "deployments,daemonsets,services,leases,roles,rolebindings,networkpolicies,jobs",
            "--namespace=varmor",
        ),
        (
            "clusterroles,clusterrolebindings,priorityclasses",
            "--all-namespaces",
        ),
        (
            "mutatingwebhookconfigurations,validatingwebhookconfigurations",
            "--all-namespaces",
        ),
        ("secrets,serviceaccounts", "--namespace=varmor"),
        (
            "varmorpolicies,varmorclusterpolicies,armorprofiles",
            "--all-namespaces",
        ),
    ] {
        until(&format!("no {kind} of varmor are left"), PATIENCE, || {
            let found = session.object(&[kind, scope])?.unwrap_or_default();
            let left = names_of_ours(&found);
            if !left.is_empty() {
                bail!("{left:?}");
            }
            Ok(Some(()))
        })?;
    }
    for node in &session.nodes {
        let look = "ls /host/sys/fs/bpf/varmor 2>/dev/null; ls /host/var/lib/kubelet/seccomp | busybox grep ^varmor-; \
                    busybox grep ^varmor- /host/sys/kernel/security/apparmor/profiles; true";
        let said = session.on_node(node, &["sh", "-c", look])?;
        ensure!(
            said.success && said.output.trim().is_empty(),
            "{node} still has: {}",
            said.all()
        );
    }
    session.leave("lab-node")?;
    session.leave(namespace)
}

fn names_of_ours(list: &Value) -> Vec<String> {
    let names = list["items"].as_array().into_iter().flatten().filter_map(|item| {
        let kind = item["kind"].as_str().unwrap_or_default();
        item["metadata"]["name"]
            .as_str()
            .map(|name| format!("{kind}/{name}"))
    });
    let mut ours: Vec<String> = names.filter(|name| name.contains("varmor")).collect();
    ours.sort();
    ours
}
