//! Built-in rules -> rules of the profile.

use std::net::IpAddr;

use super::build::Builder;
use super::{DeviceAccess, DeviceKind, DeviceRule, EgressRule, MountRule, Object, SocketRule, Verdict};
use crate::abi;
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
        Contribution::UserNamespace => Object::UserNamespace,
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
    let access = match action {
        DiskUse::Open => abi::DEVICE_READ | abi::DEVICE_WRITE | abi::DEVICE_MAKE,
        DiskUse::Make => abi::DEVICE_MAKE,
        DiskUse::Mount => abi::DEVICE_MOUNT,
    };
    for disk in &builder.facts.disk_devices {
        let object = Object::Device(DeviceRule {
            kind: DeviceKind::Block,
            major: Some(disk.major),
            minor: Some(disk.minor),
            access: DeviceAccess(access),
        });
        builder.push(id, field, verdict, object);
    }
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
}
