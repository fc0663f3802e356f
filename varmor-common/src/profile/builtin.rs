//! Built-in rules -> rules of the profile.

use std::net::IpAddr;

use super::build::Builder;
use super::{
    Access, DeviceAccess, DeviceKind, DeviceRule, EgressRule, MountRule, Object, SocketRule, Verdict,
    destination,
};
use crate::abi;
use crate::policy::{EgressPeer, Enforcers, Severity};
use crate::rules::{self, AppArmor, Bpf, BuiltinRule, Contribution, DiskUse, syscalls};

/// Adds the built-in rule `id`, which is written at `field`.
pub(super) fn add(builder: &mut Builder<'_>, id: &str, field: &str, verdict: Verdict) {
    let Some(rule) = rules::find(id) else {
        builder.report(
            Severity::Error,
            field,
            format!("there is no built-in rule `{id}`"),
            "`varmor rules list` shows them",
        );
        return;
    };
    // Of a policy for Seccomp alone its compiler says what is held.
    if builder.labels().is_empty() {
        return;
    }
    report_holders(builder, rule, field);
    let labels = builder.labels().and(rule.enforcers);
    if labels.is_empty() {
        return;
    }
    if let Bpf::Contributes(contributions) = rule.bpf {
        for contribution in contributions {
            contribute(builder, contribution, rule.id, field, verdict, labels);
        }
    }
}

/// Says which of the policy's enforcers hold the rule, unless all do.
fn report_holders(builder: &mut Builder<'_>, rule: &BuiltinRule, field: &str) {
    let able = builder.enforcers.and(rule.enforcers);
    let mut unable = builder
        .enforcers
        .without(rule.enforcers)
        .without(Enforcers::NETWORK_PROXY);
    // It closes ways to what the others refuse.
    if syscalls::find(rule.id).is_some() {
        unable = unable.without(Enforcers::SECCOMP);
    }
    let reason = if unable.contains(Enforcers::BPF)
        && let Bpf::Unsupported(reason) = rule.bpf
    {
        reason.to_owned()
    } else if unable.contains(Enforcers::APPARMOR)
        && let AppArmor::Unsupported(reason) = rule.app_armor
    {
        reason.to_owned()
    } else {
        format!("the rule is for {}", list(rule.enforcers))
    };
    if able.is_empty() {
        let message = format!(
            "the {} enforcer cannot hold the rule `{}`; it has no effect",
            list(unable),
            rule.id
        );
        builder.report(Severity::Warning, field, message, &reason);
    } else if !unable.is_empty() {
        let message = format!("the rule `{}` is held by {} only", rule.id, list(able));
        builder.report(Severity::Note, field, message, &reason);
    }
    if let AppArmor::Partly(difference) = rule.app_armor
        && able.contains(Enforcers::APPARMOR)
    {
        let message = format!("AppArmor holds the rule `{}` in its own terms", rule.id);
        builder.report(Severity::Note, field, message, difference);
    }
}

fn list(enforcers: Enforcers) -> String {
    enforcers.names().collect::<Vec<_>>().join(" and ")
}

/// Adds one part of the rule `id` for these enforcers.
pub(super) fn contribute(
    builder: &mut Builder<'_>,
    part: &Contribution,
    id: &str,
    field: &str,
    verdict: Verdict,
    enforcers: Enforcers,
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
        Contribution::DiskDevices(action) => {
            return disk_devices(builder, *action, id, field, verdict, enforcers);
        }
        Contribution::Service { namespace, name } => {
            let peer = EgressPeer::service(namespace, name);
            if let Some(addresses) = builder.addresses(&peer) {
                for rule in destination::rules(addresses, &[]) {
                    builder.push(
                        id,
                        field,
                        verdict,
                        Object::Egress(rule),
                        enforcers.and(Enforcers::BPF),
                    );
                }
                return;
            }
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
    let enforcers = match &object {
        // There is nothing about addresses in AppArmor; the catalogue says why.
        Object::Egress(_) => enforcers.and(Enforcers::BPF),
        _ => enforcers,
    };
    if !enforcers.is_empty() {
        builder.push(id, field, verdict, object, enforcers);
    }
}

fn disk_devices(
    builder: &mut Builder<'_>,
    action: DiskUse,
    id: &str,
    field: &str,
    verdict: Verdict,
    enforcers: Enforcers,
) {
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
        if enforcers.contains(Enforcers::BPF) {
            let object = Object::Device(DeviceRule {
                kind: DeviceKind::Block,
                major: Some(disk.major),
                minor: Some(disk.minor),
                access: DeviceAccess(access),
            });
            builder.push(id, field, verdict, object, Enforcers::BPF);
        }
        if enforcers.contains(Enforcers::APPARMOR) {
            let object = disk_by_name(&disk.name, action);
            builder.push(id, field, verdict, object, Enforcers::APPARMOR);
        }
    }
}

/// A disk for an enforcer that knows no device numbers. Making a node is writing to its name.
fn disk_by_name(name: &str, action: DiskUse) -> Object {
    // `cciss!c0d0` is the kernel's spelling of `cciss/c0d0`.
    let source = format!("/dev/{}", escaped(&name.replace('!', "/")));
    match action {
        DiskUse::Open => Object::Path {
            pattern: source,
            access: Access::READ_WRITE,
        },
        DiskUse::Make => Object::Path {
            pattern: source,
            access: Access::WRITE,
        },
        DiskUse::Mount => Object::Mount(MountRule {
            source,
            fstype: None,
            any: 0,
            none: abi::MOUNT_UMOUNT,
        }),
    }
}

/// The pattern that matches exactly this name.
fn escaped(name: &str) -> String {
    name.chars()
        .flat_map(|letter| {
            let special = r"\*?[]{}".contains(letter).then_some('\\');
            special.into_iter().chain([letter])
        })
        .collect()
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
