//! `life`: what becomes of programs, tables and bindings while policies and containers come and go.
//!
//! Each part drives an enforcer in a process of its own (`varmor exercise`), so that it can be killed.

mod enforcer;
mod events;
mod hammer;
mod hooks;
mod labels;
mod policies;
mod reader;
mod scale;
mod versions;

use std::{process::ExitCode, time::Instant};

use anyhow::Result;
pub(crate) use enforcer::Enforcer;
pub(crate) use reader::cgroup;
use serde_json::Value;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these parts [default: all]
    part: Vec<String>,
    /// Policy updates of the hammer
    #[arg(long, default_value_t = 300)]
    updates: usize,
    /// Containers of the scale test
    #[arg(long, default_value_t = 200)]
    containers: usize,
    /// Profiles of the scale test
    #[arg(long, default_value_t = 20)]
    profiles: usize,
    /// Read protected files in this cgroup until told to stop (internal)
    #[arg(long)]
    read_in: Option<std::path::PathBuf>,
    /// The second half of a reader: already in the cgroup (internal)
    #[arg(long)]
    read: bool,
    /// As --read, once for each line of standard input (internal)
    #[arg(long)]
    ask: bool,
}

/// A part prints its claims as they are proved or broken.
type Part = fn(&Args, &mut Claims) -> Result<()>;

const PARTS: &[(&str, Part)] = &[
    ("hooks", hooks::run),
    ("labels", labels::run),
    ("versions", versions::run),
    ("events", events::run),
    ("scale", scale::run),
    ("hammer", hammer::run),
];

/// Prints one JSON line per claim.
pub(crate) struct Claims {
    suite: &'static str,
    good: bool,
    since: Instant,
}

impl Claims {
    pub(crate) fn new(suite: &'static str) -> Self {
        Self {
            suite,
            good: true,
            since: Instant::now(),
        }
    }

    /// `outcome` is the detail of a success or the reason of a failure.
    pub(crate) fn claim(&mut self, case: &str, outcome: Result<String>) {
        let (verdict, detail) = match outcome {
            Ok(detail) => ("passed", detail),
            Err(error) => ("failed", format!("{error:#}")),
        };
        self.good &= verdict == "passed";
        let line = serde_json::json!({
            "suite": self.suite, "case": case, "outcome": verdict, "detail": detail,
            "ms": self.since.elapsed().as_millis(),
        });
        println!("{line}");
        self.since = Instant::now();
    }

    /// What cannot be asked here.
    pub(crate) fn skip(&mut self, case: &str, reason: &str) {
        let line =
            serde_json::json!({ "suite": self.suite, "case": case, "outcome": "skipped", "detail": reason });
        println!("{line}");
        self.since = Instant::now();
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    if let Some(cgroup) = &args.read_in {
        return reader::enter(cgroup, args.ask);
    }
    if args.ask {
        return reader::ask();
    }
    if args.read {
        return reader::read();
    }
    let mut claims = Claims::new("life");
    reader::prepare()?;
    policies::write()?;
    for (name, part) in PARTS {
        if args.part.is_empty() || args.part.iter().any(|wanted| wanted == name) {
            let outcome = part(args, &mut claims);
            if let Err(error) = outcome {
                claims.claim(name, Err(error));
            }
        }
    }
    Ok(claims.exit_code())
}

/// A number of an answer.
pub(crate) fn number(value: &Value, pointer: &str) -> Result<u64> {
    value
        .pointer(pointer)
        .and_then(Value::as_u64)
        .ok_or_else(|| anyhow::anyhow!("no number at {pointer} in {value}"))
}
