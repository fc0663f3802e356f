//! `varmor diff`: what becomes allowed and denied when one policy file replaces another.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use varmor_common::analysis::{Comparison, Direction, compare};

use super::style::{Tone, paint};
use super::{Output, policies, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[arg(value_name = "OLD")]
    old: PathBuf,
    #[arg(value_name = "NEW")]
    new: PathBuf,
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// The exit code is 0 whether there are differences or not, because a difference is what one changes a policy for.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let comparison = compare(
        &policies::judge(&arguments.old)?,
        &policies::judge(&arguments.new)?,
    );
    print(&match arguments.output {
        Output::Text => text(&comparison),
        Output::Json => serde_json::to_string_pretty(&comparison)? + "\n",
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (direction, title, tone) in [
        (Direction::NewlyAllowed, "newly allowed", Tone::Bad),
        (Direction::NewlyDenied, "newly denied", Tone::Good),
    ] {
        for change in comparison
            .changes
            .iter()
            .filter(|change| change.direction == direction)
        {
            let rule = change.rule.as_deref().unwrap_or("no rule");
            let verb = match direction {
                Direction::NewlyAllowed => "was denied by",
                Direction::NewlyDenied => "denied by",
            };
            let title = paint(title, tone);
            let _ = writeln!(
                text,
                "{title}: {}, for example `{}` ({verb} {rule})",
                change.kind, change.witness
            );
        }
    }
    for kind in &comparison.unfinished {
        let _ = writeln!(
            text,
            "{kind}: the policies are too large to be compared to the end"
        );
    }
    if text.is_empty() {
        text.push_str("no difference was found\n");
    }
    text
}
