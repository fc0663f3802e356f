//! The command line of varmor-controller.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use varmor_controller::crds;

/// Policies of a cluster for the nodes, and their status.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the custom resource definitions as YAML.
    Crds {
        /// Write one file per definition into this folder instead.
        #[arg(long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Crds { output: Some(folder) } => crds::write(&folder),
        Command::Crds { output: None } => crds::print(std::io::stdout().lock()),
    }
}
