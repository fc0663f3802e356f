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

/// How many cases ended how.
pub(crate) struct Ended {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// How a case ended.
struct Ran {
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
    let chosen = if args.only.is_empty() {
        cases::ALL.iter().collect()
    } else {
        with_what_they_need(&args.only)?
    };
    let Ended { passed, failed } = run(&chosen, args.options)?;
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs all cases in a cluster as it is by default, with the programs that the other suites run.
pub(crate) fn suite() -> Result<Ended> {
    let chosen: Vec<&Case> = cases::ALL.iter().collect();
    run(&chosen, Options::of_suite())
}

fn run(chosen: &[&'static Case], options: Options) -> Result<Ended> {
    let (results, broken) = within(options, |session, broken| run_cases(chosen, session, broken))?;
    write_report(&results)?;
    if broken {
        bail!("a part of the cluster ended; what it said is above");
    }
    let passed = results.iter().filter(|result| result.passed).count() as u64;
    Ok(Ended {
        passed,
        failed: results.len() as u64 - passed,
    })
}

/// The named cases in their order, with those that they need.
fn with_what_they_need(only: &[String]) -> Result<Vec<&'static Case>> {
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
    let is_chosen = |case: &&Case| wanted.contains(&case.name);
    Ok(cases::ALL.iter().filter(is_chosen).collect())
}

fn run_cases(chosen: &[&'static Case], session: &Session, broken: &AtomicBool) -> Vec<Ran> {
    let mut results: Vec<Ran> = Vec::new();
    for (number, case) in chosen.iter().enumerate() {
        if broken.load(Ordering::Relaxed) {
            break;
        }
        eprintln!("[case {}/{}: {}]", number + 1, chosen.len(), case.name);
        let start = Instant::now();
        let has_failed = |name: &str| results.iter().any(|result| result.name == name && !result.passed);
        if let Some(needed) = case.needs.filter(|name| has_failed(name)) {
            println!("FAILED: {}: it needs the case {needed}, which failed", case.name);
            results.push(Ran {
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
        results.push(Ran {
            name: case.name,
            passed,
            seconds,
        });
    }
    results
}

fn write_report(results: &[Ran]) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_case_needs_is_run_before_it() {
        let all = with_what_they_need(&["to-services".to_owned()]).unwrap();
        let found: Vec<&str> = all.iter().map(|case| case.name).collect();
        assert_eq!(
            found,
            ["nodes-ready", "chart-install", "chart-ready", "to-services"]
        );
        assert!(with_what_they_need(&["to-service".to_owned()]).is_err());
    }
}
