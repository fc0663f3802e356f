//! Built-in rules -> rules of the profile.

use std::net::IpAddr;

use super::build::Builder;
use super::{Access, EgressRule, MountRule, Object, SocketRule, Verdict};
use crate::abi::MOUNT_UMOUNT;
use crate::policy::Severity;
use crate::rules::{self, Bpf, Contribution, DiskUse};

/// Adds the built-in rule `id`, which is written at `field`.
pub(super) fn add(builder: &mut Builder<'_>, id: &str, field: &str, verdict: Verdict) {
    let Some(rule) = rules::find(id) else {
        builder.report(
            Severity::Error,
            field,
            format!("there is no built-in rule `{id}`"),
            "",
        );
        return;
    };
    match rule.bpf {
        Bpf::Contributes(contributions) => {
            for contribution in contributions {
                contribute(builder, contribution, rule.id, field, verdict);
            }
        }
        Bpf::Unsupported(reason) => {
            let message = format!(
                "the BPF enforcer cannot hold the rule `{}`; it has no effect",
                rule.id
            );
            builder.report(Severity::Warning, field, message, reason);
        }
    }
}

/// Adds one part of the rule `id`.
pub(super) fn contribute(
    builder: &mut Builder<'_>,
    part: &Contribution,
    id: &str,
    field: &str,
    verdict: Verdict,
) {
    let object = match part {
        Contribution::Path(pattern, access) => Object::Path {
            pattern: (*pattern).to_owned(),
            access: *access,
        },
        Contribution::Capabilities(set) => Object::Capability(*set),
        Contribution::Socket(part) => Object::Socket(SocketRule {
            domains: part.domains.to_vec(),
            types: Vec::new(),
            protocols: part.protocols.to_vec(),
        }),
        Contribution::Address(text) => {
            let address: IpAddr = text
                .parse()
                .expect("a test parses every address of the catalogue");
            Object::Egress(EgressRule {
                network: Some(address.into()),
                ports: Vec::new(),
            })
        }
        Contribution::Ptrace(rule) => Object::Ptrace(*rule),
        Contribution::Mount(part) => Object::Mount(MountRule {
            source: part.source.to_owned(),
            fstype: part.fstype.map(str::to_owned),
            any: part.any,
            none: part.none,
        }),
        Contribution::DiskDevices(action) => return disk_devices(builder, *action, id, field, verdict),
        Contribution::Service { namespace, name } => {
            let message = format!(
                "the rule `{id}` needs the addresses of the Service {namespace}/{name}, which only a cluster knows; it has no effect"
            );
            return builder.report(
                Severity::Warning,
                field,
                message,
                "use `bpfRawRules.network.egress.toDestinations` with the addresses",
            );
        }
    };
    builder.push(id, field, verdict, object);
}

fn disk_devices(builder: &mut Builder<'_>, action: DiskUse, id: &str, field: &str, verdict: Verdict) {
    if builder.facts.disk_devices.is_empty() {
        let message = format!("the rule `{id}` is about the disks of the node, and none is known here");
        builder.report(
            Severity::Note,
            field,
            message,
            "the agent fills the disks in on each node",
        );
    }
    for device in &builder.facts.disk_devices {
        let pattern = format!("/dev/{}", escape(device));
        let object = match action {
            DiskUse::Open => Object::Path {
                pattern,
                access: Access::READ_WRITE,
            },
            DiskUse::Mount => Object::Mount(MountRule {
                source: pattern,
                fstype: None,
                any: 0,
                none: MOUNT_UMOUNT,
            }),
        };
        builder.push(id, field, verdict, object);
    }
}

/// Device names are text, not patterns. The kernel writes a `!` where a name has a `/` (`cciss!c0d0`).
fn escape(device: &str) -> String {
    let mut pattern = String::with_capacity(device.len());
    for c in device.chars() {
        match c {
            '!' => pattern.push('/'),
            '*' | '?' | '[' | ']' | '{' | '}' | ',' | '\\' => pattern.extend(['\\', c]),
            _ => pattern.push(c),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_the_catalogue_is_an_address() {
        for rule in rules::catalogue() {
            let Bpf::Contributes(parts) = rule.bpf else {
                continue;
            };
            for part in parts {
                if let Contribution::Address(text) = part {
                    assert!(text.parse::<IpAddr>().is_ok(), "{}: {text}", rule.id);
                }
            }
        }
    }

    #[test]
    fn device_names_are_not_patterns() {
        assert_eq!(escape("cciss!c0d0"), "cciss/c0d0");
        assert_eq!(escape("odd[1]*"), "odd\\[1\\]\\*");
    }
}
