//! The containers: privileged ones with the processes and the network of the machine, as a careless administrator starts
//! them.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::stage;
use crate::{
    attack::{Outcome, Outcomes},
    demo::containers::{IMAGE, ctr},
};

/// By what a container is confined.
pub(super) enum Confined<'c> {
    Nothing,
    /// By the profile of this name.
    AppArmor(&'c str),
    /// By the filter in this file.
    Seccomp(&'c str),
    /// By its labels: the agent does the rest.
    Bpf,
}

pub(super) fn import(archive: &Path) -> Result<()> {
    // `--net-host` gives containers these files of the machine.
    for file in ["/etc/hosts", "/etc/resolv.conf"] {
        if !Path::new(file).exists() {
            File::create(file).with_context(|| format!("create {file}"))?;
        }
    }
    ctr(&["images", "import", &archive.to_string_lossy()]).map(drop)
}

/// What becomes of the operations of all these rules in one container without a policy.
pub(super) fn free(rules: &[&str]) -> Result<Outcomes> {
    attempt("rules-free", &rules.join(","), &Confined::Nothing, || Ok(()))
}

/// What becomes of both operations of a rule in a container of its own; `ready` returns when they may be done.
pub(super) fn attempt(
    name: &str,
    rules: &str,
    confined: &Confined<'_>,
    ready: impl FnOnce() -> Result<()>,
) -> Result<Outcomes> {
    let go = format!("/go/{name}");
    let mut words = vec![
        "--namespace".to_owned(),
        "k8s.io".to_owned(),
        "run".to_owned(),
        "--rm".to_owned(),
        "--privileged".to_owned(),
        "--net-host".to_owned(),
    ];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("--with-ns", "pid:/proc/1/ns/pid".to_owned());
    option("--label", format!("app={name}"));
    for (source, target) in stage::MOUNTS {
        option(
            "--mount",
            format!("type=bind,src={source},dst={target},options=rbind:rw"),
        );
    }
    match confined {
        Confined::Nothing | Confined::Bpf => {}
        Confined::AppArmor(profile) => option("--apparmor-profile", (*profile).to_owned()),
        Confined::Seccomp(file) => {
            option("--seccomp-profile", (*file).to_owned());
            words.push("--seccomp".to_owned());
        }
    }
    let command = [
        IMAGE,
        name,
        "/varmor-guest",
        "rules",
        "--attempt",
        rules,
        "--after",
        &go,
    ];
    words.extend(command.map(str::to_owned));
    let running = Command::new("ctr")
        .args(&words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start ctr")?;
    let is_ready = ready();
    // Also if it never is: the container must end.
    fs::write(format!("{}{go}", stage::FOLDER), "").context("let the container go on")?;
    let output = running.wait_with_output().context("wait for ctr")?;
    is_ready?;
    ensure!(
        output.status.success(),
        "ctr run: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<(String, Outcome)>(line).with_context(|| format!("read `{line}`")))
        .collect()
}
