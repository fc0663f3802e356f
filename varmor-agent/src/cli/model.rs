//! `varmor model`: what was learned, and the policy that holds a workload to it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use varmor_common::policy::{ArmorProfileModel, Enforcers, Losses, Observations};
use varmor_common::profile::profile_name;

use super::learn::held_out_text;
use super::models;
use super::{Output, print};
use crate::observe::yaml;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Say what was seen, what was guessed from it and why, and how good the guesses are
    Show {
        /// File with the model
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print a policy of the mode `DefenseInDepth` with the model: a file that every command takes
    Policy(PolicyArguments),
}

#[derive(Debug, clap::Args)]
pub(super) struct PolicyArguments {
    /// File with the model
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The enforcers that hold it, such as `AppArmorBPFSeccomp`
    #[arg(long, value_name = "NAMES", default_value = "BPF")]
    enforcer: String,
    /// The workload: kind and name
    #[arg(long, value_name = "KIND/NAME", default_value = "Deployment/workload")]
    target: String,
    /// Log what would be refused, and refuse nothing
    #[arg(long)]
    allow_violations: bool,
}

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let text = match command {
        Command::Show { file, output } => {
            let model = one(file)?;
            match output {
                Output::Text => describe(&model),
                Output::Json => serde_json::to_string_pretty(&model)? + "\n",
            }
        }
        Command::Policy(arguments) => {
            let model = one(&arguments.file)?;
            let policy = serde_saphyr::to_string(&policy(&model, arguments)?).context("write the policy")?;
            format!("{policy}---\n{}", yaml(&model)?)
        }
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn one(file: &Path) -> anyhow::Result<ArmorProfileModel> {
    let mut models = models::read(file)?;
    if models.len() > 1 {
        bail!(
            "{} holds {} models; put the one into a file of its own",
            file.display(),
            models.len()
        );
    }
    models.pop().context("the file holds no model")
}

fn policy(model: &ArmorProfileModel, arguments: &PolicyArguments) -> anyhow::Result<Value> {
    let namespace = model.metadata.namespace.as_deref();
    let name = model.metadata.name.as_deref().unwrap_or_default();
    let prefix = profile_name(namespace, "");
    let policy = name.strip_prefix(&prefix).with_context(|| {
        format!(
            "the model is named `{name}`; the model of a policy is named `{prefix}` and the policy's name"
        )
    })?;
    let (kind, target) = arguments
        .target
        .split_once('/')
        .context("--target is written as KIND/NAME, such as Deployment/web")?;
    let enforcer: Enforcers = arguments.enforcer.parse()?;
    let mut defense = json!({"allowViolations": arguments.allow_violations});
    for (one, field) in [
        (Enforcers::APPARMOR, "appArmor"),
        (Enforcers::BPF, "bpf"),
        (Enforcers::SECCOMP, "seccomp"),
    ] {
        if enforcer.contains(one) {
            defense[field] = json!({"profileType": "BehaviorModel"});
        }
    }
    let mut metadata = json!({"name": policy});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    let kind_of_policy = if namespace.is_some() {
        "VarmorPolicy"
    } else {
        "VarmorClusterPolicy"
    };
    Ok(json!({
        "apiVersion": "crd.varmor.org/v1beta1",
        "kind": kind_of_policy,
        "metadata": metadata,
        "spec": {
            "target": {"kind": kind, "name": target},
            "policy": {
                "enforcer": enforcer.to_string(),
                "mode": "DefenseInDepth",
                "defenseInDepth": defense,
            },
        },
    }))
}

/// Losses in words; none if there are none.
pub(super) fn describe_losses(losses: &Losses) -> Vec<String> {
    [
        (losses.lost, "events found no room in the kernel's ring"),
        (losses.limited, "events were above the rate of the profile"),
        (losses.unreadable, "events could not be read"),
        (
            losses.overflow,
            "events were of more different operations than a recording holds",
        ),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("incomplete: {count} {what}"))
    .collect()
}

fn describe(model: &ArmorProfileModel) -> String {
    let data = model.spec.data.clone().unwrap_or_default();
    let result = data.dynamic_result.unwrap_or_default();
    let learning = data.learning.unwrap_or_default();
    let mut text = format!(
        "{}: learned from {} events\n",
        model.metadata.name.as_deref().unwrap_or_default(),
        learning.events
    );
    for line in describe_losses(&learning.losses) {
        let _ = writeln!(text, "{line}");
    }
    observations(&result.bpf.unwrap_or_default(), &mut text);
    if let Some(seccomp) = &result.seccomp {
        let _ = writeln!(
            text,
            "\nsystem calls ({}): {}",
            seccomp.syscalls.len(),
            seccomp.syscalls.join(" ")
        );
    }
    if !learning.generalisations.is_empty() {
        text.push_str("\npatterns:\n");
    }
    for made in &learning.generalisations {
        let _ = writeln!(
            text,
            "  {}\n    {}, seen in {} forms: {}",
            made.to, made.from, made.examples, made.why
        );
    }
    for held_out in &learning.held_out {
        let _ = write!(text, "\n{}", held_out_text(held_out));
    }
    text
}

fn observations(seen: &Observations, text: &mut String) {
    let _ = writeln!(text, "\nprograms: {}", seen.executions.join(" "));
    let _ = writeln!(text, "capabilities: {}", seen.capabilities.join(" "));
    let _ = writeln!(text, "files:");
    for file in &seen.files {
        let _ = writeln!(text, "  {} {}", file.path, file.permissions.join(","));
    }
    if let Some(network) = &seen.network {
        for socket in &network.sockets {
            let _ = writeln!(
                text,
                "socket: {} {} {}",
                socket.domain, socket.kind, socket.protocol
            );
        }
        let peers = [
            ("connects to", &network.egresses),
            ("listens on", &network.ingresses),
        ];
        for (what, peers) in peers {
            for peer in peers {
                let ports: Vec<String> = peer.ports.iter().map(ToString::to_string).collect();
                let ports = if ports.is_empty() {
                    "every port".to_owned()
                } else {
                    ports.join(" ")
                };
                let _ = writeln!(text, "{what}: {} {ports}", peer.ip);
            }
        }
    }
    for mount in &seen.mounts {
        let _ = writeln!(
            text,
            "mount: {} {} {}",
            mount.path,
            mount.kind,
            mount.flags.join(",")
        );
    }
    for ptrace in &seen.ptraces {
        let place = if ptrace.external { "outside" } else { "inside" };
        let _ = writeln!(text, "ptrace: {} {place}", ptrace.permissions.join(","));
    }
    for what in &seen.unhandled {
        let _ = writeln!(text, "not in the model: {what}");
    }
}
