//! The demo's containers: real ones, made by containerd and runc.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount};

use crate::attack::Tried;

const NAMESPACE: &str = "k8s.io";
pub(crate) const IMAGE: &str = "docker.io/varmor/demo:1";
const CGROUP: &str = "/run/demo-cgroup";
/// What the kubelet would mount: containers have a fresh /run, so it cannot be part of the image.
const SECRETS: &str = "/run/demo-secrets";

pub(crate) fn import(archive: &Path) -> Result<()> {
    // `--net-host` gives containers these files of the machine.
    for file in ["/etc/hosts", "/etc/resolv.conf"] {
        if !Path::new(file).exists() {
            fs::write(file, "").with_context(|| format!("create {file}"))?;
        }
    }
    if !Path::new(CGROUP).exists() {
        fs::create_dir_all(CGROUP).with_context(|| format!("create {CGROUP}"))?;
        // Only cgroup v1 has the release_agent that a container can have run on the machine.
        mount(
            Some("cgroup"),
            CGROUP,
            Some("cgroup"),
            MsFlags::empty(),
            Some("none,name=demo"),
        )
        .context("mount a cgroup v1 hierarchy")?;
    }
    fs::create_dir_all(SECRETS).with_context(|| format!("create {SECRETS}"))?;
    fs::write(format!("{SECRETS}/token"), "demo-token\n").context("write the service account's token")?;
    ctr(&["images", "import", &archive.to_string_lossy()]).map(drop)
}

/// Starts a container that a careless administrator would start.
pub(crate) fn start(name: &str) -> Result<()> {
    let label = format!("app={name}");
    let cgroup = format!("type=bind,src={CGROUP},dst=/host-cgroup,options=rbind:rw");
    let secrets =
        format!("type=bind,src={SECRETS},dst=/run/secrets/kubernetes.io/serviceaccount,options=rbind:ro");
    let scratch = "type=tmpfs,src=tmpfs,dst=/scratch,options=rw";
    ctr(&[
        "run",
        "--detach",
        "--privileged",
        "--net-host",
        "--with-ns",
        "pid:/proc/1/ns/pid",
        "--label",
        &label,
        "--mount",
        &cgroup,
        "--mount",
        &secrets,
        "--mount",
        scratch,
        IMAGE,
        name,
    ])
    .map(drop)
}

/// Tries every operation inside a container.
pub(crate) fn try_all(name: &str, pause: Duration) -> Result<Vec<Tried>> {
    let pause = pause.as_millis().to_string();
    let program = ["/usr/bin/varmor-guest", "attack", "--all", "--pause-ms", &pause];
    let text = ctr(&[&["task", "exec", "--exec-id", "attacks", name], &program[..]].concat())?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("read the outcome `{line}`")))
        .collect()
}

/// How often a repeated operation had which outcome.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Counts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) broken: u64,
}

/// Repeats one operation inside a container.
pub(crate) fn counts(name: &str, operation: &str, seconds: u64) -> Result<Counts> {
    let id = format!("{operation}-{seconds}");
    let time = seconds.to_string();
    let program = ["/usr/bin/varmor-guest", "attack", operation, "--seconds", &time];
    let text = ctr(&[&["task", "exec", "--exec-id", &id, name], &program[..]].concat())?;
    serde_json::from_str(&text).with_context(|| format!("read the counts `{text}`"))
}

pub(crate) fn ctr(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("ctr");
    let output = command
        .args(["--namespace", NAMESPACE])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("run ctr")?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!(
            "ctr {} failed ({}): {}",
            arguments.join(" "),
            output.status,
            errors.trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
