//! kubectl and helm as a user runs them.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{binaries::Binaries, place, service::until};
use crate::workspace;

/// The commands with the rights of one user.
#[derive(Clone)]
pub(super) struct Kubectl {
    folder: PathBuf,
    kubeconfig: PathBuf,
}

/// What a command said.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) success: bool,
    pub(super) output: String,
    pub(super) error: String,
}

impl Said {
    /// Both streams, as a person sees them.
    pub(super) fn all(&self) -> String {
        format!("{}{}", self.output, self.error).trim().to_owned()
    }
}

impl Kubectl {
    pub(super) fn admin(binaries: &Binaries) -> Self {
        Self {
            folder: binaries.folder().to_path_buf(),
            kubeconfig: place::kubeconfig("admin"),
        }
    }

    /// Runs kubectl; a failure is an answer.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Said> {
        self.command("kubectl", arguments, "")
    }

    /// Runs kubectl; a failure is an error with what it said.
    pub(super) fn get(&self, arguments: &[&str]) -> Result<String> {
        good("kubectl", arguments, self.run(arguments)?)
    }

    /// Runs kubectl with this text on its standard input.
    pub(super) fn give(&self, arguments: &[&str], text: &str) -> Result<Said> {
        self.command("kubectl", arguments, text)
    }

    /// Applies objects.
    pub(super) fn apply(&self, yaml: &str) -> Result<String> {
        let arguments = ["apply", "--filename", "-"];
        good("kubectl", &arguments, self.give(&arguments, yaml)?)
    }

    /// Applies the chart's custom resource definitions, as its notes say, and waits until they are served.
    pub(super) fn define(&self) -> Result<()> {
        let folder = workspace::root().join("charts/varmor/crds").display().to_string();
        self.get(&[
            "apply",
            "--server-side",
            "--force-conflicts",
            "--filename",
            &folder,
        ])?;
        // One `kubectl wait` is not enough: it fails at once on a definition that has no conditions yet.
        until("the definitions are established", Duration::from_mins(2), || {
            let wait = [
                "wait",
                "--for=condition=Established",
                "--timeout=60s",
                "--filename",
                &folder,
            ];
            self.get(&wait).map(Some)
        })?;
        Ok(())
    }

    /// Runs helm; a failure is an error with what it said.
    pub(super) fn helm(&self, arguments: &[&str]) -> Result<String> {
        good("helm", arguments, self.command("helm", arguments, "")?)
    }

    fn command(&self, program: &str, arguments: &[&str], input: &str) -> Result<Said> {
        let mut child = Command::new(self.folder.join(program))
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            // What a user's helm and kubectl keep is theirs.
            .env("HELM_CACHE_HOME", place::data("helm"))
            .env("HELM_CONFIG_HOME", place::data("helm"))
            .env("HELM_DATA_HOME", place::data("helm"))
            .env("KUBECACHEDIR", place::data("kubectl"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("run {program}"))?;
        let mut pipe = child.stdin.take().expect("stdin is piped");
        let input = input.to_owned();
        // In a thread, because a program may talk before it has read everything. One that does not read is no failure.
        let writer = thread::spawn(move || {
            let _ = pipe.write_all(input.as_bytes());
        });
        let output = child
            .wait_with_output()
            .with_context(|| format!("run {program}"))?;
        let _ = writer.join();
        Ok(Said {
            success: output.status.success(),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            error: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

fn good(program: &str, arguments: &[&str], said: Said) -> Result<String> {
    if said.success {
        return Ok(said.output);
    }
    bail!("{program} {}: {}", arguments.join(" "), said.all())
}
