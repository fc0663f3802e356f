//! The agent under demonstration: started like a service, watched by its log.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

const LOG: &str = "/var/log/varmor-agent.log";

pub(crate) struct Agent {
    child: std::cell::RefCell<Child>,
}

impl Agent {
    pub(crate) fn start(program: &Path, policies: &Path) -> Result<Self> {
        let log = File::create(LOG).with_context(|| format!("create {LOG}"))?;
        let child = Command::new(program)
            .arg("--policy-dir")
            .arg(policies)
            .args(["--log-format", "json"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share the agent's log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Self {
            child: std::cell::RefCell::new(child),
        })
    }

    pub(crate) fn log(&self) -> PathBuf {
        PathBuf::from(LOG)
    }

    /// Waits for the log line that says so.
    pub(crate) fn wait_until_protected(&self, container: &str, limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let log = fs::read_to_string(LOG).unwrap_or_default();
            if log.lines().any(|line| says_protected(line, container)) {
                return Ok(());
            }
            let ended = self.child.borrow_mut().try_wait().context("look at the agent")?;
            if let Some(status) = ended {
                bail!("the agent ended ({status}); its log:\n{log}");
            }
            if start.elapsed() > limit {
                bail!(
                    "{container} was not protected within {} s; the agent's log:\n{log}",
                    limit.as_secs()
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let mut child = self.child.borrow_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn says_protected(line: &str, container: &str) -> bool {
    serde_json::from_str::<Value>(line)
        .is_ok_and(|line| line["message"] == "protected" && line["container"] == container)
}

#[cfg(test)]
mod tests {
    use super::says_protected;

    #[test]
    fn only_the_line_of_this_container_counts() {
        let line = r#"{"level":"INFO","message":"protected","container":"demo-protected","cgroup":5}"#;
        assert!(says_protected(line, "demo-protected"));
        assert!(!says_protected(line, "demo-plain"));
        assert!(!says_protected(
            &line.replace("\"protected\"", "\"released\""),
            "demo-protected"
        ));
        assert!(!says_protected("thread 'main' panicked", "demo-protected"));
    }
}
