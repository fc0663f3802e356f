//! Measures operations in this process: batches between two looks at the clock.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    operations::{self, Operation},
    plan, priority, programs,
    protocol::{Clock, Line, Work},
    raw, say,
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Only this operation, without measuring it
    #[arg(long, requires = "repeat")]
    only: Option<String>,
    /// How often
    #[arg(long)]
    repeat: Option<u32>,
    /// Whoever started this makes it a real-time task: some policies do not allow it to do so itself
    #[arg(long)]
    ask_for_priority: bool,
}

/// Guest time until what loading programs and profiles left to do is done.
const QUIET: Duration = Duration::from_secs(2);
/// Lets the kernel's own threads run between batches, so that what they do later is not measured: freeing memory
/// after a grace period, above all.
const PAUSE: Duration = Duration::from_millis(40);
/// Batches that are not kept; of work so large that few are measured, only as many as are kept.
const WARM_UP: u32 = 8;

pub(super) fn measure(args: &Args) -> Result<()> {
    if let (Some(name), Some(repeat)) = (&args.only, args.repeat) {
        let mut operation = operations::prepare(name)?;
        for _ in 0..repeat {
            operation()?;
        }
        return Ok(());
    }
    let plan = plan()?;
    if args.ask_for_priority {
        priority::ask()?;
    } else if plan.clock == Clock::Instructions {
        raw::become_real_time().context("become a real-time task")?;
    }
    if plan.clock == Clock::Instructions {
        sleep(QUIET);
    }
    for work in &plan.operations {
        let measured = if programs::is_one(work) {
            programs::measure(work, plan.clock)
        } else {
            batches(work)
        };
        let line = match measured {
            Ok(batches) => Line::Sample {
                system: String::new(),
                operation: work.name.clone(),
                rounds: work.rounds,
                batches,
            },
            Err(error) => Line::Problem {
                system: String::new(),
                operation: Some(work.name.clone()),
                text: format!("{error:#}"),
            },
        };
        say(&line)?;
    }
    Ok(())
}

pub(super) fn batches(work: &Work) -> Result<Vec<u64>> {
    let mut operation = operations::prepare(&work.name)?;
    for _ in 0..WARM_UP.min(work.batches) {
        sleep(PAUSE);
        batch(&mut operation, work.rounds)?;
    }
    (0..work.batches)
        .map(|_| {
            sleep(PAUSE);
            batch(&mut operation, work.rounds)
        })
        .collect()
}

/// Instructions of so many rounds.
fn batch(operation: &mut Operation, rounds: u32) -> Result<u64> {
    let start = Instant::now();
    for _ in 0..rounds {
        operation()?;
    }
    Ok(u64::try_from(start.elapsed().as_nanos())?)
}
