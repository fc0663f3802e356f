//! `varmor learn`: what a workload does, written as an `ArmorProfileModel`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use varmor_common::model::{Recording, Settings};
use varmor_common::policy::{ArmorProfileModel, HeldOut};
use varmor_common::profile::profile_name;

use super::model::describe_losses;
use super::run::record;
use super::style::{Tone, paint};
use super::{Output, print};
use crate::observe::{Learner, yaml};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// File for the model
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Name of the policy that the model is for
    #[arg(long, default_value = "learned")]
    name: String,
    /// Namespace of that policy; none for a cluster policy
    #[arg(long)]
    namespace: Option<String>,
    /// End the command after so many seconds
    #[arg(long, value_name = "SECONDS", conflicts_with = "events")]
    duration: Option<u64>,
    /// Learn from events that were recorded by a policy of the mode `BehaviorModeling`: lines of violations.log
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    events: Option<PathBuf>,
    /// Only events of this profile
    #[arg(long, value_name = "NAME", requires = "events")]
    profile: Option<String>,
    /// So many percent of the recording are held out once to see how well the rest foretells them
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u8).range(0..=90))]
    hold_out: u8,
    /// So many names of one folder, used in the same way, stand for all its names
    #[arg(long, value_name = "NUMBER", default_value_t = Settings::default().siblings)]
    siblings: usize,
    /// How the report is printed; the model is always YAML
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// The command with its arguments; nothing is refused to it
    #[arg(last = true, required_unless_present = "events", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What a log does not say about itself.
const NOT_IN_A_LOG: &str =
    "system calls, and events that the agent could not write: `varmor status` counts those";

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (recording, code) = match &arguments.events {
        Some(path) => (read(path, arguments.profile.as_deref())?, ExitCode::SUCCESS),
        None => record::record(&arguments.command, arguments.duration.map(Duration::from_secs))?,
    };
    if recording.is_empty() {
        bail!("nothing was recorded; is the profile of the recording that of the workload?");
    }
    let model = learn(arguments, &recording)?;
    let text = yaml(&model)?;
    std::fs::write(&arguments.out, text).with_context(|| format!("write {}", arguments.out.display()))?;
    print(&match arguments.output {
        Output::Text => report(&model, &arguments.out),
        Output::Json => {
            let data = model.spec.data.unwrap_or_default();
            serde_json::to_string_pretty(&data.learning)? + "\n"
        }
    })?;
    Ok(code)
}

/// Events of a log, in the order in which they were written.
fn read(path: &Path, profile: Option<&str>) -> anyhow::Result<Recording> {
    let name = path.display();
    let file = std::fs::File::open(path).with_context(|| format!("open the events {name}"))?;
    let mut recording = Recording::default();
    for (number, line) in (1..).zip(std::io::BufReader::new(file).lines()) {
        let line: String = line.with_context(|| format!("read line {number} of {name}"))?;
        if line.trim().is_empty() || !super::simulate::is_of(profile, &line) {
            continue;
        }
        recording
            .add(&line)
            .with_context(|| format!("line {number} of {name}"))?;
    }
    if !recording.is_empty() {
        recording.note(NOT_IN_A_LOG.to_owned(), 0);
    }
    Ok(recording)
}

fn learn(arguments: &Arguments, recording: &Recording) -> anyhow::Result<ArmorProfileModel> {
    let learner = Learner {
        settings: Settings {
            siblings: arguments.siblings,
            ..Settings::default()
        },
        hold_out: arguments.hold_out,
    };
    let name = profile_name(arguments.namespace.as_deref(), &arguments.name);
    learner.learn(
        recording,
        &name,
        arguments.namespace.as_deref().unwrap_or_default(),
    )
}

fn report(model: &ArmorProfileModel, out: &Path) -> String {
    let data = model.spec.data.clone().unwrap_or_default();
    let learning = data.learning.unwrap_or_default();
    let bpf = data.dynamic_result.unwrap_or_default().bpf.unwrap_or_default();
    let mut text = String::new();
    let (files, patterns) = (bpf.files.len(), learning.generalisations.len());
    let _ = writeln!(
        text,
        "{} events: {files} rules about files, {patterns} of them patterns; written to {}",
        learning.events,
        out.display()
    );
    for line in describe_losses(&learning.losses) {
        let _ = writeln!(text, "{}", paint(&line, Tone::Bad));
    }
    for what in &bpf.unhandled {
        let _ = writeln!(text, "not in the model: {what}");
    }
    for held_out in &learning.held_out {
        text.push_str(&held_out_text(held_out));
    }
    let _ = writeln!(text, "`varmor model show {}` explains it", out.display());
    text
}

/// How often the learned profile would have been wrong.
pub(super) fn held_out_text(held_out: &HeldOut) -> String {
    let mut text = format!("held out {}: ", held_out.part);
    if held_out.events == 0 {
        text.push_str("nothing happened in it\n");
        return text;
    }
    let _ = writeln!(
        text,
        "{} of {} events ({:.2} %), {} of {} operations would have been refused",
        held_out.denied_events,
        held_out.events,
        held_out.percent,
        held_out.denied_operations,
        held_out.operations
    );
    for operation in &held_out.denied {
        let _ = writeln!(text, "  {operation}");
    }
    text
}
