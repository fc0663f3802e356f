//! An enforcer in a process of its own: `varmor exercise`, one JSON line per step and answer.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::number;

pub(crate) const BPFFS: &str = "/sys/fs/bpf/varmor-exercise";

pub(crate) struct Enforcer {
    child: Child,
    steps: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// `loaded` or `adopted`.
    pub(crate) start: String,
}

impl Enforcer {
    pub(crate) fn start() -> Result<Self> {
        let mut child = Command::new("/varmor")
            .arg("exercise")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start varmor exercise")?;
        let steps = child.stdin.take().context("take its input")?;
        let answers = BufReader::new(child.stdout.take().context("take its output")?);
        let mut enforcer = Self {
            child,
            steps,
            answers,
            start: String::new(),
        };
        let first = enforcer.answer()?;
        first["start"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut enforcer.start);
        Ok(enforcer)
    }

    /// Hands a step over and does not wait for its end.
    pub(crate) fn begin(&mut self, step: &Value) -> Result<()> {
        writeln!(self.steps, "{step}").context("hand a step over")
    }

    pub(crate) fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("read an answer")?;
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("read the answer `{line}`"))?;
        match answer["error"].as_str() {
            Some(error) => bail!("the enforcer says: {error}"),
            None => Ok(answer),
        }
    }

    pub(crate) fn step(&mut self, step: &Value) -> Result<Value> {
        self.begin(step)?;
        self.answer().with_context(|| format!("step {step}"))
    }

    pub(crate) fn apply(&mut self, file: &str, name: &str) -> Result<Value> {
        self.step(&json!({ "do": "apply", "file": file, "name": name }))
    }

    pub(crate) fn protect(&mut self, cgroups: &[PathBuf], profiles: &[String]) -> Result<Value> {
        self.step(&json!({ "do": "protect", "cgroups": cgroups, "profiles": profiles }))
    }

    pub(crate) fn release(&mut self, cgroup: &Path) -> Result<Value> {
        self.step(&json!({ "do": "release", "cgroups": [cgroup] }))
    }

    pub(crate) fn remove(&mut self, profile: &str) -> Result<Value> {
        self.step(&json!({ "do": "remove", "profile": profile }))
    }

    pub(crate) fn state(&mut self) -> Result<Value> {
        self.step(&json!({ "do": "state" }))
    }

    /// The state in which the kernel has so many `maps` or `links`: it frees them a little later than they are dropped.
    pub(crate) fn state_with(&mut self, what: &str, number_of: u64) -> Result<Value> {
        const PATIENCE: Duration = Duration::from_mins(2);
        let start = Instant::now();
        loop {
            let state = self.state()?;
            let now = number(&state, &format!("/usage/{what}"))?;
            if now == number_of {
                return Ok(state);
            }
            ensure!(start.elapsed() < PATIENCE, "{now} {what}, {number_of} expected");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The state after the kernel has freed what was dropped: the number of maps is the same for a second.
    pub(crate) fn settled(&mut self) -> Result<Value> {
        let mut state = self.state()?;
        for _ in 0..20 {
            thread::sleep(Duration::from_secs(1));
            let next = self.state()?;
            if next["usage"]["maps"] == state["usage"]["maps"] {
                return Ok(next);
            }
            state = next;
        }
        bail!("the number of maps never settles: {state}")
    }

    /// Takes everything down.
    pub(crate) fn uninstall(mut self) -> Result<()> {
        self.step(&json!({ "do": "uninstall" }))?;
        self.child.wait().context("wait for its end")?;
        Ok(())
    }

    /// SIGKILL, at whatever it is doing.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill().context("kill it")?;
        self.child.wait().context("wait for its end")?;
        Ok(())
    }
}

/// Names of the attached hooks, as a state says.
pub(crate) fn attached(state: &Value) -> Vec<String> {
    state["hooks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|hook| hook["attached"] == true)
        .filter_map(|hook| hook["hook"].as_str())
        .map(str::to_owned)
        .collect()
}
