//! A server on the loopback, from its start until this value is dropped.

use std::{
    fs,
    net::{Ipv4Addr, TcpStream},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

const PATIENCE: Duration = Duration::from_mins(2);
const STEP: Duration = Duration::from_millis(50);

pub(super) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts it, and waits until it takes connections.
    pub(super) fn start(program: &str, arguments: &[String], port: u16, folder: &str) -> Result<Self> {
        let log = format!("{folder}/log");
        let file = fs::File::create(&log).with_context(|| format!("make {log}"))?;
        let child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {program}"))?;
        let mut server = Self { child, port };
        let start = Instant::now();
        while server.connect().is_err() {
            let said = || fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = server.child.try_wait()? {
                bail!("{program} ended at once: {status}: {}", said());
            }
            if start.elapsed() > PATIENCE {
                bail!("{program} takes no connections: {}", said());
            }
            sleep(STEP);
        }
        Ok(server)
    }

    pub(super) fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).context("connect to the server")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that ends by itself takes its children with it.
        let ended = i32::try_from(self.child.id())
            .map(nix::unistd::Pid::from_raw)
            .is_ok_and(|pid| nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).is_ok());
        if !ended {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
