//! `varmor rules`: the catalogue of built-in rules.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use varmor_common::analysis::catalogue::{self, Details, Entry};
use varmor_common::rules;

use super::{Output, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Every built-in rule, with the enforcers that can hold it
    List {
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// What one rule is for and what it contributes to each enforcer
    Show {
        #[arg(value_name = "ID")]
        id: String,
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let text = match &arguments.command {
        Command::List { output } => {
            let entries = catalogue::entries();
            match output {
                Output::Text => list(&entries),
                Output::Json => serde_json::to_string_pretty(&entries)? + "\n",
            }
        }
        Command::Show { id, output } => {
            let Some(details) = catalogue::details(id) else {
                match rules::nearest_id(id) {
                    Some(near) => bail!("there is no built-in rule `{id}`; did you mean `{near}`?"),
                    None => bail!("there is no built-in rule `{id}`; `varmor rules list` shows all"),
                }
            };
            match output {
                Output::Text => show(&details),
                Output::Json => serde_json::to_string_pretty(&details)? + "\n",
            }
        }
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn list(entries: &[Entry]) -> String {
    let width = entries.iter().map(|entry| entry.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut category = "";
    for entry in entries {
        if entry.category != category {
            category = entry.category;
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{category} ({})", entry.list);
        }
        let enforcers = entry.enforcers.join(" ");
        let _ = writeln!(
            text,
            "  {:<width$}  {enforcers:<20}  {}",
            entry.id, entry.description
        );
    }
    text
}

fn show(details: &Details) -> String {
    let Details {
        entry,
        bpf,
        bpf_unsupported,
        seccomp,
        seccomp_limit,
    } = details;
    let mut text = format!("{}: {}\n", entry.id, entry.description);
    if !entry.aliases.is_empty() {
        let _ = writeln!(text, "also written: {}", entry.aliases.join(", "));
    }
    let _ = writeln!(text, "category: {}, in `{}`", entry.category, entry.list);
    let _ = writeln!(text, "enforcers: {}", entry.enforcers.join(", "));
    for (name, parts, note) in [("BPF", bpf, bpf_unsupported), ("Seccomp", seccomp, seccomp_limit)] {
        if parts.is_empty() && note.is_none() {
            continue;
        }
        let _ = writeln!(text, "{name}:");
        for part in parts {
            let _ = writeln!(text, "  {part}");
        }
        if let Some(note) = note {
            let _ = writeln!(text, "  {note}");
        }
    }
    text
}
