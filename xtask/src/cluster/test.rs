//! `cluster test`: every case in a real cluster, a report of all of them.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::{
    cases::{self, Case, Session},
    held::within,
    lab::Options,
    place,
};
use crate::{progress, workspace};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Only these cases, and those that they need
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the names of the cases
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    options: Options,
}

/// How a case ended.
struct Ended {
    name: &'static str,
    passed: bool,
    seconds: f64,
}

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    if args.list {
        for case in cases::ALL {
            println!("{:<28} {}", case.name, case.proves);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (passed, failed) = run(&args.only, args.options)?;
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Every case in a cluster as it is by default.
pub(super) fn suite() -> Result<(u64, u64)> {
    run(&[], Options::default())
}

/// How many cases passed and failed.
fn run(only: &[String], options: Options) -> Result<(u64, u64)> {
    let chosen = choose(only)?;
    let (results, broken) = within(options, |session, broken| run_cases(&chosen, session, broken))?;
    write_report(&results)?;
    if broken {
        bail!("a part of the cluster ended; what it said is above");
    }
    let passed = results.iter().filter(|result| result.passed).count() as u64;
    Ok((passed, results.len() as u64 - passed))
}

/// The cases in their order, with those that the named ones need.
fn choose(only: &[String]) -> Result<Vec<&'static Case>> {
    if let Some(unknown) = only
        .iter()
        .find(|name| !cases::ALL.iter().any(|case| case.name == **name))
    {
        bail!("there is no case `{unknown}`; `cargo xtask cluster test --list` names them");
    }
    let mut wanted: Vec<&str> = only.iter().map(String::as_str).collect();
    let mut at = 0;
    while let Some(name) = wanted.get(at).copied() {
        let case = cases::ALL.iter().find(|case| case.name == name);
        wanted.extend(case.and_then(|case| case.needs));
        at += 1;
    }
    let is_chosen = |case: &&Case| only.is_empty() || wanted.contains(&case.name);
    Ok(cases::ALL.iter().filter(is_chosen).collect())
}

fn run_cases(chosen: &[&'static Case], session: &Session, broken: &AtomicBool) -> Vec<Ended> {
    let mut results: Vec<Ended> = Vec::new();
    for (number, case) in chosen.iter().enumerate() {
        if broken.load(Ordering::Relaxed) {
            break;
        }
        eprintln!("[case {}/{}: {}]", number + 1, chosen.len(), case.name);
        let start = Instant::now();
        let has_failed = |name: &str| results.iter().any(|result| result.name == name && !result.passed);
        if let Some(needed) = case.needs.filter(|name| has_failed(name)) {
            println!("FAILED: {}: it needs the case {needed}, which failed", case.name);
            results.push(Ended {
                name: case.name,
                passed: false,
                seconds: 0.0,
            });
            continue;
        }
        let outcome = progress::timed(case.name, || (case.run)(session));
        let seconds = start.elapsed().as_secs_f64();
        let passed = outcome.is_ok();
        match outcome {
            Ok(()) => println!("passed: {} in {seconds:.1} s: {}", case.name, case.proves),
            Err(error) => {
                println!(
                    "FAILED: {} in {seconds:.1} s: {}: {error:#}",
                    case.name, case.proves
                );
                session.show_what_is_there();
            }
        }
        results.push(Ended {
            name: case.name,
            passed,
            seconds,
        });
    }
    results
}

fn write_report(results: &[Ended]) -> Result<()> {
    let list: Vec<_> = results
        .iter()
        .map(|result| json!({ "name": result.name, "passed": result.passed, "seconds": (result.seconds * 10.0).round() / 10.0 }))
        .collect();
    let file = place::folder().join("report.json");
    let text = serde_json::to_string_pretty(&list).context("print the report")?;
    workspace::write_file(&file, text + "\n")?;
    println!("report: {}", file.display());
    Ok(())
}
