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

pub(crate) struct Agent {
    log: PathBuf,
    child: std::cell::RefCell<Child>,
}

impl Agent {
    pub(crate) fn start(program: &Path, policies: &Path, log: PathBuf) -> Result<Self> {
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let child = Command::new(program)
            .arg("--policy-dir")
            .arg(policies)
            .args(["--log-format", "json"])
            .stdin(Stdio::null())
            .stdout(file.try_clone().context("share the agent's log")?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Self {
            log,
            child: std::cell::RefCell::new(child),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.borrow().id()
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.child
            .borrow_mut()
            .try_wait()
            .is_ok_and(|status| status.is_none())
    }

    /// Waits for the log line that says so.
    pub(crate) fn wait_until_protected(&self, container: &str, limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
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
