//! `varmor exercise`: an enforcer in one process, driven by JSON lines on standard input, one answer each.
//!
//! The guest suites use it: ten thousand updates or a thousand containers go through the enforcer's own interface,
//! without a container runtime, and the process can be killed at any moment.

use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use varmor_common::profile::Profile;

use super::print;
use super::run::policy_file;
use crate::containers::cgroup::Hierarchy;
use crate::enforcer::bpf::{self, BpfEnforcer, usage};
use crate::enforcer::{Adoption, CgroupId, Enforcer as _, Resident as _};
use crate::events::Event;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[arg(long, value_name = "DIR", default_value = "/run/varmor-exercise")]
    state_dir: PathBuf,
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf/varmor-exercise")]
    bpffs: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Step {
    /// Loads the policy of a file, under another name if one is given.
    Apply {
        file: PathBuf,
        name: Option<String>,
    },
    /// Applies the policies of the files in turn, all under the name, so often.
    Hammer {
        files: Vec<PathBuf>,
        name: String,
        times: usize,
    },
    Remove {
        profile: String,
    },
    /// Binds cgroup directories to profiles, each to the next one.
    Protect {
        cgroups: Vec<PathBuf>,
        profiles: Vec<String>,
    },
    Release {
        cgroups: Vec<PathBuf>,
    },
    /// Releases cgroups whose directories are gone, by their ids.
    Forget {
        ids: Vec<u64>,
    },
    /// Takes the events out of the ring; keeps those about a path with this beginning.
    Events {
        path: String,
    },
    Retire,
    State,
    Uninstall,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = bpf::Options {
        bpffs: arguments.bpffs.clone(),
        state_dir: arguments.state_dir.clone(),
    };
    let start = Instant::now();
    let mut enforcer = bpf::open(&options).context("start the BPF enforcer")?;
    let how = match enforcer.start() {
        bpf::Start::Loaded => "loaded",
        bpf::Start::Adopted => "adopted",
    };
    answer(start, Ok(json!({ "start": how })))?;
    for line in io::stdin().lock().lines() {
        let line = line.context("read a step")?;
        let step: Step = serde_json::from_str(&line).with_context(|| format!("read the step `{line}`"))?;
        let start = Instant::now();
        if matches!(step, Step::Uninstall) {
            let outcome = enforcer.uninstall();
            answer(start, outcome.map(|()| Value::Null).map_err(Into::into))?;
            return Ok(ExitCode::SUCCESS);
        }
        answer(start, carry_out(&mut enforcer, step))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Answer {
    ms: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    value: Value,
}

fn answer(start: Instant, outcome: anyhow::Result<Value>) -> anyhow::Result<()> {
    let (value, error) = match outcome {
        Ok(Value::Null) => (json!({}), None),
        Ok(value) => (value, None),
        Err(error) => (json!({}), Some(format!("{error:#}"))),
    };
    let answer = Answer {
        ms: start.elapsed().as_millis(),
        error,
        value,
    };
    print(&(serde_json::to_string(&answer)? + "\n"))
}

fn carry_out(enforcer: &mut BpfEnforcer, step: Step) -> anyhow::Result<Value> {
    match step {
        Step::Apply { file, name } => {
            let applied = enforcer.apply(&profile(&file, name.as_deref())?)?;
            Ok(json!({ "slot": applied.slot, "generation": applied.generation }))
        }
        Step::Hammer { files, name, times } => {
            let profiles: Vec<Profile> = files
                .iter()
                .map(|file| profile(file, Some(&name)))
                .collect::<anyhow::Result<_>>()?;
            let mut generation = 0;
            for profile in profiles.iter().cycle().take(times) {
                generation = enforcer.apply(profile)?.generation;
            }
            Ok(json!({ "updates": times, "generation": generation }))
        }
        Step::Remove { profile } => Ok(enforcer.remove(&profile).map(|()| Value::Null)?),
        Step::Protect { cgroups, profiles } => {
            for (cgroup, profile) in cgroups.iter().zip(profiles.iter().cycle()) {
                enforcer.protect(id(cgroup)?, profile, Adoption::Running)?;
            }
            Ok(json!({ "cgroups": cgroups.len() }))
        }
        Step::Release { cgroups } => {
            for cgroup in &cgroups {
                enforcer.release(id(cgroup)?)?;
            }
            Ok(Value::Null)
        }
        Step::Forget { ids } => {
            for id in ids {
                enforcer.release(CgroupId(id))?;
            }
            Ok(Value::Null)
        }
        Step::Events { path } => events(enforcer, &path),
        Step::Retire => Ok(json!({ "versions": enforcer.retire_other_versions()? })),
        Step::State => Ok(json!({
            "profiles": enforcer.profiles()?,
            "bindings": enforcer.bindings()?.len(),
            "activity": enforcer.activity()?,
            "counters": enforcer.counters()?,
            "hooks": enforcer.hooks(),
            "usage": usage::measure(),
        })),
        Step::Uninstall => Ok(Value::Null),
    }
}

fn profile(file: &Path, name: Option<&str>) -> anyhow::Result<Profile> {
    let mut profile = policy_file::profile(file, None)?;
    if let Some(name) = name {
        name.clone_into(&mut profile.name);
    }
    Ok(profile)
}

fn id(cgroup: &Path) -> anyhow::Result<CgroupId> {
    Ok(Hierarchy::find()?.id(cgroup)?)
}

fn events(enforcer: &mut BpfEnforcer, path: &str) -> anyhow::Result<Value> {
    let mut pending = Vec::new();
    enforcer.drain(&mut |event| pending.push(event))?;
    let mut found = Vec::new();
    for raw in &pending {
        let event = Event::try_from(raw)?;
        let value = serde_json::to_value(&event.detail)?;
        if value["path"].as_str().is_some_and(|text| text.starts_with(path)) {
            let resolution = enforcer.resolve(&raw.head);
            found.push(json!({
                "event": value,
                "rule": resolution.rule,
                "profile": resolution.profile,
                "executable": event.executable,
                "ancestors": event.process.ancestors,
                "repeated": raw.head.repeated,
                "bytes": size_of_val(&raw.head) + raw.path.len() + raw.executable.len(),
            }));
        }
    }
    Ok(json!({ "drained": pending.len(), "found": found }))
}
