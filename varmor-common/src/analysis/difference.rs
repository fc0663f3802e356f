//! What becomes allowed and what becomes denied when one policy replaces another, with an example of each.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use serde::Serialize;

use super::paths::{Side, class_names, known_names, witnesses};
use super::{Judge, Operation, Outcome};
use crate::abi::{self, PERM_APPEND, PERM_EXEC, PERM_READ, PERM_WRITE};
use crate::compile::seccomp::{Comparison as Test, Compiled, Condition};
use crate::profile::{Object, PortRange, Profile};

const KEY: u64 = 1;
/// Most operations that are tried for one kind.
const MOST: usize = 400_000;

/// The answer to a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    pub changes: Vec<Change>,
    /// Kinds of operations for which the policies are too large to be compared to the end.
    pub unfinished: Vec<String>,
}

/// A kind of operation that is decided differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// `read`, `connect`, `syscall`.
    pub kind: String,
    pub direction: Direction,
    /// An operation that shows it.
    pub witness: String,
    /// The rule that denies it, before or now.
    pub rule: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    NewlyAllowed,
    NewlyDenied,
}

/// Compares two profiles.
#[must_use]
pub fn compare(old: &Judge, new: &Judge) -> Comparison {
    let mut comparison = Comparison::default();
    paths(old, new, &mut comparison);
    let profiles = [old.profile(), new.profile()];
    let kinds: [(&str, Option<Vec<Operation>>); 7] = [
        ("connect", destinations(profiles, Operation::Connect)),
        ("bind", destinations(profiles, Operation::Bind)),
        ("socket", Some(sockets(profiles))),
        ("capable", Some((0..=40).map(Operation::Capability).collect())),
        ("ptrace", Some(ptraces())),
        ("mount", Some(mounts(profiles))),
        ("userns", Some(vec![Operation::UserNamespace])),
    ];
    for (kind, operations) in kinds {
        match operations {
            Some(operations) => differing(old, new, kind, operations, &mut comparison),
            None => comparison.unfinished.push(kind.to_owned()),
        }
    }
    for operation in syscalls(old.syscalls(), new.syscalls()) {
        // Each system call is a kind of its own.
        differing(old, new, "syscall", vec![operation], &mut comparison);
    }
    comparison
}

/// The first operation that becomes allowed, and the first that becomes denied.
fn differing(old: &Judge, new: &Judge, kind: &str, operations: Vec<Operation>, comparison: &mut Comparison) {
    let mut seen = BTreeSet::new();
    for operation in operations {
        let before = old.outcome(&operation, 0) == Outcome::Denied;
        let after = new.outcome(&operation, 0) == Outcome::Denied;
        if before != after && seen.insert(before) {
            comparison
                .changes
                .push(change(old, new, kind, &operation, before));
        }
    }
}

fn change(old: &Judge, new: &Judge, kind: &str, operation: &Operation, before: bool) -> Change {
    let denying = if before { old } else { new };
    Change {
        kind: kind.to_owned(),
        direction: if before {
            Direction::NewlyAllowed
        } else {
            Direction::NewlyDenied
        },
        witness: operation.to_string(),
        rule: denying.explain(operation, 0).decided_by.map(|cause| cause.rule),
    }
}

fn paths(old: &Judge, new: &Judge, comparison: &mut Comparison) {
    let sides = [Side::new(old.artefact(), KEY), Side::new(new.artefact(), KEY)];
    let sides = [&sides[0], &sides[1]];
    let known = known_names([old.profile(), new.profile()], KEY);
    let Ok(classes) = class_names(sides, &known) else {
        comparison.unfinished.push("paths".to_owned());
        return;
    };
    for (kind, permission) in [
        ("read", PERM_READ),
        ("write", PERM_WRITE),
        ("append", PERM_APPEND),
        ("exec", PERM_EXEC),
    ] {
        let Ok(found) = witnesses(sides, &known, &classes, KEY, permission) else {
            comparison.unfinished.push(kind.to_owned());
            continue;
        };
        for witness in found {
            let operation = Operation::File {
                path: String::from_utf8_lossy(&witness.path).into_owned(),
                access: permission,
                within: permission,
            };
            comparison
                .changes
                .push(change(old, new, kind, &operation, witness.denied_before));
        }
    }
}

/// Decisions are equal within the cells that the rules' networks and ports cut out, and each cell has its least address
/// and port among these.
fn destinations(profiles: [&Profile; 2], make: fn(IpAddr, u16) -> Operation) -> Option<Vec<Operation>> {
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::from([0u16, 1]));
    addresses.extend([IpAddr::from([0, 0, 0, 0]), IpAddr::V6(Ipv6Addr::UNSPECIFIED)]);
    addresses.extend([
        IpAddr::from([0, 0, 0, 1]),
        IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ]);
    for rule in profiles.into_iter().flat_map(Profile::in_force) {
        let (network, ranges) = match &rule.object {
            Object::Egress(rule) => (rule.network, &rule.ports),
            Object::Ingress(rule) => (rule.network, &rule.ports),
            _ => continue,
        };
        addresses.extend(network.iter().flat_map(borders));
        for PortRange { first, last } in ranges {
            ports.insert(*first);
            ports.extend(last.checked_add(1));
        }
    }
    if addresses.len() * ports.len() > MOST {
        return None;
    }
    let each = |address: IpAddr| {
        ports
            .iter()
            .map(move |port| make(address, *port))
            .collect::<Vec<_>>()
    };
    Some(addresses.into_iter().flat_map(each).collect())
}

/// The first address of a network, and the first behind it.
fn borders(network: &IpNet) -> Vec<IpAddr> {
    let behind = match network.broadcast() {
        IpAddr::V4(last) => last.to_bits().checked_add(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(last) => last.to_bits().checked_add(1).map(|bits| IpAddr::V6(bits.into())),
    };
    std::iter::once(network.network()).chain(behind).collect()
}

fn sockets(profiles: [&Profile; 2]) -> Vec<Operation> {
    const KINDS: [u32; 7] = [1, 2, 3, 4, 5, 6, 10];
    let mut protocols = BTreeSet::from([0]);
    for rule in profiles.into_iter().flat_map(Profile::in_force) {
        if let Object::Socket(socket) = &rule.object {
            protocols.extend(socket.protocols.iter().flat_map(|number| [*number, number + 1]));
        }
    }
    let mut all = Vec::new();
    // The internet first: these are the witnesses that people know.
    for domain in [2, 10, 1]
        .into_iter()
        .chain((3..46).filter(|domain| *domain != 10))
    {
        for kind in KINDS {
            for protocol in &protocols {
                all.push(Operation::Socket {
                    domain,
                    kind,
                    protocol: *protocol,
                });
            }
        }
    }
    all
}

fn ptraces() -> Vec<Operation> {
    let accesses = [
        abi::PTRACE_TRACE,
        abi::PTRACE_READ,
        abi::PTRACE_TRACEBY,
        abi::PTRACE_READBY,
    ];
    let each = |access| [true, false].map(|outside| Operation::Ptrace { access, outside });
    accesses.into_iter().flat_map(each).collect()
}

/// Calls that the rules of either side are about, and some that everybody makes. Sources are patterns, so this
/// is a sample.
fn mounts(profiles: [&Profile; 2]) -> Vec<Operation> {
    const BIND: u32 = 0x1000;
    const REMOUNT: u32 = 0x20;
    const MOVE: u32 = 0x2000;
    let mut sources: BTreeSet<String> =
        BTreeSet::from(["/mnt".to_owned(), "/proc".to_owned(), "/sys".to_owned()]);
    let mut types: BTreeSet<Option<String>> = BTreeSet::from([
        None,
        Some("tmpfs".to_owned()),
        Some("proc".to_owned()),
        Some("ext4".to_owned()),
    ]);
    for rule in profiles.into_iter().flat_map(Profile::in_force) {
        if let Object::Mount(mount) = &rule.object {
            sources.insert(mount.source.replace(['*', '?', '[', ']', '{', '}', ','], "x"));
            types.insert(mount.fstype.clone());
        }
    }
    let mut all = Vec::new();
    for source in sources {
        for fstype in &types {
            let flags: &[u32] = if fstype.is_some() {
                &[0, 1]
            } else {
                &[BIND, REMOUNT, MOVE, abi::MOUNT_UMOUNT]
            };
            all.extend(flags.iter().map(|flags| Operation::Mount {
                source: source.clone(),
                fstype: fstype.clone(),
                flags: *flags,
            }));
        }
    }
    all
}

/// Every system call that either side names, with arguments that meet its conditions and with none.
fn syscalls(old: &[Compiled], new: &[Compiled]) -> Vec<Operation> {
    let mut calls: BTreeSet<(String, [u64; 6])> = BTreeSet::new();
    if !old.is_empty() || !new.is_empty() {
        calls.extend(crate::compile::seccomp::syscalls().map(|name| (name.to_owned(), [0; 6])));
    }
    for origin in old.iter().chain(new).flat_map(|filter| &filter.origins) {
        let mut arguments = [0; 6];
        for condition in &origin.args {
            if let Some(argument) = arguments.get_mut(condition.index as usize) {
                *argument = meeting(condition);
            }
        }
        calls.insert((origin.name.clone(), arguments));
    }
    let operation = |(name, arguments)| Operation::Syscall { name, arguments };
    calls.into_iter().map(operation).collect()
}

/// A value for which the condition holds.
const fn meeting(condition: &Condition) -> u64 {
    match condition.op {
        Test::Equal | Test::LessOrEqual | Test::GreaterOrEqual => condition.value,
        Test::NotEqual | Test::Greater => condition.value.wrapping_add(1),
        Test::Less => condition.value.saturating_sub(1),
        Test::MaskedEqual => condition.value_two,
    }
}
