//! A process of the cluster: it writes a log and ends with the lab.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{process, workspace};

/// How long a process may take to end on request before it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Everything that the cluster talks to is on this machine: the way out that the user has is not for it. The API server would ask it for
/// webhooks.
const PROXIES: [&str; 6] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
];

/// A process that is ended when the value is dropped, or when the lab dies.
pub(super) struct Service {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Service {
    pub(super) fn start(name: &'static str, program: &Path, arguments: &[String]) -> Result<Self> {
        Self::start_with(name, program, arguments, &[])
    }

    /// With these variables in its environment, beside those of this process.
    pub(super) fn start_with(
        name: &'static str,
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let log = workspace::log_file(&format!("cluster-{name}"));
        workspace::make_dir(log.parent().expect("log files are in a folder"))?;
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        // The kernel ends it when the thread dies that starts it, which is the one that holds the cluster.
        let mut command = Command::new("setpriv");
        for variable in PROXIES {
            command.env_remove(variable);
        }
        let child = command
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stderr(file.try_clone().context("share the log file")?)
            .stdout(file)
            .spawn()
            .with_context(|| format!("start {name}"))?;
        Ok(Self { name, child, log })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error with the end of its log if it is not there any more.
    pub(super) fn check(&mut self) -> Result<()> {
        if let Some(status) = self
            .child
            .try_wait()
            .with_context(|| format!("look at {}", self.name))?
        {
            bail!(
                "{} ended ({status}); the end of {}:\n{}",
                self.name,
                self.log.display(),
                process::tail(&self.log, 15)
            );
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).map(nix::unistd::Pid::from_raw);
        if let Ok(pid) = pid {
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks again and again until it is so; the last answer is in the error when the time is over.
pub(super) fn until<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    let mut last = None;
    loop {
        match ask() {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => {}
            Err(error) => last = Some(error),
        }
        if start.elapsed() > limit {
            let seconds = limit.as_secs();
            return match last {
                Some(error) => Err(error).with_context(|| format!("{what}: not within {seconds} s")),
                None => bail!("{what}: not within {seconds} s"),
            };
        }
        thread::sleep(Duration::from_millis(250));
    }
}
