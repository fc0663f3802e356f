//! Many profiles and many containers: what the agent needs for them. They stay until the guest ends, because to
//! remove a thousand takes as long as to start them.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Result, ensure};

use super::{
    Scale,
    lab::{self, Claims, Node, SHADOW},
    usage,
};

/// What the issue allows; vArmor asks for 100 MiB.
const MEMORY_KIB: u64 = 30 << 10;
const WORKERS: usize = 3;
/// Containers with one shim.
const TOGETHER: usize = 8;
/// Containers between two words about how many there are.
const TOLD: usize = 100;
const CALM: Duration = Duration::from_secs(10);

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    let what = fill(scale, "node-many")?;
    claims.claim(
        "the agent needs at most 30 MiB",
        usage::memory(&node).and_then(|[all, own, files]| {
            let text = format!("{all} KiB ({own} of its own, {files} of its program) with {what}");
            ensure!(all <= MEMORY_KIB, "{text}");
            Ok(text)
        }),
    );
    Ok(())
}

/// Loads the profiles, starts the containers, and says how many.
pub(super) fn fill(scale: &Scale, part: &str) -> Result<String> {
    let app = |number: usize| format!("{part}-{number}");
    let name = |number: usize| format!("{part}-c{number}");
    for number in 0..scale.profiles {
        lab::write(&app(number), "disable-access-shadow")?;
    }
    lab::wait("all profiles are loaded", || {
        Ok(lab::profiles()?.len() >= scale.profiles)
    })?;
    let next = AtomicUsize::new(0);
    let started: Result<Vec<()>> = thread::scope(|scope| {
        let start = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= scale.containers {
                    return Ok(());
                }
                // Like the containers of a pod, so many have one shim.
                let group = format!("io.containerd.runc.v2.group={part}-{}", number / TOGETHER);
                let options = ["--runc-binary", "crun", "--annotation", &group];
                lab::sleeper_with(&name(number), &app(number % scale.profiles), &options)?;
                if (number + 1).is_multiple_of(TOLD) {
                    eprintln!("{part}: {} containers", number + 1);
                }
            }
        };
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(start)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?)
            .collect()
    });
    started?;
    lab::wait("all containers are protected", || {
        let status = lab::status()?;
        let list = status["containers"].as_array().cloned().unwrap_or_default();
        Ok(list.len() >= scale.containers)
    })?;
    let last = lab::inside(&name(scale.containers - 1), &["attack", SHADOW, "0"])?;
    ensure!(
        lab::number(&last, "/allowed")? == 0,
        "the last one is not protected: {last}"
    );
    thread::sleep(CALM);
    Ok(format!(
        "{} profiles, {} containers",
        scale.profiles, scale.containers
    ))
}
