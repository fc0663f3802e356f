//! Starts of containers that attack with their first instruction: under load, and while agents come and go.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::{
    Scale,
    lab::{self, Claims, GUEST, Load, Node, SHADOW},
};
use crate::demo::containers;

const APP: &str = "node-starts";
const SENTINEL: &str = "node-sentinel";
const RULE: &str = "disable-access-shadow";
/// Another version of the policy, which refuses the attack as well.
const OTHER: &str = "disable-access-shadow, disable-write-etc";
/// Starts at the same time.
const WORKERS: usize = 3;
/// Starts between two words about how many there were.
const TOLD: usize = 50;
/// An agent is killed this long after it was ready.
const LIFE: Duration = Duration::from_secs(10);
const READY: Duration = Duration::from_mins(5);

/// How starts ended.
#[derive(Default)]
struct Ends {
    denied: usize,
    /// The runtime was refused to start it: no attack, no container.
    refused: Vec<String>,
    succeeded: Vec<String>,
}

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    lab::enforce(APP, RULE)?;
    let free = attack("node-free", "node-other", "runc");
    claims.claim(
        "a container that no policy is about can do it with its first instruction",
        free.and_then(|allowed| {
            ensure!(allowed, "it was refused");
            Ok(String::new())
        }),
    );
    claims.claim(
        "no start under load gets its first instruction done",
        under_load(scale.starts).and_then(|ends| {
            ensure!(ends.succeeded.is_empty(), "{:?}", ends.succeeded);
            ensure!(ends.denied == scale.starts, "refused: {:?}", ends.refused);
            Ok(format!("{} starts, each denied", ends.denied))
        }),
    );
    claims.claim(
        "no start while agents are killed and policies change gets its first instruction done",
        while_restarted(scale, node),
    );
    Ok(())
}

/// Whether the first operation of a container succeeds.
fn attack(name: &str, app: &str, runtime: &str) -> Result<bool> {
    let label = format!("app={app}");
    let text = containers::ctr(&[
        "run",
        "--rm",
        "--net-host",
        "--runc-binary",
        runtime,
        "--label",
        &label,
        containers::IMAGE,
        name,
        GUEST,
        "node",
        "attack",
        SHADOW,
        "0",
    ])?;
    let counts: serde_json::Value =
        serde_json::from_str(text.trim()).with_context(|| format!("read `{text}`"))?;
    Ok(lab::number(&counts, "/allowed")? > 0)
}

fn under_load(starts: usize) -> Result<Ends> {
    let _load = Load::start();
    many(starts, "node-load")
}

/// Every second one by runc and by crun: they prepare a container in different ways.
fn many(starts: usize, name: &str) -> Result<Ends> {
    let next = AtomicUsize::new(0);
    let ends = Mutex::new(Ends::default());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= starts {
                        break;
                    }
                    let name = format!("{name}-{number}");
                    let outcome = attack(&name, APP, if number.is_multiple_of(2) { "crun" } else { "runc" });
                    if (number + 1).is_multiple_of(TOLD) {
                        eprintln!("{name} is done");
                    }
                    let mut ends = ends.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match outcome {
                        Ok(true) => ends.succeeded.push(name),
                        Ok(false) => ends.denied += 1,
                        Err(error) => {
                            ends.refused.push(format!("{error:#}"));
                            drop(ends);
                            lab::remove(&name);
                        }
                    }
                }
            });
        }
    });
    ends.into_inner()
        .map_err(|_| anyhow::anyhow!("a worker panicked"))
}

fn while_restarted(scale: &Scale, node: Node) -> Result<String> {
    lab::sleeper(SENTINEL, APP)?;
    node.agent.wait_until_protected(SENTINEL, READY)?;
    let done = AtomicBool::new(false);
    let (ends, kills, updates) = thread::scope(|scope| {
        let restarts = scope.spawn(|| restart(scale, node, &done));
        let updates = scope.spawn(|| update(scale.updates, &done));
        let ends = many(scale.restarts, "node-restart");
        done.store(true, Ordering::Relaxed);
        let panicked = || anyhow::anyhow!("a thread panicked");
        let kills = restarts.join().map_err(|_| panicked())??;
        let updates = updates.join().map_err(|_| panicked())??;
        anyhow::Ok((ends?, kills, updates))
    })?;
    lab::remove(SENTINEL);
    ensure!(ends.succeeded.is_empty(), "{:?}", ends.succeeded);
    ensure!(
        ends.denied > 0 && kills > 0,
        "{} denied, {kills} kills",
        ends.denied
    );
    Ok(format!(
        "{} denied, {} not started, {kills} kills, {updates} updates",
        ends.denied,
        ends.refused.len()
    ))
}

/// Kills agents until the starts are done; the last one stays until this returns.
fn restart(scale: &Scale, mut node: Node, done: &AtomicBool) -> Result<usize> {
    let mut kills = 0;
    while !done.load(Ordering::Relaxed) {
        thread::sleep(LIFE);
        // Dropping it kills it with SIGKILL.
        drop(node);
        node = Node::again(scale)?;
        kills += 1;
        node.agent.wait_until_protected(SENTINEL, READY)?;
    }
    Ok(kills)
}

fn update(updates: usize, done: &AtomicBool) -> Result<usize> {
    let mut count = 0;
    while count < updates && !done.load(Ordering::Relaxed) {
        lab::write(APP, if count % 2 == 0 { OTHER } else { RULE })?;
        count += 1;
        thread::sleep(Duration::from_millis(300));
    }
    Ok(count)
}
