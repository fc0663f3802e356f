//! `suite`: test suites that run inside a guest, one JSON line per case.

mod guest;
mod seccomp;

use std::{panic, process::ExitCode, time::Instant};

use anyhow::{Result, bail};

use crate::line::Line;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The suites to run [default: all]
    names: Vec<String>,
}

/// One claim and the code that fails when it is wrong.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Result<Verdict>,
}

/// How a case that did not fail ended.
pub(crate) enum Verdict {
    Passed,
    /// This kernel does not have what the case is about; the case has seen that itself.
    #[expect(
        dead_code,
        reason = "for suites whose subject is missing on a kernel of the matrix"
    )]
    Skipped(String),
}

/// Every suite by its name.
const SUITES: &[(&str, &[Case])] = &[("guest", guest::CASES), ("seccomp", seccomp::CASES)];

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    if let Some(unknown) = args
        .names
        .iter()
        .find(|name| !SUITES.iter().any(|(suite, _)| suite == name))
    {
        bail!("no suite `{unknown}`");
    }
    let mut good = true;
    for (suite, cases) in SUITES {
        if !args.names.is_empty() && !args.names.iter().any(|name| name == suite) {
            continue;
        }
        for case in *cases {
            let start = Instant::now();
            let (outcome, detail) = match panic::catch_unwind(case.run) {
                Ok(Ok(Verdict::Passed)) => ("passed", String::new()),
                Ok(Ok(Verdict::Skipped(reason))) => ("skipped", reason),
                Ok(Err(error)) => ("failed", format!("{error:#}")),
                Err(_) => ("failed", "it panicked; the message is above".to_owned()),
            };
            good &= outcome != "failed";
            let line = Line {
                suite,
                case: case.name,
                outcome,
                detail,
                ms: start.elapsed().as_millis(),
            };
            line.say()?;
        }
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
