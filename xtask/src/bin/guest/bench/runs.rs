//! A program that prints its own time as one integer, run again and again while nothing else gets the processor.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::{
    event::{EventfdFlags, eventfd},
    time::{ClockId, clock_gettime},
};

use super::{priority::THROTTLING, raw};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The program; without it this process writes to an eventfd a million times
    #[arg(long)]
    workload: Option<PathBuf>,
    #[arg(long)]
    warmups: u32,
    #[arg(long)]
    runs: u32,
    /// Moves the start of the program in time, and its stack in memory
    #[arg(long)]
    salt: u32,
}

/// What is left to be done after a boot is over by then; with an idle processor the guest's clock jumps.
const SETTLED: Duration = Duration::from_secs(20);
const WRITES: u32 = 1_000_000;

pub(super) fn run(args: &Args) -> Result<()> {
    fs::write(THROTTLING, "-1").with_context(|| format!("write {THROTTLING}"))?;
    sleep(SETTLED + Duration::from_millis(u64::from(args.salt)));
    raw::become_real_time().context("become a real-time task")?;
    for number in 0..args.warmups + args.runs {
        let time = match &args.workload {
            Some(program) => say(Command::new(program).env("SALT", "x".repeat(16 * args.salt as usize)))?,
            None => writes()?,
        };
        if number >= args.warmups {
            println!("{time}");
        }
    }
    Ok(())
}

/// The integer that a program prints.
fn say(command: &mut Command) -> Result<u64> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("run the workload; a guest has no libraries, so it must be a static program")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "the workload: {}: {said}", output.status);
    let number = said.trim().parse();
    number.with_context(|| format!("the workload should print one integer, and printed {said:?}"))
}

/// Microseconds of this process for a million writes.
fn writes() -> Result<u64> {
    let counter = eventfd(0, EventfdFlags::CLOEXEC)?;
    let start = spent()?;
    for _ in 0..WRITES {
        rustix::io::write(&counter, &1_u64.to_ne_bytes())?;
    }
    Ok(u64::try_from(spent()?.saturating_sub(start).as_micros())?)
}

/// What this process has had of the processor.
fn spent() -> Result<Duration> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Ok(Duration::new(
        u64::try_from(time.tv_sec)?,
        u32::try_from(time.tv_nsec)?,
    ))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{say, writes};

    #[test]
    fn program_prints_one_integer_or_is_named() {
        let shell = |script: &str| say(Command::new("/bin/sh").args(["-c", script]));
        assert_eq!(shell("echo 4711").unwrap(), 4711);
        let error = format!("{:#}", shell("echo 1 2").unwrap_err());
        assert!(error.contains("one integer") && error.contains("1 2"), "{error}");
        assert!(shell("echo 1; exit 3").is_err());
    }

    #[test]
    fn million_writes_take_time() {
        assert!(writes().unwrap() > 0);
    }
}
