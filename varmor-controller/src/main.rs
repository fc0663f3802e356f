//! The command line of varmor-controller.
#![forbid(unsafe_code)]

mod crds;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Custom resource definitions of varmor.
///
/// This release has no controller: policies are enforced by varmor-agent from a folder of files. Reconciling
/// policies in a cluster comes with a later release.
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
