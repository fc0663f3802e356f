//! `varmor load-stats`: what this kernel's verifier says about each program, for `cargo xtask build --stats`.

use std::process::ExitCode;

use super::print;
use crate::enforcer::bpf;

/// A JSON line per program; the exit code tells whether all of them loaded.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    let programs = bpf::statistics()?;
    let mut good = true;
    for program in &programs {
        good &= program.refused.is_none();
        print(&(serde_json::to_string(program)? + "\n"))?;
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
