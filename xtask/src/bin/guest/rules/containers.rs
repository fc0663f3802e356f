//! The containers: privileged ones with the processes and the network of the machine, as a careless administrator starts
//! them.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use super::{READY, stage};
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

/// What becomes of both operations of a rule in a container of its own. `ready` is asked again and again, and is good
/// when they may be done.
pub(super) fn attempt(
    name: &str,
    rules: &str,
    confined: &Confined<'_>,
    mut ready: impl FnMut() -> Result<()>,
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
    let mut running = Command::new("ctr")
        .args(&words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start ctr")?;
    let begin = Instant::now();
    let is_ready = loop {
        let said = ready();
        let has_ended = running.try_wait().context("look at ctr")?.is_some();
        if said.is_ok() || has_ended || begin.elapsed() > READY {
            break said;
        }
    };
    // Also if it never is: the container must end.
    fs::write(format!("{}{go}", stage::FOLDER), "").context("let the container go on")?;
    let output = running.wait_with_output().context("wait for ctr")?;
    ensure!(
        output.status.success(),
        "ctr run: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    is_ready?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<(String, Outcome)>(line).with_context(|| format!("read `{line}`")))
        .collect()
}
