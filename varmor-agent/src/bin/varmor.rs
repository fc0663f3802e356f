//! The command line.

use std::process::ExitCode;

use clap::Parser as _;
use varmor_agent::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
