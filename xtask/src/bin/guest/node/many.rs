//! Many profiles and many containers: what the agent needs for them.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::{
    Scale,
    lab::{self, Claims, Node, SHADOW},
};

const APP: &str = "node-many";
/// What the issue allows; vArmor asks for 100 MiB.
const MEMORY_KIB: u64 = 30 << 10;
/// A thousandth of a processor, of one that is emulated and twenty to thirty times slower.
const IDLE_SHARE: f64 = 0.025;
const IDLE: Duration = Duration::from_mins(1);
/// The list of the kernel's clock ticks in a second (`sysconf(_SC_CLK_TCK)` of every Linux).
const TICKS: f64 = 100.0;
const WORKERS: usize = 3;
const CALM: Duration = Duration::from_secs(10);

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
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
                lab::sleeper(&name(number), &app(number % scale.profiles))?;
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
    let what = format!("{} profiles, {} containers", scale.profiles, scale.containers);
    claims.claim(
        "the agent needs at most 30 MiB",
        memory(&node).and_then(|[all, own, files]| {
            let text = format!("{all} KiB ({own} of its own, {files} of its program) with {what}");
            ensure!(all <= MEMORY_KIB, "{text}");
            Ok(text)
        }),
    );
    claims.claim(
        "the agent needs next to nothing of an emulated processor when nothing happens",
        idle(&node).and_then(|share| {
            ensure!(share <= IDLE_SHARE, "{:.3} % with {what}", share * 100.0);
            Ok(format!("{:.3} % with {what}", share * 100.0))
        }),
    );
    for number in 0..scale.containers {
        lab::remove(&name(number));
    }
    Ok(())
}

fn app(number: usize) -> String {
    format!("{APP}-{number}")
}

fn name(number: usize) -> String {
    format!("{APP}-c{number}")
}

/// Resident memory in KiB: all, anonymous, of files.
fn memory(node: &Node) -> Result<[u64; 3]> {
    let path = format!("/proc/{}/status", node.agent.pid());
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let field = |name: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next())
            .and_then(|word| word.parse().ok())
            .with_context(|| format!("no {name}"))
    };
    Ok([field("VmRSS:")?, field("RssAnon:")?, field("RssFile:")?])
}

/// The share of a processor that it used in a while without work.
fn idle(node: &Node) -> Result<f64> {
    let used = || -> Result<u64> {
        let path = format!("/proc/{}/stat", node.agent.pid());
        let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        // The name in brackets may hold blanks.
        let rest = text.rsplit_once(") ").map(|(_, rest)| rest).context("no name")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let field = |index: usize| -> Result<u64> { fields[index].parse().context("no number") };
        Ok(field(11)? + field(12)?)
    };
    let before = used()?;
    thread::sleep(IDLE);
    #[expect(clippy::cast_precision_loss, reason = "a few thousand ticks")]
    let ticks = (used()? - before) as f64;
    Ok(ticks / TICKS / IDLE.as_secs_f64())
}
