//! The command line of varmor-controller.
#![forbid(unsafe_code)]

use anyhow::{Context as _, Result, anyhow};
use clap::Parser as _;
use tracing_subscriber::EnvFilter;
use varmor_controller::options::{Arguments, Command, LogFormat};
use varmor_controller::{crds, run};

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Crds { output: Some(folder) } => crds::write(&folder),
        Command::Crds { output: None } => crds::print(std::io::stdout().lock()),
        Command::Run(options) => {
            log(&options.log_level, options.log_format)?;
            start(run::run(*options))
        }
        Command::Uninstall(arguments) => {
            log("info", LogFormat::Text)?;
            start(run::uninstall(arguments))
        }
    }
}

fn start(work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("start the runtime")?;
    runtime.block_on(work)
}

fn log(level: &str, format: LogFormat) -> Result<()> {
    let filter = EnvFilter::try_new(level).context("--log-level is no filter")?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    }
    .map_err(|error| anyhow!("start logging: {error}"))
}
