//! `varmor agent`: what the running agent is told.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use super::print;
use crate::control::{Request, ask};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Change what the agent logs, until it ends
    LogLevel(LogLevel),
}

#[derive(Debug, clap::Args)]
pub(super) struct LogLevel {
    /// error, warn, info, debug, or a filter such as `info,varmor_agent::source=debug`
    level: String,
    /// State folder of the agent
    #[arg(long, value_name = "DIR", default_value = "/run/varmor")]
    state_dir: PathBuf,
}

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::LogLevel(LogLevel { level, state_dir }) = command;
    let request = Request::LogLevel { level: level.clone() };
    ask(state_dir, &request).context("change the agent's log level")?;
    print(&format!("the agent logs `{level}` until it ends\n"))?;
    Ok(ExitCode::SUCCESS)
}
