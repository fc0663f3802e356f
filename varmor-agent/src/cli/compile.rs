//! `varmor compile`: the artefact that an enforcer gets.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use serde_json::{Value, json};
use varmor_common::compile::apparmor;
use varmor_common::compile::bpf::{self, Artefact};
use varmor_common::policy::{self, Diagnostic, Document, Enforcers};
use varmor_common::profile::{self, Object, Profile, Rule};

use super::policies::{self, Policies};
use super::{Output, print};
use crate::enforcer::seccomp as filters;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Policy file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[arg(long, value_enum)]
    enforcer: Enforcer,
    /// File with the recording for `profileType: BehaviorModel`, if it is not in the file with the policy
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Enforcer {
    Bpf,
    Apparmor,
    Seccomp,
}

/// Any key will do: the real one is made at boot.
const KEY: u64 = 1;

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let policies = policies::load(&arguments.file)?.with_model(arguments.model.as_deref())?;
    let compile = match arguments.enforcer {
        Enforcer::Bpf => tables,
        Enforcer::Seccomp => filter,
        Enforcer::Apparmor => text_of_profile,
    };
    let mut answers = Vec::new();
    for document in &policies.documents {
        answers.push(compile(&policies, document, arguments.output)?);
    }
    print(&answers.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what is to be said; an error ends the command.
fn report(document: &Document, diagnostics: &[Diagnostic]) -> anyhow::Result<()> {
    for diagnostic in diagnostics {
        eprintln!("{}", policy::render(diagnostic));
    }
    if diagnostics.iter().any(Diagnostic::is_error) {
        bail!("{} does not compile", document.identity());
    }
    Ok(())
}

/// The profile in the OCI format. It has been through libseccomp, so that a runtime will take it.
fn filter(policies: &Policies, document: &Document, output: Output) -> anyhow::Result<String> {
    let compiled = policies.filter(document);
    report(document, &compiled.diagnostics)?;
    let profile = compiled
        .profile
        .context("the filter has no errors and is not there")?;
    let assembled = filters::assemble(&profile)?;
    let instructions = assembled.program()?.len();
    for name in assembled.skipped() {
        eprintln!(
            "note: the libseccomp of this machine does not know `{name}`: nothing is said about it there"
        );
    }
    if output == Output::Text {
        eprintln!(
            "{}: {instructions} instructions of classic BPF",
            document.identity()
        );
    }
    Ok(profile.to_json())
}

/// What the policy means; errors end the command.
fn profile_of(policies: &Policies, document: &Document) -> anyhow::Result<Profile> {
    let built = policies.build(document);
    report(document, &built.diagnostics)?;
    built
        .profile
        .context("the profile has no errors and is not there")
}

/// The text for `apparmor_parser`, for kernels that have every kind of rule.
fn text_of_profile(policies: &Policies, document: &Document, output: Output) -> anyhow::Result<String> {
    let profile = profile_of(policies, document)?;
    let artefact = apparmor::compile(&profile, apparmor::Features::ALL)?
        .with_context(|| format!("{} does not name the enforcer AppArmor", document.identity()))?;
    let unsupported = artefact.unsupported;
    Ok(match output {
        Output::Text => {
            for missing in &unsupported {
                eprintln!("not held: rule {}: {}", missing.rule, missing.reason);
            }
            artefact.text
        }
        Output::Json => {
            let missing: Vec<&str> = unsupported.iter().map(|missing| &*missing.reason).collect();
            let answer = json!({"profile": profile.name, "text": artefact.text, "unsupported": missing});
            serde_json::to_string_pretty(&answer)? + "\n"
        }
    })
}

/// The tables of the kernel, summarised.
fn tables(policies: &Policies, document: &Document, output: Output) -> anyhow::Result<String> {
    let profile = profile_of(policies, document)?
        .part_for(Enforcers::BPF)
        .with_context(|| format!("{} does not name the enforcer BPF", document.identity()))?;
    let artefact = bpf::compile(&profile, KEY)?;
    Ok(match output {
        Output::Text => text(&profile, &artefact),
        Output::Json => serde_json::to_string_pretty(&summary(&profile, &artefact))? + "\n",
    })
}

fn line(rule: &Rule) -> String {
    format!("{:?} {}  [{}]", rule.verdict, object(&rule.object), rule.id)
}

fn text(profile: &Profile, artefact: &Artefact) -> String {
    let mut text = format!("profile {}, mode {:?}\n", profile.name, profile.mode);
    for (name, size) in sizes(artefact) {
        let _ = writeln!(text, "  {name}: {size}");
    }
    for rule in &profile.rules {
        let _ = writeln!(text, "  {}", line(rule));
    }
    for (number, group) in profile.targets.iter().enumerate() {
        let _ = writeln!(text, "  target group {number}: {}", group.executables.join(", "));
        for rule in &group.rules {
            let _ = writeln!(text, "    {}", line(rule));
        }
    }
    for missing in &artefact.unsupported {
        let _ = writeln!(text, "  not held: rule {}: {}", missing.rule, missing.reason);
    }
    text
}

fn summary(profile: &Profile, artefact: &Artefact) -> Value {
    let rules: Vec<Value> = profile
        .in_force()
        .map(|rule| {
            json!({
                "id": rule.id,
                "verdict": format!("{:?}", rule.verdict).to_lowercase(),
                "object": object(&rule.object),
                "field": rule.origin.field,
            })
        })
        .collect();
    let sizes: serde_json::Map<String, Value> = sizes(artefact)
        .into_iter()
        .map(|(name, size)| (name.to_owned(), size.into()))
        .collect();
    json!({
        "profile": profile.name,
        "mode": format!("{:?}", profile.mode).to_lowercase(),
        "tables": sizes,
        "rules": rules,
        "unsupported": artefact.unsupported.iter().map(|missing| &missing.reason).collect::<Vec<_>>(),
    })
}

fn sizes(artefact: &Artefact) -> [(&'static str, usize); 9] {
    [
        ("states", artefact.states.len()),
        ("transitions", artefact.transitions.len()),
        ("name glob rows", artefact.component_globs.len()),
        ("mount source rows", artefact.mount_sources.len()),
        ("mount classes", artefact.descriptor.mount_classes as usize),
        ("network rows", artefact.net_rows.len()),
        ("network tests", artefact.net_tests.len()),
        ("points", artefact.points.len()),
        ("sites", artefact.sites.len()),
    ]
}

fn object(object: &Object) -> String {
    match object {
        Object::Path { pattern, access } => format!("{access} {pattern}"),
        Object::Capability(set) => {
            let names: Vec<&str> = (0..u64::BITS)
                .filter(|number| set.0 & (1 << number) != 0)
                .filter_map(varmor_common::rules::capability_name)
                .collect();
            format!("capabilities {}", names.join(", "))
        }
        Object::Socket(rule) => format!(
            "sockets of domains {}, types {}, protocols {}",
            numbers(&rule.domains),
            numbers(&rule.types),
            numbers(&rule.protocols)
        ),
        Object::Egress(rule) => format!(
            "connections to {}",
            destination(rule.network.as_ref(), &rule.ports)
        ),
        Object::PodEgress(ports) => format!("connections to the pod's own addresses{}", at_ports(ports)),
        Object::Ingress(rule) => format!(
            "local addresses {}",
            destination(rule.network.as_ref(), &rule.ports)
        ),
        Object::Ptrace(rule) => format!("ptrace {:#x}, {:?}", rule.access.0, rule.scope),
        Object::Mount(rule) => format!(
            "mounts of {}, type {}, with {:#x} or without {:#x}",
            rule.source,
            rule.fstype.as_deref().unwrap_or("any"),
            rule.any,
            rule.none
        ),
        Object::Device(rule) => {
            let number =
                |number: Option<u32>| number.map_or_else(|| "*".to_owned(), |number| number.to_string());
            format!(
                "{:?} devices {}:{}",
                rule.kind,
                number(rule.major),
                number(rule.minor)
            )
        }
        Object::UserNamespace => "creating user namespaces".to_owned(),
    }
}

/// An empty list is every value.
fn numbers(list: &[u32]) -> String {
    if list.is_empty() {
        return "any".to_owned();
    }
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn destination(network: Option<&impl ToString>, ports: &[profile::PortRange]) -> String {
    let network = network.map_or_else(|| "anywhere".to_owned(), ToString::to_string);
    network + &at_ports(ports)
}

fn at_ports(ports: &[profile::PortRange]) -> String {
    if ports.is_empty() {
        return ", any port".to_owned();
    }
    let ports: Vec<String> = ports
        .iter()
        .map(|range| format!("{}-{}", range.first, range.last))
        .collect();
    format!(", ports {}", ports.join(" "))
}
