//! What policies mean: policy text in, rules out.

mod allow_list;
mod builtin;
mod compiled;
mod modes;
mod raw;

use ipnet::IpNet;

use super::{Built, Disk, NodeFacts, Object, PortRange, Profile, Verdict, build};
use crate::policy::{load, render};

/// Builds a policy whose `spec.policy` is this YAML.
fn built(policy: &str) -> Built {
    let text = text(policy);
    let loaded = load("p.yaml", text.as_bytes());
    assert!(
        !loaded.has_errors(),
        "{:?}\n{text}",
        loaded.diagnostics.iter().map(render).collect::<Vec<_>>()
    );
    let facts = NodeFacts {
        disk_devices: [("vda", 0), ("vda1", 1)]
            .map(|(name, minor)| Disk {
                name: name.to_owned(),
                major: 254,
                minor,
            })
            .to_vec(),
    };
    build(&loaded.documents[0], &facts)
}

/// A policy file whose `spec.policy` is this YAML.
fn text(policy: &str) -> String {
    let policy = indented(policy, "    ");
    format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {{name: Web, namespace: demo}}\nspec:\n  target: \
         {{kind: Pod, name: web}}\n  policy:\n{policy}"
    )
    .replace("name: Web", "name: web")
}

/// What is said about a policy file that is not even read.
fn refused(policy: &str) -> Vec<String> {
    let loaded = load("p.yaml", text(policy).as_bytes());
    assert!(loaded.documents.is_empty(), "the policy was read");
    loaded.diagnostics.iter().map(render).collect()
}

fn profile(policy: &str) -> Profile {
    let built = built(policy);
    built.profile.unwrap_or_else(|| panic!("{:?}", built.diagnostics))
}

/// A policy of the mode EnhanceProtect with these fields of `enhanceProtect`, on top of AlwaysAllow.
fn enhance(fields: &str) -> String {
    let fields = indented(fields, "  ");
    format!("enforcer: BPF\nmode: EnhanceProtect\nenhanceProtect:\n  privileged: true\n{fields}")
}

fn indented(text: &str, by: &str) -> String {
    text.lines().flat_map(|line| [by, line, "\n"]).collect()
}

/// The objects of the rules, as text.
fn objects(profile: &Profile) -> Vec<String> {
    profile.rules.iter().map(|rule| object(&rule.object)).collect()
}

fn object(object: &Object) -> String {
    match object {
        Object::Path { pattern, access } => format!("{access} {pattern}"),
        Object::Capability(set) => format!("cap {:x}", set.0),
        Object::Socket(rule) => format!("socket {:?} {:?} {:?}", rule.domains, rule.types, rule.protocols),
        Object::Egress(rule) => format!("egress {}", network(rule.network, &rule.ports)),
        Object::PodEgress(ports) => format!("egress pod {}", network(None, ports)),
        Object::Ingress(rule) => format!("ingress {}", network(rule.network, &rule.ports)),
        Object::Ptrace(rule) => format!("ptrace {:x} {:?}", rule.access.0, rule.scope),
        Object::Mount(rule) => {
            format!(
                "mount {} {} {:x} {:x}",
                rule.source,
                rule.fstype.as_deref().unwrap_or("*"),
                rule.any,
                rule.none
            )
        }
        Object::Device(rule) => {
            let number = |part: Option<u32>| part.map_or("*".to_owned(), |number| number.to_string());
            format!(
                "device {:?} {}:{} {:x}",
                rule.kind,
                number(rule.major),
                number(rule.minor),
                rule.access.0
            )
        }
        Object::UserNamespace => "userns".to_owned(),
    }
}

fn network(network: Option<IpNet>, ports: &[PortRange]) -> String {
    let network = network.map_or("*".to_owned(), |network| network.to_string());
    let ports: Vec<String> = ports
        .iter()
        .map(|range| format!("{}-{}", range.first, range.last))
        .collect();
    format!("{network} {}", ports.join(",")).trim_end().to_owned()
}

fn verdicts(profile: &Profile) -> Vec<Verdict> {
    profile.rules.iter().map(|rule| rule.verdict).collect()
}

/// What is said about the policy.
fn said(policy: &str) -> Vec<String> {
    built(policy).diagnostics.iter().map(render).collect()
}
