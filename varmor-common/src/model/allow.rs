//! Behaviour -> rules that allow it, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use super::behaviour::{Behaviour, FileUse, Mounted, Peer};
use crate::abi::{MOUNT_UMOUNT, PERM_APPEND, PERM_EXEC, PERM_READ, PERM_WRITE};
use crate::matcher::Pattern;
use crate::policy::vocabulary as words;
use crate::policy::{
    BpfCustomProfile, BpfRawRules, EgressRules, IngressRawRule, MountRawRule, NetworkRules, ObservedFile,
    PathRule, Port, PtraceRawRule, SocketRawRule, ToDestination,
};
use crate::rules::capability_name;

/// The allow-list of the BPF enforcer.
#[must_use]
pub fn custom_profile(behaviour: &Behaviour) -> BpfCustomProfile {
    let rule = |pattern: &String, permissions: Vec<String>| PathRule {
        qualifiers: Vec::new(),
        pattern: pattern.clone(),
        permissions,
    };
    let content = |seen: &FileUse| permissions(seen.access & !PERM_EXEC);
    let files = behaviour
        .files
        .iter()
        .map(|(pattern, seen)| rule(pattern, content(seen)));
    let executed = behaviour
        .files
        .iter()
        .filter(|(_, seen)| seen.access & PERM_EXEC != 0);
    BpfCustomProfile {
        rules: BpfRawRules {
            files: files.filter(|rule| !rule.permissions.is_empty()).collect(),
            processes: executed
                .map(|(pattern, _)| rule(pattern, vec!["exec".to_owned()]))
                .collect(),
            network: network(behaviour),
            ptrace: ptrace(&behaviour.ptraces),
            mounts: behaviour.mounts.iter().filter_map(mount).collect(),
        },
        capabilities: behaviour
            .capabilities
            .iter()
            .filter_map(|number| capability_name(*number))
            .map(str::to_owned)
            .collect(),
    }
}

/// The words of permission bits.
pub(super) fn permissions(access: u32) -> Vec<String> {
    let has = |bit| access & bit != 0;
    [
        (has(PERM_READ), "read"),
        (has(PERM_WRITE), "write"),
        // Writing includes appending.
        (has(PERM_APPEND) && !has(PERM_WRITE), "append"),
        (has(PERM_EXEC), "exec"),
    ]
    .into_iter()
    .filter(|(present, _)| *present)
    .map(|(_, word)| word.to_owned())
    .collect()
}

fn network(behaviour: &Behaviour) -> Option<NetworkRules> {
    let mut types: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (domain, kind, _) in &behaviour.sockets {
        types.entry(*domain).or_default().insert(*kind);
    }
    let sockets = types.iter().filter_map(|(domain, types)| {
        let types: Vec<String> = types.iter().filter_map(|kind| type_word(*kind)).collect();
        // A rule without types is about all of them.
        (!types.is_empty()).then_some(SocketRawRule {
            qualifiers: Vec::new(),
            domains: vec![words::domain_word(*domain)?.to_owned()],
            types,
            // Types and protocols exclude each other in a rule. The type tells a raw socket from others.
            protocols: Vec::new(),
        })
    });
    let egress = by_address(&behaviour.connects).map(|(ip, ports)| ToDestination {
        ip,
        ports,
        ..ToDestination::default()
    });
    let ingresses = by_address(&behaviour.binds).map(|(ip, ports)| IngressRawRule {
        ip,
        ports,
        ..IngressRawRule::default()
    });
    let rules = NetworkRules {
        sockets: sockets.collect(),
        egress: (!behaviour.connects.is_empty()).then(|| EgressRules {
            to_destinations: egress.collect(),
            ..EgressRules::default()
        }),
        ingresses: ingresses.collect(),
    };
    (rules != NetworkRules::default()).then_some(rules)
}

/// The word of a socket type.
pub(super) fn type_word(number: u32) -> Option<String> {
    let mut names = words::type_names();
    names
        .find(|name| words::socket_type(name) == Some(number))
        .map(str::to_owned)
}

/// Addresses with their ports; no port = every port.
pub(super) fn by_address(peers: &BTreeSet<Peer>) -> impl Iterator<Item = (Option<String>, Vec<Port>)> {
    let mut ports: BTreeMap<_, Vec<Option<u16>>> = BTreeMap::new();
    for (ip, port) in peers {
        ports.entry(*ip).or_default().push(*port);
    }
    ports.into_iter().map(|(ip, ports)| {
        let named = ports.iter().filter_map(|port| {
            Some(Port {
                port: (*port)?,
                end_port: None,
            })
        });
        let every = ports.contains(&None);
        let ports = if every { Vec::new() } else { named.collect() };
        (ip.map(|ip| ip.to_string()), ports)
    })
}

/// The words of ptrace permission bits.
pub(super) fn ptrace_permissions(access: u32) -> Vec<String> {
    let names = words::ptrace_names().filter(|name| !words::is_all(name));
    names
        .filter(|name| words::ptrace_permission(name).is_some_and(|bit| bit & access != 0))
        .map(str::to_owned)
        .collect()
}

/// A policy has one rule about ptrace: it is about every peer if one was outside of the container.
fn ptrace(seen: &BTreeSet<(u32, bool)>) -> Option<PtraceRawRule> {
    let access = seen.iter().fold(0, |all, (access, _)| all | access);
    (access != 0).then(|| PtraceRawRule {
        qualifiers: Vec::new(),
        strict_mode: seen.iter().any(|(_, outside)| *outside),
        permissions: ptrace_permissions(access),
    })
}

/// The rule that allows a mount; none if its source cannot be written as a pattern.
pub(super) fn mount(mounted: &Mounted) -> Option<MountRawRule> {
    let source = super::path::escaped(&mounted.source);
    let source_pattern = if source.is_empty() {
        "**".to_owned()
    } else {
        source
    };
    Pattern::parse(&source_pattern).ok()?;
    Some(MountRawRule {
        qualifiers: Vec::new(),
        source_pattern,
        fstype: mounted.fstype.clone().unwrap_or_else(|| "none".to_owned()),
        flags: mount_flags(mounted),
    })
}

/// Words of which one is true of the call. A call without a type is known by what it does, and by nothing else.
fn mount_flags(mounted: &Mounted) -> Vec<String> {
    const WORDS: [&str; 21] = [
        "umount",
        "bind",
        "move",
        "remount",
        "make-unbindable",
        "make-private",
        "make-slave",
        "make-shared",
        "ro",
        "nosuid",
        "nodev",
        "noexec",
        "sync",
        "mand",
        "dirsync",
        "noatime",
        "nodiratime",
        "silent",
        "relatime",
        "iversion",
        "strictatime",
    ];
    let telling = if mounted.fstype.is_none() {
        words::TYPELESS_CALLS | MOUNT_UMOUNT
    } else {
        u32::MAX
    };
    let is_set =
        |word: &&&str| words::mount_flag(word).is_some_and(|flag| flag.any & mounted.flags & telling != 0);
    let set: Vec<String> = WORDS
        .iter()
        .filter(is_set)
        .map(|word| (*word).to_owned())
        .collect();
    if set.is_empty() {
        vec!["rw".to_owned()]
    } else {
        set
    }
}

/// What `AppArmor` needs for the same files, in its letters: it asks for reading where a name is changed, for the
/// loader's mappings, for locks, and for the link that gives a file another name. A log that is opened with `O_CREAT`
/// needs the right to create it, and only that of writing (`w`) includes it, not that of appending (`a`).
#[must_use]
pub fn app_armor_files(behaviour: &Behaviour) -> Vec<ObservedFile> {
    let files = behaviour.files.iter().map(|(pattern, seen)| {
        let has = |bit| seen.access & bit != 0;
        let writes = has(PERM_WRITE);
        let letters = [
            (has(PERM_READ) || seen.program || (writes && seen.renamed), "r"),
            (writes || has(PERM_APPEND), "w"),
            (writes, "l"),
            (has(PERM_READ) || writes || has(PERM_APPEND), "k"),
            (has(PERM_EXEC), "m"),
        ];
        ObservedFile {
            path: pattern.clone(),
            owner: false,
            permissions: letters
                .into_iter()
                .filter(|(present, _)| *present)
                .map(|(_, letter)| letter.to_owned())
                .collect(),
            old_path: seen.example.clone(),
        }
    });
    files.collect()
}
