//! Limits of this process that its children inherit.

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Before 5.11 maps and programs count as locked memory of their user: those of an enforcer that has just ended are
/// freed a moment later and would be in the way of the next.
pub(crate) fn lift_locked_memory() -> Result<()> {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    setrlimit(Resource::Memlock, unlimited).context("lift the limit of locked memory")
}
