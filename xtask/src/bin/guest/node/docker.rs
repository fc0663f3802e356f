//! Containers of Docker, which names and labels them without telling containerd.

use std::{
    fs::File,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    Scale,
    lab::{self, Claims, GUEST, Node, SHADOW},
};
use crate::demo::containers;

const APP: &str = "node-docker";
const SLEEPER: &str = "node-docker-sleeper";
const LOG: &str = "/run/node-dockerd.log";
const STARTS: usize = 3;

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    lab::enforce(APP, "disable-access-shadow")?;
    let daemon = Docker::start(scale)?;
    claims.claim("a policy finds a container of Docker by its label", found(&node));
    claims.claim(
        "no start of Docker gets its first instruction done",
        (|| {
            // The cgroup in which Docker makes its containers is known from the sleeper on.
            let denied = (0..STARTS).map(|_| attack(APP)).collect::<Result<Vec<bool>>>()?;
            ensure!(denied.iter().all(|allowed| !allowed), "{denied:?}");
            ensure!(attack("node-other")?, "a container without a policy was denied");
            Ok(format!("{STARTS} starts, each denied"))
        })(),
    );
    let _ = docker(&["rm", "--force", SLEEPER]);
    drop(daemon);
    Ok(())
}

struct Docker {
    child: Child,
}

impl Docker {
    fn start(scale: &Scale) -> Result<Self> {
        let log = File::create(LOG).with_context(|| format!("create {LOG}"))?;
        let child = Command::new("dockerd")
            .args(["--containerd", "/run/containerd/containerd.sock"])
            .args(["--bridge", "none", "--iptables=false", "--storage-driver", "vfs"])
            .args(["--exec-opt", "native.cgroupdriver=cgroupfs"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share the log")?)
            .stderr(log)
            .spawn()
            .context("start dockerd")?;
        let daemon = Self { child };
        lab::wait("dockerd answers", || Ok(docker(&["info"]).is_ok())).with_context(|| {
            let log = std::fs::read_to_string(LOG).unwrap_or_default();
            log.lines().rev().take(5).collect::<Vec<&str>>().join("; ")
        })?;
        docker(&["load", "--input", &scale.image.to_string_lossy()])?;
        Ok(daemon)
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn docker(arguments: &[&str]) -> Result<String> {
    let output = Command::new("docker")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("run docker")?;
    if !output.status.success() {
        bail!(
            "docker {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn found(node: &Node) -> Result<String> {
    let label = format!("app={APP}");
    docker(&[
        "run",
        "--detach",
        "--network",
        "host",
        "--label",
        &label,
        "--name",
        SLEEPER,
        containers::IMAGE,
        GUEST,
        "wait",
    ])?;
    lab::wait("it is protected under the name that Docker gave it", || {
        ensure!(node.agent.is_alive(), "the agent is dead");
        let status = lab::status()?;
        let list = status["containers"].as_array().cloned().unwrap_or_default();
        Ok(list.iter().any(|one| one["name"] == SLEEPER))
    })?;
    let text = docker(&["exec", SLEEPER, GUEST, "node", "attack", SHADOW, "0"])?;
    let counts = serde_json::from_str(text.trim()).with_context(|| format!("read `{text}`"))?;
    ensure!(lab::number(&counts, "/allowed")? == 0, "{counts}");
    Ok(String::new())
}

/// Whether the first operation of a container succeeds.
fn attack(app: &str) -> Result<bool> {
    let label = format!("app={app}");
    let text = docker(&[
        "run",
        "--rm",
        "--network",
        "host",
        "--label",
        &label,
        containers::IMAGE,
        GUEST,
        "node",
        "attack",
        SHADOW,
        "0",
    ])?;
    let counts = serde_json::from_str(text.trim()).with_context(|| format!("read `{text}`"))?;
    Ok(lab::number(&counts, "/allowed")? > 0)
}
