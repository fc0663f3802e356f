//! What a case uses: kubectl, namespaces of its own, pods of the lab's image, waiting.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::{
    kubectl::{Kubectl, Said},
    place,
    service::until,
};
use crate::workspace;

/// The lab's image, as nodes know it.
pub(super) const IMAGE: &str = "varmor/demo:1";
/// For everything that a node does: its processor is emulated, and others use this machine too.
pub(super) const PATIENCE: Duration = Duration::from_mins(3);
/// For kubectl: what the pods of varmor log.
const LOGS: [&str; 6] = [
    "logs",
    "--namespace",
    "varmor",
    "--selector",
    "app.kubernetes.io/name=varmor",
    "--prefix",
];
/// Of a command whose answer got lost.
const ATTEMPTS: usize = 5;
/// What `kubectl exec` says when the stream to a busy node broke: whether the command ran is not known.
const BROKEN: [&str; 2] = ["Internal error occurred: Internal error", "error dialing backend"];

/// The cluster, as a case sees it.
pub(crate) struct Session {
    pub(super) kubectl: Kubectl,
    pub(super) nodes: Vec<String>,
    /// Where the present case works, for what is shown when it fails.
    namespace: std::sync::Mutex<String>,
}

impl Session {
    pub(in crate::cluster) fn new(kubectl: Kubectl, nodes: Vec<String>) -> Self {
        Self {
            kubectl,
            nodes,
            namespace: std::sync::Mutex::new("default".to_owned()),
        }
    }

    /// An empty namespace with this name; what an earlier run left in it goes first.
    pub(super) fn namespace(&self, name: &str) -> Result<()> {
        self.remember(name);
        self.kubectl.get(&[
            "delete",
            "namespace",
            name,
            "--ignore-not-found",
            "--timeout=180s",
        ])?;
        self.kubectl.get(&["create", "namespace", name])?;
        until("the account that pods run as", PATIENCE, || {
            let said = self
                .kubectl
                .run(&["get", "serviceaccount", "default", "--namespace", name])?;
            Ok(said.success.then_some(()))
        })
    }

    /// Removes a namespace without waiting for it.
    pub(super) fn leave(&self, namespace: &str) -> Result<()> {
        self.kubectl.get(&[
            "delete",
            "namespace",
            namespace,
            "--ignore-not-found",
            "--wait=false",
        ])?;
        Ok(())
    }

    pub(super) fn remember(&self, namespace: &str) {
        namespace.clone_into(
            &mut self
                .namespace
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
    }

    /// Waits until a workload (`deployment/web`) has all its pods.
    pub(super) fn rolled_out(&self, namespace: &str, workload: &str) -> Result<()> {
        self.kubectl.get(&[
            "rollout",
            "status",
            workload,
            "--namespace",
            namespace,
            "--timeout=240s",
        ])?;
        Ok(())
    }

    /// Waits until the pods with this label are Ready.
    pub(super) fn ready(&self, namespace: &str, selector: &str) -> Result<()> {
        until(
            &format!("pods with {selector} in {namespace} are Ready"),
            PATIENCE,
            || {
                let arguments = [
                    "wait",
                    "--for=condition=Ready",
                    "pod",
                    "--selector",
                    selector,
                    "--namespace",
                    namespace,
                    "--timeout=30s",
                ];
                let said = self.kubectl.run(&arguments)?;
                if said.success {
                    return Ok(Some(()));
                }
                bail!("{}", said.all())
            },
        )
    }

    /// Runs a command in a pod or workload (`deployment/web`); its failure is an answer.
    pub(super) fn exec(&self, namespace: &str, what: &str, command: &[&str]) -> Result<Said> {
        let arguments = [&["exec", "--namespace", namespace, what, "--"], command].concat();
        for _ in 1..ATTEMPTS {
            let said = self.kubectl.run(&arguments)?;
            if said.success || !BROKEN.iter().any(|words| said.all().contains(words)) {
                return Ok(said);
            }
        }
        self.kubectl.run(&arguments)
    }

    /// A command that must work.
    pub(super) fn works(&self, namespace: &str, what: &str, command: &[&str]) -> Result<String> {
        let said = self.exec(namespace, what, command)?;
        if !said.success {
            bail!(
                "`{}` in {namespace}/{what} should work: {}",
                command.join(" "),
                said.all()
            );
        }
        Ok(said.output)
    }

    /// A command that must be refused by the kernel: that it merely fails is not enough.
    pub(super) fn is_denied(&self, namespace: &str, what: &str, command: &[&str]) -> Result<()> {
        let mut said = self.exec(namespace, what, command)?;
        // kubectl tells 0 where a busy node closes the stream before its exit code was read; what the command wrote tells that it
        // failed. So it is asked again until it has an exit code: a denial is both.
        for _ in 1..ATTEMPTS {
            if !(said.success && is_refusal(&said)) {
                break;
            }
            said = self.exec(namespace, what, command)?;
        }
        let all = said.all();
        if said.success {
            bail!(
                "`{}` in {namespace}/{what} should be denied, but it worked: {all}",
                command.join(" ")
            );
        }
        if !is_refusal(&said) {
            bail!(
                "`{}` in {namespace}/{what} failed, but was not refused: {all}",
                command.join(" ")
            );
        }
        Ok(())
    }

    /// Runs a command beside a node's own processes, with its files at `/host`; its failure is an answer.
    pub(super) fn on_node(&self, node: &str, command: &[&str]) -> Result<Said> {
        let namespace = "lab-node";
        let name = format!("look-at-{node}");
        if self.object(&["pod", &name, "--namespace", namespace])?.is_none() {
            let namespaces =
                format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n---\n");
            self.kubectl
                .apply(&(namespaces + &node_pod(&name, namespace, node)))?;
        }
        self.ready(namespace, &format!("app={name}"))?;
        self.exec(namespace, &name, command)
    }

    /// An object as JSON; none if there is none.
    pub(super) fn object(&self, arguments: &[&str]) -> Result<Option<Value>> {
        let said = self
            .kubectl
            .run(&[&["get", "--output", "json"], arguments].concat())?;
        if !said.success {
            if said.error.contains("NotFound") {
                return Ok(None);
            }
            bail!("kubectl get {}: {}", arguments.join(" "), said.all());
        }
        serde_json::from_str(&said.output)
            .map(Some)
            .context("read what kubectl printed")
    }

    /// Prints what a person would look at first.
    pub(crate) fn show_what_is_there(&self) {
        let namespace = self
            .namespace
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        let looks: [&[&str]; 4] = [
            &["get", "pods", "--all-namespaces", "--output", "wide"],
            &[
                "get",
                "varmorpolicies,varmorclusterpolicies,armorprofiles",
                "--all-namespaces",
            ],
            &[
                "get",
                "events",
                "--namespace",
                &namespace,
                "--sort-by=.lastTimestamp",
            ],
            &[&LOGS[..], &["--tail=15"]].concat(),
        ];
        for look in looks {
            println!("--- kubectl {}", look.join(" "));
            if let Ok(said) = self.kubectl.run(look) {
                let all = said.all();
                let lines: Vec<&str> = all.lines().collect();
                println!("{}", lines[lines.len().saturating_sub(30)..].join("\n"));
            }
        }
        match self.keep_logs(&namespace) {
            Ok(file) => println!("--- all logs: {}", file.display()),
            Err(error) => println!("--- the logs cannot be kept: {error:#}"),
        }
    }

    /// Writes down what varmor has logged until now: pods that are replaced take their logs with them.
    fn keep_logs(&self, name: &str) -> Result<PathBuf> {
        let words = [&LOGS[..], &["--all-containers", "--tail=-1"]].concat();
        let said = self.kubectl.run(&words)?;
        let file = place::data(&format!("logs/{name}.log"));
        workspace::write_file(&file, said.all())?;
        Ok(file)
    }
}

/// Whether a command wrote that the kernel refused what it wanted.
fn is_refusal(said: &Said) -> bool {
    let all = said.all().to_lowercase();
    ["operation not permitted", "permission denied"]
        .iter()
        .any(|words| all.contains(words))
}

/// A pod that sees what a node sees.
fn node_pod(name: &str, namespace: &str, node: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}\n\
         spec:\n  nodeName: {node}\n  hostPID: true\n  terminationGracePeriodSeconds: 0\n  tolerations: [{{operator: Exists}}]\n\
         \x20 automountServiceAccountToken: false\n  containers:\n  - name: main\n    image: {IMAGE}\n    imagePullPolicy: Never\n\
         \x20   command: [sleep, '1000000']\n    securityContext: {{privileged: true}}\n\
         \x20   volumeMounts: [{{name: host, mountPath: /host, mountPropagation: HostToContainer}}]\n\
         \x20 volumes: [{{name: host, hostPath: {{path: /}}}}]\n"
    )
}
