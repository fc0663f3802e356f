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
    fs,
    io::{BufRead, Write},
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use crate::line::Line;
use counts::Counts;
use difference::Tried;
use operation::{Operation, Outcome};
use rng::Rng;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many policies
    #[arg(long, default_value_t = 20)]
    policies: usize,
    /// Operations under each
    #[arg(long, default_value_t = 520)]
    operations: usize,
    /// Only the policies with these numbers, and differences between neighbours among them
    #[arg(long)]
    only: Vec<usize>,
    /// Where the generators begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do the operations on standard input and print what became of each (internal)
    #[arg(long, hide = true)]
    operate: bool,
    /// How many of them this program does itself; it starts another one for the rest (internal)
    #[arg(long, hide = true, default_value_t = 0)]
    own: usize,
}

/// Most disagreements that are said for one policy.
const SAID: usize = 8;

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    if args.operate {
        return operate(args.own);
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

/// The operations come through a pipe, which no policy is about. All but the first `own` are another program's.
fn operate(own: usize) -> Result<ExitCode> {
    let lines = std::io::stdin()
        .lock()
        .lines()
        .collect::<std::io::Result<Vec<String>>>()?;
    let (own, others) = lines.split_at(own.min(lines.len()));
    for line in own {
        let operation: Operation = serde_json::from_str(line)?;
        println!("{}", serde_json::to_string(&operation.act.outcome())?);
    }
    if others.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let count = others.len().to_string();
    let mut operator = Command::new(stage::OPERATOR)
        .args(["agree", "--operate", "--own", &count])
        .stdin(Stdio::piped())
        .spawn()
        .context("start the other operator")?;
    let mut input = operator.stdin.take().context("no pipe")?;
    input.write_all((others.join("\n") + "\n").as_bytes())?;
    drop(input);
    let status = operator.wait()?;
    ensure!(status.success(), "the other operator ended with {status}");
    Ok(ExitCode::SUCCESS)
}

/// A policy, and what is done under it.
struct Subject {
    policy: String,
    text: String,
    operations: Vec<Operation>,
}

fn suite(args: &Args, outside: i32) -> Result<bool> {
    let catalogue = tools::catalogue()?;
    let mut subjects = Vec::new();
    for number in 0..args.policies {
        // A policy and its operations do not depend on those before it, so one can be repeated alone.
        let mut rng = Rng::new(args.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let policy = format!("/tmp/agree-{number}.yaml");
        let text = policies::policy(&mut rng, number, &catalogue);
        fs::write(&policy, &text).with_context(|| format!("write {policy}"))?;
        let operations = generate::operations(&mut rng, args.operations, outside);
        subjects.push(Subject {
            policy,
            text,
            operations,
        });
    }
    let only = |number: usize| args.only.is_empty() || args.only.contains(&number);
    let mut counts = Counts::default();
    let mut good = true;
    // The differences to the policy before, and what its kernel said to them.
    let mut before: Option<Tried> = None;
    for (number, subject) in subjects.iter().enumerate().filter(|(number, _)| only(*number)) {
        let start = Instant::now();
        let before_this = before.take().filter(|_| number > 0 && only(number - 1));
        let behind = before_this.as_ref().map_or(&[][..], |tried| &tried.differences);
        let next = subjects.get(number + 1).filter(|_| only(number + 1));
        let ahead = match next {
            Some(next) => difference::between(&subject.policy, &next.policy, outside, &mut counts)?,
            None => Vec::new(),
        };
        let witnesses: Vec<Operation> = behind
            .iter()
            .chain(&ahead)
            .map(|difference| difference.operation.clone())
            .collect();
        let mut wrong = Vec::new();
        let mut tried = None;
        match judge(subject, &witnesses, &mut counts, &mut wrong) {
            Ok(mut said) => {
                let of_ahead = said.split_off(behind.len());
                if let Some(before) = &before_this {
                    wrong.extend(difference::judge(before, &said, &mut counts)?);
                }
                tried = Some(Tried {
                    differences: ahead,
                    said: of_ahead,
                });
            }
            Err(error) => wrong.push(format!("{error:#}")),
        }
        before = tried;
        let detail = if wrong.is_empty() {
            String::new()
        } else {
            format!("{}; the policy is {}", wrong.join("; "), subject.text)
        };
        good &= say(&format!("policy {number}"), detail, start)?;
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

/// Compares one policy; the kernel's answers to the witnesses, free and under it.
fn judge(
    subject: &Subject,
    witnesses: &[Operation],
    counts: &mut Counts,
    wrong: &mut Vec<String>,
) -> Result<Vec<(Outcome, Outcome)>> {
    let (policy, operations) = (&subject.policy, &subject.operations);
    let renew = || stage::renew(operations).inspect(|()| difference::prepare(witnesses));
    renew()?;
    let free = tools::outcomes(None, witnesses, operations).context("without a policy")?;
    renew()?;
    let under = tools::outcomes(Some(policy), witnesses, operations).context("under the policy")?;
    let denied = tools::explain(policy, stage::OPERATOR, operations)?;
    let mut disagreements = Vec::new();
    for (place, operation) in operations.iter().enumerate() {
        let (free, under, denied) = (free.targeted[place], under.targeted[place], denied[place]);
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
            disagreements.push(format!(
                "{:?}: the kernel says {under:?}, explain says {said} to {:?}",
                operation.act, operation.asks
            ));
        }
    }
    counts.wrong += disagreements.len();
    let more = disagreements.len().saturating_sub(SAID);
    disagreements.truncate(SAID);
    if more > 0 {
        disagreements.push(format!("and {more} more"));
    }
    wrong.append(&mut disagreements);
    wrong.extend(tools::simulate(policy, &under.events, counts)?);
    Ok(free.plain.into_iter().zip(under.plain).collect())
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
