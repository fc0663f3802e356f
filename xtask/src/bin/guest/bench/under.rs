//! Becomes a command under a system of the plan: for measurements that somebody else makes.

use std::{os::unix::process::CommandExt, process::Command};

use anyhow::{Context, Result};

use super::{plan, raw, systems};

#[derive(clap::Args)]
pub(super) struct Args {
    /// A system of the plan
    system: String,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Where the programs of a distribution are.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) fn become_command(args: &Args) -> Result<()> {
    let plan = plan()?;
    let mut systems = plan.systems.iter();
    let system = systems
        .find(|system| system.name == args.system)
        .with_context(|| format!("the plan has no system {}", args.system))?;
    let active = systems::activate(&system.setup, &mut systems::Known::new())?;
    let words = active
        .launcher()
        .with_context(|| format!("{} ends with the process that has brought it about", args.system))?;
    let (program, rest) = words.split_first().context("a launcher has a first word")?;
    raw::open_many_files().context("allow many open files")?;
    let error = Command::new(program)
        .args(rest)
        .args(&args.command)
        .env_clear()
        .env("PATH", PATH)
        .exec();
    Err(error).with_context(|| format!("run {program}"))
}
