//! `bench`: what enforcement costs, in instructions that a guest counts.

mod apparmor;
mod boots;
mod calibrate;
mod catalogue;
mod cluster;
mod compare;
mod comparison;
mod composite;
mod gate;
mod hooks;
mod intake;
mod kept;
pub(crate) mod load;
mod lsm;
mod native;
mod operations;
mod page;
mod policy;
mod preset;
mod protocol;
mod record;
mod report;
mod stats;
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
    /// Measures one table and writes it
    Preset(preset::Args),
    /// The systems of seed-pts as pods of the lab's cluster
    Cluster(cluster::Args),
    /// Runs of presets as HTML with charts
    Report(page::Args),
    /// Two runs of a preset, cell by cell
    Compare(compare::Args),
    /// A result file of the Phoronix Test Suite, or one that a run of seed-pts left, as tables
    Composite(composite::Args),
    /// What can be measured
    List,
    /// Whether this machine can measure, and what is missing
    Doctor,
    /// Fails when an operation costs more than the committed baseline says
    Ci(gate::Args),
    /// A system against itself: the smallest overhead that so many blocks can see, for each operation
    Calibrate(calibrate::Args),
    /// A user's own kernels under a user's own workload, as lsm-perf compares them
    Lsm(lsm::Args),
    /// The statistics against series whose answer is known
    Selftest(stats::selftest::Args),
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Hooks(args) => hooks::command(args),
        Command::Load(args) => load::command(args),
        Command::Selftest(args) => Ok(stats::selftest::command(args)),
        Command::Calibrate(args) => calibrate::command(args),
        Command::Lsm(args) => lsm::command(args),
        Command::Preset(args) => preset::command(args),
        Command::Cluster(args) => cluster::command(args),
        Command::Report(args) => page::command(args),
        Command::Compare(args) => compare::command(args),
        Command::Composite(args) => composite::command(args),
        Command::List => Ok(catalogue::list()),
        Command::Doctor => catalogue::doctor(),
        Command::Ci(args) => gate::command(args),
    }
}
