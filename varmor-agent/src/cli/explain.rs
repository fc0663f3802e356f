//! `varmor explain`: what a policy decides about an operation, why, and what would change it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use varmor_common::analysis::{Cause, Decision, Judge, Operation, Outcome};

use super::style::{Tone, paint};
use super::{Output, policies, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Policy file; all its policies hold together
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What the workload does: `open r /etc/shadow`, `exec /bin/sh`, `connect 192.0.2.1:80`, `bind [::]:80`,
    /// `socket inet stream tcp`, `capable net_raw`, `mount proc type=proc`, `umount /mnt`, `ptrace read outside`,
    /// `userns`, `syscall unshare 0x10000000`; may be given several times
    #[arg(long, required_unless_present = "operations", value_name = "OPERATION")]
    operation: Vec<Operation>,
    /// File with one operation in each line; `-` is standard input; the answers then are JSON lines
    #[arg(long, value_name = "FILE", conflicts_with_all = ["operation", "output"])]
    operations: Option<PathBuf>,
    /// The executable of the task, for rules with `targets`
    #[arg(long, value_name = "PATH")]
    executable: Option<String>,
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let judge = policies::judge(&arguments.file)?;
    let domain = judge.domain(arguments.executable.as_deref());
    if let Some(file) = &arguments.operations {
        return batch(&judge, domain, file);
    }
    let decisions: Vec<Decision> = arguments
        .operation
        .iter()
        .map(|operation| judge.explain(operation, domain))
        .collect();
    print(&match arguments.output {
        Output::Text => decisions.iter().map(text).collect::<Vec<_>>().join("\n"),
        Output::Json => serde_json::to_string_pretty(&decisions)? + "\n",
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Answers many questions; every line of the file gets one line.
fn batch(judge: &Judge, domain: u32, file: &Path) -> anyhow::Result<ExitCode> {
    let name = file.display();
    let bytes = policies::read(file).with_context(|| format!("read the operations {name}"))?;
    let text = String::from_utf8(bytes).with_context(|| format!("read the operations {name}"))?;
    let mut answers = String::new();
    for (number, line) in text.lines().enumerate() {
        let operation: Operation = line
            .parse()
            .with_context(|| format!("line {} of {name}", number + 1))?;
        answers += &serde_json::to_string(&judge.explain(&operation, domain))?;
        answers.push('\n');
    }
    print(&answers)?;
    Ok(ExitCode::SUCCESS)
}

fn text(decision: &Decision) -> String {
    let word = match decision.outcome {
        Outcome::Allowed => paint("allowed", Tone::Good),
        Outcome::Audited => paint("allowed and logged", Tone::Good),
        Outcome::Denied => paint("denied", Tone::Bad),
    };
    let mut text = format!("{}: {word}\n", decision.operation);
    match &decision.decided_by {
        Some(cause) => {
            let _ = writeln!(text, "  by {}", name(cause));
        }
        None => text.push_str("  no rule speaks about it\n"),
    }
    for other in &decision.others {
        let _ = writeln!(text, "  also {}", name(other));
    }
    let _ = writeln!(text, "  {}", paint(&decision.change, Tone::Quiet));
    text
}

fn name(cause: &Cause) -> String {
    let place = if cause.policy.is_empty() {
        String::new()
    } else {
        format!(", {} of {}", cause.field, cause.policy)
    };
    format!("{} ({}{place})", cause.rule, cause.wants)
}
