//! The agent of a part, its policies and what it says of itself.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::Scale;
use crate::{
    demo::{agent::Agent, containers, survive::replace},
    life,
};

pub(super) use life::{Claims, number};

pub(super) const GUEST: &str = "/usr/bin/varmor-guest";
pub(super) const SHADOW: &str = "/etc/shadow";
pub(super) const POLICIES: &str = "/run/node-policies";
pub(super) const LOG: &str = "/run/node-agent.log";
const STATE: &str = "/run/varmor";
/// The first policy loads its programs, which takes minutes on a busy emulated processor.
const SOON: Duration = Duration::from_mins(10);

/// An agent at work on a folder of policies of its own.
pub(super) struct Node {
    pub(super) agent: Agent,
}

impl Node {
    /// A new one on an empty folder.
    pub(super) fn start(scale: &Scale) -> Result<Self> {
        let _ = fs::remove_dir_all(POLICIES);
        fs::create_dir_all(POLICIES).with_context(|| format!("create {POLICIES}"))?;
        Self::again(scale)
    }

    /// Another agent on the same folder, when the last one is gone.
    pub(super) fn again(scale: &Scale) -> Result<Self> {
        let agent = Agent::start(&scale.agent, Path::new(POLICIES), PathBuf::from(LOG))?;
        Ok(Self { agent })
    }

    pub(super) fn log() -> Result<String> {
        fs::read_to_string(LOG).with_context(|| format!("read {LOG}"))
    }
}

/// A policy for containers with the label `app=NAME`, in force when this returns.
pub(super) fn enforce(name: &str, rule: &str) -> Result<()> {
    write(name, rule)?;
    wait("the policy is enforced", || {
        Ok(profiles()?.iter().any(|profile| profile.ends_with(name)))
    })
}

/// Replaces the policy's file as an editor does.
pub(super) fn write(name: &str, rule: &str) -> Result<()> {
    write_for(name, "BPF", rule)
}

/// The same for another enforcer.
pub(super) fn write_for(name: &str, enforcer: &str, rule: &str) -> Result<()> {
    let path = PathBuf::from(POLICIES).join(format!("{name}.yaml"));
    let text = format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: {name}}}\nspec:\n  target: \
         {{kind: Pod, selector: {{matchLabels: {{app: {name}}}}}}}\n  policy:\n    enforcer: {enforcer}\n    mode: \
         EnhanceProtect\n    enhanceProtect:\n      privileged: true\n      attackProtectionRules:\n      - rules: [{rule}]\n"
    );
    replace(&path, &text)
}

/// Names of what is loaded.
pub(super) fn profiles() -> Result<Vec<String>> {
    let status = status()?;
    let list = status["profiles"].as_array().cloned().unwrap_or_default();
    Ok(list
        .iter()
        .filter_map(|profile| profile["name"].as_str().map(str::to_owned))
        .collect())
}

/// The agent's report; empty while there is none.
pub(super) fn status() -> Result<Value> {
    match fs::read(format!("{STATE}/status.json")) {
        Ok(bytes) => serde_json::from_slice(&bytes).context("read the agent's report"),
        Err(_) => Ok(Value::Null),
    }
}

/// What the agent's report says of the only policy in the folder; empty while there is none.
pub(super) fn only_policy() -> Result<Value> {
    let Ok(bytes) = fs::read(format!("{STATE}/policies.json")) else {
        return Ok(Value::Null);
    };
    let state: Value = serde_json::from_slice(&bytes).context("read the agent's report")?;
    Ok(state["files"][0]["objects"][0].clone())
}

/// What the kernel's tables say.
pub(super) fn kernel_status() -> Result<Value> {
    let output = Command::new("varmor")
        .args(["status", "--output", "json"])
        .output()
        .context("run varmor status")?;
    ensure!(
        output.status.success(),
        "varmor status: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("read varmor status")
}

/// A container that sleeps, protected by the policy of its label.
pub(super) fn sleeper(name: &str, app: &str) -> Result<()> {
    sleeper_with(name, app, &["--runc-binary", "crun"])
}

/// The same with other options of `ctr run`; without any, runc starts it.
pub(super) fn sleeper_with(name: &str, app: &str, options: &[&str]) -> Result<()> {
    let label = format!("app={app}");
    let head = ["run", "--detach", "--net-host", "--label", &label];
    let tail = [containers::IMAGE, name, GUEST, "wait"];
    containers::ctr(&[&head, options, &tail].concat()).map(drop)
}

pub(super) fn remove(name: &str) {
    let _ = containers::ctr(&["task", "kill", "--signal", "SIGKILL", name]);
    let _ = containers::ctr(&["task", "delete", "--force", name]);
    let _ = containers::ctr(&["containers", "delete", name]);
}

/// Runs this program in a container and reads the JSON that it prints.
pub(super) fn inside(container: &str, words: &[&str]) -> Result<Value> {
    let id = format!("x{}", super::inside::monotonic());
    let head = ["task", "exec", "--exec-id", &id, container, GUEST, "node"];
    let text = containers::ctr(&[&head[..], words].concat())?;
    serde_json::from_str(text.trim()).with_context(|| format!("read `{text}`"))
}

pub(super) fn wait(what: &str, mut happened: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !happened()? {
        if start.elapsed() > SOON {
            bail!("not within {} s: {what}", SOON.as_secs());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Threads that keep every processor busy.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(super) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = (0..count)
            .map(|_| {
                let stop = Arc::clone(&stop);
                thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        Self { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
