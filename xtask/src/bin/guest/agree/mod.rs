//! `agree`: what `varmor explain`, `simulate` and `diff` say offline is what this kernel does.
//!
//! Policies and operations are generated. A batch of operations is done free and under its policy; where it worked free,
//! the kernel's answer is compared with that of `explain`. The violations of the run are decided again by `simulate`,
//! and every difference that `diff` finds between two policies is tried under both.

mod counts;
mod difference;
mod generate;
mod operation;
mod policies;
mod raw;
mod rng;
mod stage;
mod tools;

use std::{
    io::{BufRead, Write},
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result};

use crate::line::Line;
use counts::Counts;
use operation::{Operation, Outcome};
use rng::Rng;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many policies
    #[arg(long, default_value_t = 24)]
    policies: usize,
    /// Operations under each
    #[arg(long, default_value_t = 500)]
    operations: usize,
    /// Pairs of policies that are compared
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// Where the generators begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do the operations on standard input and print what became of each (internal)
    #[arg(long, hide = true)]
    operate: bool,
}

/// Most disagreements that are said for one policy.
const SAID: usize = 8;

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    if args.operate {
        return operate();
    }
    stage::prepare().context("prepare the guest")?;
    let mut outside = Command::new("/bin/busybox")
        .args(["sleep", "100000"])
        .spawn()
        .context("start a process outside")?;
    let pid = i32::try_from(outside.id()).context("pid")?;
    let said = suite(args, pid);
    outside.kill().context("end the process outside")?;
    outside.wait().context("end the process outside")?;
    Ok(if said? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Reads and answers line by line: the operations come through a pipe, which no policy is about.
fn operate() -> Result<ExitCode> {
    let mut answers = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let operation: Operation = serde_json::from_str(&line?)?;
        let outcome = operation.act.outcome();
        writeln!(answers, "{}", serde_json::to_string(&outcome)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn suite(args: &Args, outside: i32) -> Result<bool> {
    let catalogue = tools::catalogue()?;
    let mut counts = Counts::default();
    let mut good = true;
    let mut written = Vec::new();
    for number in 0..args.policies {
        let start = Instant::now();
        // A policy and its operations do not depend on those before it, so one can be repeated alone.
        let mut rng = Rng::new(args.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let policy = format!("/tmp/agree-{number}.yaml");
        let text = policies::policy(&mut rng, number, &catalogue);
        std::fs::write(&policy, &text).with_context(|| format!("write {policy}"))?;
        let operations = generate::operations(&mut rng, args.operations, outside);
        let judged = judge(&policy, &operations, &mut counts);
        let detail = match &judged {
            Ok(wrong) if wrong.is_empty() => String::new(),
            Ok(wrong) => format!("{}; the policy is {text}", wrong.join("; ")),
            Err(error) => format!("{error:#}; the policy is {text}"),
        };
        good &= say(&format!("policy {number}"), detail, start)?;
        written.push(policy);
    }
    for number in 0..args.pairs.min(written.len().saturating_sub(1)) {
        let start = Instant::now();
        let (old, new) = (&written[number], &written[number + 1]);
        let detail = match difference::judge(old, new, outside, &mut counts) {
            Ok(wrong) => wrong.join("; "),
            Err(error) => format!("{error:#}"),
        };
        good &= say(&format!("difference {number}"), detail, start)?;
    }
    let line = Line {
        suite: "agree",
        case: "counts",
        outcome: if good { "passed" } else { "failed" },
        detail: counts.to_string(),
        ms: 0,
    };
    line.say()?;
    Ok(good)
}

/// What is wrong.
fn judge(policy: &str, operations: &[Operation], counts: &mut Counts) -> Result<Vec<String>> {
    stage::renew(operations)?;
    let (free, _) = tools::outcomes(stage::OPERATOR, None, operations).context("without a policy")?;
    stage::renew(operations)?;
    let (under, events) =
        tools::outcomes(stage::OPERATOR, Some(policy), operations).context("under the policy")?;
    let expected = tools::explain(policy, stage::OPERATOR, operations)?;
    let softened = expected.is_softened;
    let mut wrong = Vec::new();
    for (place, operation) in operations.iter().enumerate() {
        let (free, under, denied) = (free[place], under[place], expected.denied[place]);
        if free != Outcome::Allowed {
            counts.left_out(operation, free);
            continue;
        }
        counts.compared(operation, under);
        let agrees = match under {
            Outcome::Allowed => !denied,
            Outcome::Denied => denied,
            Outcome::Failed(_) => false,
        };
        if !agrees {
            let said = if denied { "denied" } else { "allowed" };
            wrong.push(format!(
                "{:?}: the kernel says {under:?}, explain says {said} to {:?}",
                operation.act, operation.asks
            ));
        }
    }
    counts.wrong += wrong.len();
    let more = wrong.len().saturating_sub(SAID);
    wrong.truncate(SAID);
    if more > 0 {
        wrong.push(format!("and {more} more"));
    }
    wrong.extend(tools::simulate(policy, &events, softened, counts)?);
    Ok(wrong)
}

fn say(case: &str, detail: String, start: Instant) -> Result<bool> {
    let good = detail.is_empty();
    let line = Line {
        suite: "agree",
        case,
        outcome: if good { "passed" } else { "failed" },
        detail,
        ms: start.elapsed().as_millis(),
    };
    line.say()?;
    Ok(good)
}
