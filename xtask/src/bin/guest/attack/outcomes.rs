//! The outcomes that a process of this program prints, one JSON line each.

use std::{collections::BTreeMap, process::Command};

use anyhow::{Context, Result, ensure};

use super::Outcome;

pub(crate) type Outcomes = BTreeMap<String, Outcome>;

/// Runs the command and reads what became of its operations, and what was said beside.
pub(crate) fn outcomes(command: &mut Command) -> Result<(Outcomes, String)> {
    let output = command.output().context("start the attempts")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the attempts ended with {}: {errors}",
        output.status
    );
    let text = String::from_utf8(output.stdout).context("read the outcomes")?;
    let outcomes = text
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("read `{line}`")))
        .collect::<Result<_>>()?;
    Ok((outcomes, errors.into_owned()))
}
