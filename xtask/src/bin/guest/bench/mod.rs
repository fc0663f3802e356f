//! `bench`: measures operations under enforcers in a guest whose clock counts instructions
//! (`-icount shift=0`: 1 ns = 1 instruction).

mod attached;
mod btf;
mod empty;
mod features;
mod kept;
mod launch;
mod measure;
mod operations;
mod pod;
mod priority;
mod programs;
#[path = "../../../bench/protocol.rs"]
mod protocol;
mod raw;
mod run;
mod runs;
mod spent;
mod stage;
mod systems;
mod ubench;
mod under;

use std::{io::Read, path::Path, process::ExitCode};

use anyhow::{Context, Result};
use protocol::{FOLDER, Line, PLAN, Plan};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Carries the plan out and prints JSON lines
    Run,
    /// Measures the plan's operations in this process
    Measure(measure::Args),
    /// Becomes a command under an `AppArmor` profile or a seccomp filter
    Launch(launch::Args),
    /// Becomes a command under a system of the plan
    Under(under::Args),
    /// Prints what the kernel's `AppArmor` can do, as `apparmor_parser` reads it
    Features,
    /// Says that it runs and waits until its input ends
    Wait,
    /// Sends commands to a Redis server on this machine
    RedisClient(programs::redis::client::Args),
    /// Returns counters until its input ends
    Echo,
    /// Runs a program that tells its own time, again and again
    Runs(runs::Args),
    /// Measures operations in the time of the container that it is in
    Pod(pod::Args),
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Run => run::run()?,
        Command::Measure(args) => measure::measure(args)?,
        Command::Launch(args) => launch::launch(args)?,
        Command::Under(args) => under::become_command(args)?,
        Command::Features => print!("{}", features::text(Path::new(features::FOLDER))?),
        Command::RedisClient(args) => programs::redis::client::run(args)?,
        Command::Echo => ubench::echo()?,
        Command::Pod(args) => pod::run(args)?,
        Command::Runs(args) => runs::run(args)?,
        Command::Wait => {
            println!();
            let _ = std::io::stdin().read(&mut [0; 1]);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn plan() -> Result<Plan> {
    let file = Path::new(FOLDER).join(PLAN);
    let text = std::fs::read(&file).with_context(|| format!("read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("understand {}", file.display()))
}

fn say(line: &Line) -> Result<()> {
    println!("{}", serde_json::to_string(line)?);
    Ok(())
}
