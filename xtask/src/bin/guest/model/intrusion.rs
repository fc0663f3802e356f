//! An attacker in the service's place: another program under its name, so that every rule about the service is about it.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{VARMOR, service::NGINX};

const INTRUDER: &str = "/varmor-intruder";
const ASIDE: &str = "/usr/sbin/nginx.aside";

/// Attacks and what came of them: `works`, `denied`, or why it says nothing.
pub(super) type Outcomes = Vec<(String, String)>;

/// What the attacks reach for: a listening port, a process; and the program in the service's place.
struct Scene {
    victim: Child,
    _listener: TcpListener,
}

impl Scene {
    fn new() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 4444)).context("listen")?;
        let victim = Command::new("/bin/sleep")
            .arg("1000")
            .spawn()
            .context("start the victim")?;
        let scene = Self {
            victim,
            _listener: listener,
        };
        fs::rename(NGINX, ASIDE).context("put the service aside")?;
        fs::copy(INTRUDER, NGINX).context("put the intruder into the service's place")?;
        Ok(scene)
    }

    fn attempt(&self, command: &mut Command) -> Result<Outcomes> {
        let output = command
            .env("VICTIM", self.victim.id().to_string())
            .stdin(Stdio::null())
            .output()
            .context("start the intruder")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let outcomes = said.lines().filter_map(|line| line.split_once(' '));
        let outcomes: Outcomes = outcomes
            .map(|(name, outcome)| (name.to_owned(), outcome.to_owned()))
            .collect();
        ensure!(
            !outcomes.is_empty(),
            "the intruder said nothing: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(outcomes)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Without the service the next case fails by itself.
        let _ = fs::rename(ASIDE, NGINX);
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

fn names() -> Result<Vec<String>> {
    let text = super::service::output(INTRUDER, &["list"])?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Each attack in a process of its own, without a policy.
pub(super) fn free() -> Result<Outcomes> {
    let scene = Scene::new()?;
    let mut outcomes = Outcomes::new();
    for name in names()? {
        outcomes.extend(scene.attempt(Command::new(NGINX).arg(&name))?);
    }
    Ok(outcomes)
}

/// All attacks one after the other, under the policies of the file.
pub(super) fn under(policy: &str) -> Result<Outcomes> {
    let names = names()?;
    let scene = Scene::new()?;
    let mut command = Command::new(VARMOR);
    command
        .args(["run", "--quiet", "--policy", policy, "--", NGINX])
        .args(&names);
    let outcomes = scene.attempt(&mut command)?;
    ensure!(
        outcomes.len() == names.len(),
        "the intruder ended early: {outcomes:?}"
    );
    Ok(outcomes)
}
