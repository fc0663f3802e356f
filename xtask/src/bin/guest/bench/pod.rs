//! Operations in the time of a container that somebody else has started, under whatever holds there.

use std::{thread::sleep, time::Duration};

use anyhow::{Context, Result, ensure};

use super::{
    measure,
    protocol::{Line, Work},
    say, stage,
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Operations and how often they are repeated between two looks at the clock: `NAME:ROUNDS`
    #[arg(required = true)]
    work: Vec<String>,
    /// Looks at the clock
    #[arg(long, default_value_t = 5)]
    batches: u32,
}

/// Between operations: what one has left to be done is not in the next.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Args) -> Result<()> {
    stage::files()?;
    for work in &args.work {
        let work = parse(work, args.batches)?;
        sleep(PAUSE);
        let line = match measure::batches(&work) {
            Ok(batches) => Line::Sample {
                system: String::new(),
                operation: work.name,
                rounds: work.rounds,
                batches,
            },
            Err(error) => Line::Problem {
                system: String::new(),
                operation: Some(work.name),
                text: format!("{error:#}"),
            },
        };
        say(&line)?;
    }
    Ok(())
}

fn parse(text: &str, batches: u32) -> Result<Work> {
    let (name, rounds) = text
        .split_once(':')
        .with_context(|| format!("`{text}` is not NAME:ROUNDS"))?;
    let rounds = rounds
        .parse()
        .with_context(|| format!("the rounds of `{text}`"))?;
    ensure!(rounds > 0 && batches > 0, "`{text}` is measured zero times");
    Ok(Work {
        name: name.to_owned(),
        rounds,
        batches,
        amount: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn work_is_a_name_and_rounds() {
        let work = parse("open-9:200", 5).unwrap();
        assert_eq!(
            (work.name.as_str(), work.rounds, work.batches),
            ("open-9", 200, 5)
        );
        for wrong in ["open-9", "open-9:", "open-9:0", "open-9:many"] {
            assert!(parse(wrong, 5).is_err(), "{wrong}");
        }
    }
}
