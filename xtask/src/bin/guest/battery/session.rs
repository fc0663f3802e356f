//! A policy in force: `varmor run` with a child that waits, and steps that enter its cgroup.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use super::{
    case::Outcome,
    place::Launched,
    policies::{self, Policy},
};

const VARMOR: &str = "/varmor";
/// Loading every program takes seconds, and minutes on a machine that does something else as well.
const READY: Duration = Duration::from_mins(10);

pub(super) struct Session {
    child: Child,
    pub(super) cgroup: String,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Session {
    /// Starts the policy and waits until the waiting child carries the label.
    pub(super) fn start(policy: &Policy) -> Result<Self> {
        let file = format!("/tmp/{}.yaml", policy.name);
        fs::write(&file, policies::text(policy)).with_context(|| format!("write {file}"))?;
        let mut child = Command::new(VARMOR)
            .args(["run", "--policy", &file, "--", "/varmor-guest", "wait"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start varmor run")?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let errors = child.stderr.take().context("the errors are piped")?;
        let kept = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let cgroup = format!("/sys/fs/cgroup/varmor-run-{}", child.id());
        let start = Instant::now();
        loop {
            let inside = fs::read_to_string(format!("{cgroup}/cgroup.procs")).unwrap_or_default();
            let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            if inside.lines().any(|pid| program(pid).ends_with("varmor-guest")) {
                return Ok(Self { child, cgroup, lines });
            }
            if let Some(status) = child.try_wait().context("look at varmor run")? {
                // What it said is complete when its pipe is closed.
                let _ = reader.join();
                let said = lines.lock().unwrap_or_else(PoisonError::into_inner).join(" ");
                bail!("varmor run does not take the policy ({status}): {said}");
            }
            if start.elapsed() > READY {
                let _ = child.kill();
                let inside = inside.split_whitespace().collect::<Vec<&str>>().join(" ");
                let said = lines.lock().unwrap_or_else(PoisonError::into_inner).join(" ");
                bail!(
                    "the policy was not in force within {} s; in its cgroup: {inside}; {said}",
                    READY.as_secs()
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lines of violations so far.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a line that says so.
    pub(super) fn says(&self, wanted: impl Fn(&str) -> bool, limit: Duration) -> bool {
        let start = Instant::now();
        loop {
            if self.lines().iter().any(|line| wanted(line)) {
                return true;
            }
            if start.elapsed() > limit {
                return false;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Violations of this process, and of those that carry the name of its step.
    pub(super) fn events(&self, pid: i32, mark: &str) -> Vec<String> {
        let (pid, mark) = (format!("(pid {pid})"), format!(" by {mark} (pid "));
        let lines = self.lines();
        lines
            .into_iter()
            .filter(|line| line.contains(&pid) || line.contains(&mark))
            .collect()
    }

    /// What the kernel counted for this run.
    pub(super) fn status(&self) -> Result<Value> {
        let name = format!("varmor-run-{}", self.pid());
        let output = Command::new(VARMOR)
            .args(["status", "--output", "json"])
            .args(["--state-dir", &format!("/run/varmor/{name}")])
            .args(["--bpffs", &format!("/sys/fs/bpf/{name}")])
            .output()
            .context("run varmor status")?;
        serde_json::from_slice(&output.stdout).context("read varmor status")
    }

    /// Stops reading events, or goes on.
    pub(super) fn pause(&self, paused: bool) -> Result<()> {
        let signal = if paused { Signal::SIGSTOP } else { Signal::SIGCONT };
        let pid = Pid::from_raw(i32::try_from(self.pid()).context("a pid is small")?);
        kill(pid, signal).context("signal varmor run")
    }

    pub(super) fn end(mut self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid()).context("a pid is small")?);
        kill(pid, Signal::SIGTERM).context("end varmor run")?;
        self.child.wait().context("wait for varmor run")?;
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes one step in a fresh place, under the policy of a session or unconfined.
pub(super) fn launch(case: &str, step: usize, session: &Session, confined: bool) -> Launched {
    attempt(case, step, session, confined).unwrap_or_else(|error| Launched {
        pid: 0,
        outcome: Outcome::Broken(format!("{error:#}")),
    })
}

fn attempt(case: &str, step: usize, session: &Session, confined: bool) -> Result<Launched> {
    let name = format!("/tmp/launched-{case}-{step}-{confined}");
    let mut command = Command::new("/varmor-guest");
    command.args(["battery", "--launch", case, "--step", &step.to_string()]);
    command.args(["--agent", &session.pid().to_string()]);
    if confined {
        command.args(["--cgroup", &session.cgroup]);
    }
    // A file and no pipe: what a step leaves behind may hold it open.
    let status = command
        .stdin(Stdio::null())
        .stdout(File::create(&name).with_context(|| format!("create {name}"))?)
        .status()
        .context("start the launcher")?;
    let text = fs::read_to_string(&name).with_context(|| format!("read {name}"))?;
    serde_json::from_str(&text).with_context(|| format!("the launcher ended with {status}"))
}
