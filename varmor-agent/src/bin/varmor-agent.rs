//! The node agent.

use clap::Parser as _;
use varmor_agent::daemon::{self, Options};

fn main() -> anyhow::Result<()> {
    daemon::run(Options::parse())
}
