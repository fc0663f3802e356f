//! What a workload does: the recording without its times, in the form that allow-lists are made from.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::path::Names;
use super::recording::Recording;
use crate::abi::{PERM_APPEND, PERM_EXEC, PERM_READ, PERM_WRITE};
use crate::analysis::Operation;

/// What is done, once each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// By pattern.
    pub files: BTreeMap<String, FileUse>,
    /// Numbers of capabilities.
    pub capabilities: BTreeSet<u32>,
    /// Domain, type and protocol.
    pub sockets: BTreeSet<(u32, u32, u32)>,
    pub connects: BTreeSet<Peer>,
    pub binds: BTreeSet<Peer>,
    /// `abi::PTRACE_*` bits, and whether the peer is outside of the container.
    pub ptraces: BTreeSet<(u32, bool)>,
    pub mounts: BTreeSet<Mounted>,
    pub syscalls: BTreeSet<String>,
    /// What was seen and cannot be allowed by a rule.
    pub unhandled: BTreeSet<String>,
}

/// An address and a port; none = every one.
pub type Peer = (Option<IpAddr>, Option<u16>);

/// What is done to the files that a pattern matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileUse {
    /// `abi::PERM_*` bits: reading, writing, appending, executing and, before `generalise`, restructuring.
    pub access: u32,
    /// It is executed as a program, and not only mapped.
    pub program: bool,
    /// Its name is changed.
    pub renamed: bool,
    /// One of the paths that were seen, where the pattern stands for more.
    pub example: Option<String>,
    /// How many different paths were seen.
    pub examples: u64,
}

/// A call of mount(2) or umount(2).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mounted {
    /// Of an unmount: the mount point.
    pub source: String,
    pub fstype: Option<String>,
    pub flags: u32,
}

/// What a rule about files can allow.
pub(super) const RULED: u32 = PERM_READ | PERM_WRITE | PERM_APPEND | PERM_EXEC;

impl FileUse {
    pub(super) fn join(&mut self, other: &Self) {
        self.access |= other.access;
        self.program |= other.program;
        self.renamed |= other.renamed;
        self.examples += other.examples;
    }
}

impl Behaviour {
    /// Everything exactly as it was seen.
    #[must_use]
    pub fn of(recording: &Recording) -> Self {
        let mut behaviour = Self {
            syscalls: recording.syscalls.clone(),
            unhandled: recording.unhandled().collect(),
            ..Self::default()
        };
        for (operation, _) in recording.operations() {
            behaviour.take(recording, operation);
        }
        behaviour
    }

    fn file(&mut self, path: &str) -> &mut FileUse {
        let seen = self.files.entry(Names::of_path(path).to_string()).or_default();
        seen.examples = 1;
        seen
    }

    fn take(&mut self, recording: &Recording, operation: &Operation) {
        match operation {
            // Where an object gets another name the kernel names every right, and an allow-list need not give all.
            Operation::File { path, access, within } => {
                let seen = self.file(path);
                seen.access |= access & within;
                seen.program |= recording.is_program(path);
                seen.renamed |= recording.is_renamed(path);
            }
            Operation::Rename { from, to } => {
                let old = self.file(from);
                (old.access, old.renamed) = (old.access | PERM_READ | PERM_WRITE, true);
                self.file(to).access |= PERM_WRITE;
            }
            Operation::Connect(ip, port) => {
                self.connects.insert((Some(*ip), Some(*port)));
            }
            Operation::Bind(ip, port) => {
                self.binds.insert((Some(*ip), Some(*port)));
            }
            Operation::Socket {
                domain,
                kind,
                protocol,
            } => {
                self.sockets.insert((*domain, *kind, *protocol));
            }
            Operation::Capability(number) => {
                self.capabilities.insert(*number);
            }
            Operation::Ptrace { access, outside } => {
                self.ptraces.insert((*access, *outside));
            }
            Operation::Mount {
                source,
                fstype,
                flags,
            } => {
                self.mounts.insert(Mounted {
                    source: source.clone(),
                    fstype: fstype.clone(),
                    flags: *flags,
                });
            }
            // An allow-list leaves user namespaces alone; what a task does in one is judged as everywhere.
            Operation::UserNamespace => {}
            Operation::Syscall { name, .. } => {
                self.syscalls.insert(name.clone());
            }
        }
    }
}
