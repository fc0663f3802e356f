//! Raw rules of the BPF enforcer -> rules of the profile.

use super::build::Builder;
use super::{
    Access, MountRule, Object, PtraceAccess, PtraceRule, PtraceScope, SocketRule, Verdict, destination,
};
use crate::abi;
use crate::policy::vocabulary as words;
use crate::policy::{BpfRawRules, Enforcers, MountRawRule, PathRule, Severity, SocketRawRule, item};

/// Adds the raw rules, which are written at `field`.
pub(super) fn add(builder: &mut Builder<'_>, raw: &BpfRawRules, field: &str) {
    let files = abi::PERM_READ | abi::PERM_WRITE | abi::PERM_APPEND;
    paths(builder, &raw.files, &format!("{field}.files"), files);
    paths(
        builder,
        &raw.processes,
        &format!("{field}.processes"),
        abi::PERM_EXEC,
    );
    if let Some(network) = &raw.network {
        sockets(builder, &network.sockets, &format!("{field}.network.sockets"));
        if let Some(egress) = &network.egress {
            destination::add(builder, egress, &format!("{field}.network.egress"));
        }
        for (index, rule) in network.ingresses.iter().enumerate() {
            destination::local(builder, rule, &item(&format!("{field}.network.ingresses"), index));
        }
    }
    if let Some(ptrace) = &raw.ptrace {
        let access = ptrace
            .permissions
            .iter()
            .filter_map(|word| words::ptrace_permission(word))
            .fold(0, |all, one| all | one);
        let scope = match (ptrace.strict_mode, allows(builder, &ptrace.qualifiers)) {
            (true, _) => PtraceScope::All,
            // Without the strict mode a rule leaves alone what stays in the container.
            (false, false) => PtraceScope::Outside,
            (false, true) => PtraceScope::Inside,
        };
        let object = Object::Ptrace(PtraceRule {
            access: PtraceAccess(access),
            scope,
        });
        push(builder, &format!("{field}.ptrace"), &ptrace.qualifiers, object);
    }
    for (index, rule) in raw.mounts.iter().enumerate() {
        mount(builder, rule, &item(&format!("{field}.mounts"), index));
    }
}

/// Adds a raw rule. Its id is its field path without what all of them have in common.
pub(super) fn push(builder: &mut Builder<'_>, field: &str, qualifiers: &[String], object: Object) {
    const COMMON: [&str; 2] = ["spec.policy.enhanceProtect.", "spec.policy.defenseInDepth.bpf."];
    let id = COMMON
        .iter()
        .find_map(|head| field.strip_prefix(head))
        .unwrap_or(field);
    if allows(builder, qualifiers) {
        if has(qualifiers, "audit") {
            builder.push(id, field, Verdict::Audit, object.clone(), Enforcers::BPF);
        }
        builder.push(id, field, Verdict::Allow, object, Enforcers::BPF);
    } else if has(qualifiers, "deny") {
        builder.push(id, field, Verdict::Deny, object, Enforcers::BPF);
    } else {
        builder.push(id, field, Verdict::Audit, object, Enforcers::BPF);
    }
}

/// In an allow-list a rule allows unless it denies.
fn allows(builder: &Builder<'_>, qualifiers: &[String]) -> bool {
    builder.allow_list && !has(qualifiers, "deny")
}

fn has(qualifiers: &[String], word: &str) -> bool {
    qualifiers.iter().any(|one| one.eq_ignore_ascii_case(word))
}

/// `all` is what the word means in this list: reading and writing of files, running of processes.
fn paths(builder: &mut Builder<'_>, rules: &[PathRule], field: &str, all: u32) {
    for (index, rule) in rules.iter().enumerate() {
        let bits = rule.permissions.iter().filter_map(|word| {
            if words::is_all(word) {
                Some(all)
            } else {
                words::permission(word)
            }
        });
        let access = Access(bits.fold(0, |all, one| all | one));
        let object = Object::Path {
            pattern: rule.pattern.clone(),
            access,
        };
        push(builder, &item(field, index), &rule.qualifiers, object);
    }
}

fn sockets(builder: &mut Builder<'_>, rules: &[SocketRawRule], field: &str) {
    for (index, rule) in rules.iter().enumerate() {
        let mut object = SocketRule {
            domains: numbers(&rule.domains, words::domain),
            types: numbers(&rule.types, words::socket_type),
            protocols: Vec::new(),
        };
        if !rule.protocols.iter().any(|word| words::is_all(word)) {
            object.protocols = rule
                .protocols
                .iter()
                .filter_map(|word| words::protocols(word))
                .flatten()
                .copied()
                .collect();
        }
        if !object.protocols.is_empty() && object.domains.is_empty() {
            object.domains = words::INTERNET_DOMAINS.to_vec();
        }
        push(
            builder,
            &item(field, index),
            &rule.qualifiers,
            Object::Socket(object),
        );
    }
}

/// The numbers of a list of words; none = every number.
fn numbers(list: &[String], number: impl Fn(&str) -> Option<u32>) -> Vec<u32> {
    if list.iter().any(|word| words::is_all(word)) {
        return Vec::new();
    }
    let mut numbers: Vec<u32> = list.iter().filter_map(|word| number(word)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn mount(builder: &mut Builder<'_>, rule: &MountRawRule, field: &str) {
    let flags = rule.flags.iter().filter_map(|word| words::mount_flag(word));
    let (mut any, mut none) = flags.fold((0, 0), |(any, none), flags| (any | flags.any, none | flags.none));
    let fstype = match rule.fstype.as_str() {
        "*" => None,
        "none" => {
            // The type `none` stands for the calls that have no type, and flags are how those are known.
            any &= words::TYPELESS_CALLS;
            if any == 0 {
                let message =
                    "the rule has the type `none` and no flag of a call without a type: it matches nothing";
                let help = "use the flags bind, move, remount, umount or make-*, or another `fstype`";
                builder.report(Severity::Warning, field, message.to_owned(), help);
                return;
            }
            none = 0;
            None
        }
        fstype => Some(fstype.to_owned()),
    };
    let object = MountRule {
        source: rule.source_pattern.clone(),
        fstype,
        any,
        none,
    };
    push(builder, field, &rule.qualifiers, Object::Mount(object));
}
