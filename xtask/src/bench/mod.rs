//! `bench`: what enforcement costs, in instructions that a guest counts.

mod apparmor;
mod hooks;
pub(crate) mod load;
mod operations;
mod policy;
mod protocol;
mod report;
mod systems;
mod verdict;

use std::process::ExitCode;

use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Instructions that enforcers add to system calls
    Hooks(hooks::Args),
    /// What each kernel's verifier says about each program
    Load(load::Args),
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Hooks(args) => hooks::command(args),
        Command::Load(args) => load::command(args),
    }
}
