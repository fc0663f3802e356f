//! What the agent needs for one policy and the pods that it protects on one node, as a line of JSON; in a guest whose clock
//! counts instructions.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    Scale,
    lab::{self, Claims, Node},
    usage,
};

const APP: &str = "node-resources";
const CALM: Duration = Duration::from_secs(10);

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    lab::write_for(APP, &scale.enforcer, "disable-access-shadow")?;
    lab::wait("the policy is in force", || {
        ensure!(node.agent.is_alive(), "the agent is dead: {}", Node::log()?);
        in_force(&scale.enforcer)
    })?;
    let before = usage::processor(&node)?;
    for number in 0..scale.containers {
        lab::sleeper(&format!("{APP}-c{number}"), APP)?;
    }
    if scale.enforcer == "BPF" {
        lab::wait("all containers are protected", || {
            let status = lab::status()?;
            Ok(status["containers"].as_array().map_or(0, Vec::len) >= scale.containers)
        })?;
    }
    thread::sleep(CALM);
    let work = usage::processor(&node)? - before;
    let [all, own, files] = usage::memory(&node)?;
    let idle = usage::idle_time(&node)?;
    println!(
        "{}",
        json!({"resources": {
            "enforcer": scale.enforcer,
            "containers": scale.containers,
            "startInstructions": before,
            "workInstructions": work,
            "idleInstructionsPerSecond": idle,
            "rssKiB": all,
            "anonymousKiB": own,
            "fileKiB": files,
        }})
    );
    for number in 0..scale.containers {
        lab::remove(&format!("{APP}-c{number}"));
    }
    let what = format!(
        "{all} KiB with {} containers under {}",
        scale.containers, scale.enforcer
    );
    claims.claim("what the agent needs is told", Ok(what));
    Ok(())
}

fn in_force(enforcer: &str) -> Result<bool> {
    let policy = lab::only_policy()?;
    Ok(if enforcer == "BPF" {
        policy["enforced"] == "current"
    } else {
        policy["by_runtime"][0]["state"] == "loaded"
    })
}
