//! The examples of the chart, as a case applies them: in a namespace of its own, with the lab's image.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{
    super::service::until,
    session::{IMAGE, Session},
};
use crate::workspace;

/// What the examples name, for users; no registry is reachable here.
const PUBLIC_IMAGE: &str = "busybox:1.36";

/// The first policy has the agents load their programs, which takes minutes on a busy emulated processor.
pub(super) const LOADED: Duration = Duration::from_mins(10);

pub(super) fn folder() -> PathBuf {
    workspace::root().join("charts/varmor/examples")
}

/// An example: its policy, and everything else.
pub(super) struct Example {
    pub(super) namespace: String,
    pub(super) policy: String,
    pub(super) others: String,
}

impl Example {
    /// Reads the example with this name for a namespace.
    pub(super) fn read(name: &str, namespace: &str) -> Result<Self> {
        let file = folder().join(format!("{name}.yaml"));
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let text = text
            .replace("namespace: demo", &format!("namespace: {namespace}"))
            .replace(
                PUBLIC_IMAGE,
                &format!("{IMAGE}\n          imagePullPolicy: Never"),
            )
            // A Pod's containers are less deep than those of a template.
            .replace(
                "\n          imagePullPolicy: Never\n      command",
                "\n      imagePullPolicy: Never\n      command",
            );
        let (policy, others) = text
            .split_once("\n---\n")
            .with_context(|| format!("{} has no workload behind its policy", file.display()))?;
        Ok(Self {
            namespace: namespace.to_owned(),
            policy: policy.to_owned(),
            others: others.to_owned(),
        })
    }

    /// `kind/name` of the policy.
    pub(super) fn policy_name(&self) -> Result<String> {
        let field = |name: &str| {
            let line = self
                .policy
                .lines()
                .find_map(|line| line.trim().strip_prefix(name));
            line.map(str::trim).map(str::to_owned)
        };
        let kind = field("kind:").context("the policy has no kind")?;
        let name = field("name:").context("the policy has no name")?;
        Ok(format!("{}/{name}", kind.to_lowercase()))
    }

    /// In a fresh namespace: the policy, and the workload once the policy is in force.
    pub(super) fn apply(&self, session: &Session) -> Result<()> {
        session.namespace(&self.namespace)?;
        session.kubectl.apply(&self.policy)?;
        self.in_force(session)?;
        session.kubectl.apply(&self.others)?;
        Ok(())
    }

    /// Waits until every node says that it enforces the policy as it is now.
    pub(super) fn in_force(&self, session: &Session) -> Result<()> {
        in_force(session, &self.policy_name()?, &self.namespace)
    }
}

/// Merges a change into a policy (`varmorpolicy/name`), and waits until it is in force so.
pub(super) fn changed(session: &Session, policy: &str, namespace: &str, change: &Value) -> Result<()> {
    session.kubectl.get(&[
        "patch",
        policy,
        "--namespace",
        namespace,
        "--type=merge",
        "--patch",
        &change.to_string(),
    ])?;
    in_force(session, policy, namespace)
}

/// Waits until every node says that it enforces a policy (`varmorpolicy/name`) as it is now.
pub(super) fn in_force(session: &Session, policy: &str, namespace: &str) -> Result<()> {
    until(&format!("{policy} of {namespace} is in force"), LOADED, || {
        let Some(object) = session.object(&[policy, "--namespace", namespace])? else {
            bail!("there is no {policy} in {namespace}");
        };
        let status = &object["status"];
        let current = status["observedGeneration"] == object["metadata"]["generation"];
        if current && status["ready"] == true {
            return Ok(Some(()));
        }
        bail!("its status is {}", short(status))
    })
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    text.chars().take(600).collect()
}
