//! Programs of a distribution as workloads: each run does a known amount of work, and the guest counts its instructions.
//!
//! A server and its client are both started by the measuring process, so that both are under the system that is measured.

mod ab;
mod apache;
mod fio;
mod gimp;
mod idle;
pub(super) mod redis;
mod server;
mod stress;
mod sysbench;

use std::{
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    protocol::{Clock, Work},
    raw,
};

/// Until the kernel's own threads have done what the last run left to them.
const PAUSE: Duration = Duration::from_millis(500);
/// On tmpfs: what the programs write, and their settings.
const FOLDER: &str = "/tmp/programs";

/// A program that is ready to run.
trait Load {
    /// Makes what a run works on; this is not measured.
    fn ready(&mut self) -> Result<()> {
        Ok(())
    }

    /// One run; this is what is measured.
    fn run(&mut self) -> Result<String>;
    /// Units of work that the run has done, from what it said and from what its server counted. Too little is an error.
    fn done(&mut self, said: &str) -> Result<u64>;
}

pub(super) fn is_one(work: &Work) -> bool {
    work.amount > 0
}

/// What each run takes for as many units as the plan says.
pub(super) fn measure(work: &Work, clock: Clock) -> Result<Vec<u64>> {
    raw::open_many_files().context("allow many open files")?;
    let folder = format!("{FOLDER}/{}", work.name);
    // What an earlier run under another system left would be read by this one.
    if std::fs::exists(&folder)? {
        std::fs::remove_dir_all(&folder).with_context(|| format!("empty {folder}"))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("make {folder}"))?;
    let mut load = prepare(&work.name, work.amount, &folder)?;
    // The first run is not kept: it reads programs and settings for the first time.
    (0..=work.batches)
        .map(|_| once(&mut *load, work.amount, clock))
        .skip(1)
        .collect()
}

fn prepare(name: &str, amount: u32, folder: &str) -> Result<Box<dyn Load>> {
    let words: Vec<&str> = name.split('-').collect();
    Ok(match *words {
        ["redis", command, clients] => {
            Box::new(redis::Redis::start(command, clients.parse()?, amount, folder)?)
        }
        ["apache", connections] => Box::new(apache::Apache::start(connections.parse()?, amount, folder)?),
        ["gimp", test] => Box::new(gimp::Gimp::start(test, amount, folder)?),
        ["stress", kind] => Box::new(stress::start(kind, amount, folder)?),
        ["ab", connections] => Box::new(ab::Bench::start(connections.parse()?, amount, folder)?),
        ["fio"] => Box::new(fio::start(amount, folder)?),
        ["sysbench", "cpu"] => Box::new(sysbench::cpu(amount)),
        ["sysbench", "memory"] => Box::new(sysbench::memory(amount)),
        _ => bail!("no program {name}"),
    })
}

/// In a guest that counts instructions, the processor's idle time is no work: where nothing can run, its clock jumps to the next
/// timer.
fn once(load: &mut dyn Load, amount: u32, clock: Clock) -> Result<u64> {
    load.ready()?;
    sleep(PAUSE);
    let idle = idle::now()?;
    let start = Instant::now();
    let said = load.run()?;
    let elapsed = u64::try_from(start.elapsed().as_nanos())?;
    let idle = match clock {
        Clock::Instructions => idle::now()?.saturating_sub(idle),
        Clock::Time => 0,
    };
    let done = load.done(&said)?;
    ensure!(done > 0, "no work was done: {said}");
    let busy = elapsed.saturating_sub(idle);
    Ok(u64::try_from(
        u128::from(busy) * u128::from(amount) / u128::from(done),
    )?)
}

/// What a program prints; that it fails is an error.
fn output(program: &str, arguments: &[String]) -> Result<String> {
    let output = raw::less_urgent(&mut Command::new(program))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {program}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{program}: {}: {said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(said)
}

/// The number behind a label at the beginning of a line, which is given with its indentation:
/// `Complete requests:      5000`.
fn number(said: &str, label: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix(label))?;
    line.trim().parse().ok()
}

/// Command-line words.
fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_found_by_their_labels() {
        let said = "Concurrency Level:      100\nTime taken for tests:   0.305 seconds\nComplete requests:      500\nFailed requests:        0\n";
        assert_eq!(number(said, "Complete requests:"), Some(500));
        assert_eq!(number(said, "Failed requests:"), Some(0));
        assert_eq!(number(said, "Non-2xx responses:"), None);
    }
}
