//! `varmor simulate`: decides recorded events again, under another policy.

use std::fmt::Write as _;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;
use varmor_common::analysis::{Judge, Outcome, Recorded, Unusable};

use super::style::{Tone, paint};
use super::{Output, policies, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Policy file; all its policies hold together
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Recorded events: lines of violations.log
    #[arg(long, value_name = "FILE")]
    events: PathBuf,
    /// Only events of this profile
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// What came of the events.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Lines that were decided again.
    decided: usize,
    /// Lines of other enforcers, about the enforcer itself, or without a whole path.
    skipped: usize,
    flips: Vec<Flip>,
}

/// A decision that would be another one.
#[derive(Debug, Serialize)]
struct Flip {
    line: usize,
    operation: String,
    was: Outcome,
    becomes: Outcome,
    /// How many events the line stands for.
    count: u64,
    /// The rule that denies, before or then.
    rule: String,
}

/// 0: every decision stays; 1: some flips; 2: the question could not be answered.
pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let answered = simulate(arguments).and_then(|report| {
        print(&match arguments.output {
            Output::Text => text(&report),
            Output::Json => serde_json::to_string_pretty(&report)? + "\n",
        })?;
        Ok(report.flips.is_empty())
    });
    match answered {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("varmor: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn simulate(arguments: &Arguments) -> anyhow::Result<Report> {
    let judge = policies::judge(&arguments.file)?;
    decide(&judge, &arguments.events, arguments.profile.as_deref())
}

fn decide(judge: &Judge, events: &Path, profile: Option<&str>) -> anyhow::Result<Report> {
    let name = events.display();
    let file = std::fs::File::open(events).with_context(|| format!("open the events {name}"))?;
    let mut report = Report::default();
    for (line, text) in std::io::BufReader::new(file).lines().enumerate() {
        let line = line + 1;
        let text = text.with_context(|| format!("read line {line} of {name}"))?;
        if text.trim().is_empty() || !is_of(profile, &text) {
            continue;
        }
        match Recorded::parse(&text) {
            Ok(recorded) => {
                report.decided += 1;
                report.flips.extend(flip(judge, &recorded, line));
            }
            Err(Unusable::Other(_)) => report.skipped += 1,
            Err(error @ Unusable::Malformed(_)) => {
                return Err(error).with_context(|| format!("line {line} of {name}"));
            }
        }
    }
    Ok(report)
}

pub(super) fn is_of(profile: Option<&str>, text: &str) -> bool {
    profile.is_none_or(|wanted| {
        serde_json::from_str::<serde_json::Value>(text)
            .is_ok_and(|line| line.get("profileName").and_then(|name| name.as_str()) == Some(wanted))
    })
}

fn flip(judge: &Judge, recorded: &Recorded, line: usize) -> Option<Flip> {
    let becomes = recorded.flips(judge)?;
    let rule = if recorded.denied {
        recorded.rule.clone()
    } else {
        let decision = judge.explain(&recorded.operation, recorded.domain(judge));
        decision.decided_by.map(|cause| cause.rule).unwrap_or_default()
    };
    Some(Flip {
        line,
        operation: recorded.operation.to_string(),
        was: if recorded.denied {
            Outcome::Denied
        } else {
            Outcome::Audited
        },
        becomes,
        count: recorded.count,
        rule,
    })
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for flip in &report.flips {
        let word = match flip.becomes {
            Outcome::Denied => paint("would be denied", Tone::Good),
            Outcome::Allowed | Outcome::Audited => paint("would be allowed", Tone::Bad),
        };
        let (line, operation, count, rule) = (flip.line, &flip.operation, flip.count, &flip.rule);
        let _ = writeln!(text, "line {line}: {operation}: {word} ({count} events; {rule})");
    }
    let _ = writeln!(
        text,
        "{} events decided again, {} flips, {} skipped",
        report.decided,
        report.flips.len(),
        report.skipped
    );
    text
}
