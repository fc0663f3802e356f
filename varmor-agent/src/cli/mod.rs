//! `varmor`: the command line.

mod advise;
mod agent;
mod check;
mod compile;
mod diff;
mod exercise;
mod explain;
mod learn;
mod load_stats;
mod model;
mod models;
mod policies;
mod rules;
mod run;
mod simulate;
mod status;
mod style;
#[cfg(test)]
mod tests;

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};

/// Protects commands and containers by policies, through the kernel's BPF LSM.
#[derive(Debug, Parser)]
#[command(name = "varmor", version, disable_version_flag = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command, and everything it starts, under a policy
    Run(run::Arguments),
    /// Record what a command does and write what was learned of it
    Learn(learn::Arguments),
    /// Show what was learned of a workload, and policies that hold it to it
    #[command(subcommand)]
    Model(model::Command),
    /// Check policy files and say what is wrong, where, and how to repair it
    Check(check::Arguments),
    /// Show the built-in rules
    Rules(rules::Arguments),
    /// Print what an enforcer gets: the tables of BPF or the profile of seccomp
    Compile(compile::Arguments),
    /// Say what a policy decides about an operation, why, and what would change it
    Explain(explain::Arguments),
    /// Decide recorded events again under another policy; exit code 1 if a decision flips, 2 on an error
    Simulate(simulate::Arguments),
    /// Show what becomes allowed and denied between two policy files
    Diff(diff::Arguments),
    /// Write a policy that fits a workload
    Advise(advise::Arguments),
    /// Show what this kernel can enforce and what is enforced
    Status(status::Arguments),
    /// Tell the running agent something
    #[command(subcommand)]
    Agent(agent::Command),
    /// Show the version
    Version,
    /// Load every kernel program, attaching none, and print the verifier's statistics as JSON
    #[command(hide = true)]
    LoadStats,
    /// Enter a cgroup and become a command: the second half of `run`
    #[command(hide = true)]
    Enter(run::EnterArguments),
    /// Drive an enforcer by commands on standard input: for the tests of its life
    #[command(hide = true)]
    Exercise(exercise::Arguments),
}

/// How a command answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    #[default]
    Text,
    Json,
}

impl Cli {
    /// Carries the command out; an error is printed and becomes exit code 1.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let outcome = match self.command {
            Command::Run(arguments) => run::run(&arguments),
            Command::Learn(arguments) => learn::run(&arguments),
            Command::Model(command) => model::run(&command),
            Command::Check(arguments) => check::run(&arguments),
            Command::Rules(arguments) => rules::run(&arguments),
            Command::Compile(arguments) => compile::run(&arguments),
            Command::Explain(arguments) => explain::run(&arguments),
            Command::Simulate(arguments) => return simulate::run(&arguments),
            Command::Diff(arguments) => diff::run(&arguments),
            Command::Advise(arguments) => advise::run(&arguments),
            Command::Status(arguments) => status::run(&arguments),
            Command::Agent(command) => agent::run(&command),
            Command::Enter(arguments) => run::enter(&arguments),
            Command::Exercise(arguments) => exercise::run(&arguments),
            Command::LoadStats => load_stats::run(),
            Command::Version => {
                print(&format!("varmor {}\n", env!("CARGO_PKG_VERSION"))).map(|()| ExitCode::SUCCESS)
            }
        };
        outcome.unwrap_or_else(|error| {
            eprintln!("varmor: {error:#}");
            ExitCode::FAILURE
        })
    }
}

/// Writes an answer to standard output. A reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("write the answer"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod flags {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn command_after_the_dashes_keeps_its_flags() {
        let cli = Cli::try_parse_from(["varmor", "run", "--policy", "p.yaml", "--", "ls", "--policy", "x"])
            .unwrap();
        let Command::Run(arguments) = cli.command else {
            panic!("not a run")
        };
        assert_eq!(arguments.command, ["ls", "--policy", "x"]);
    }
}
