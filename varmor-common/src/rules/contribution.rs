//! What a built-in rule contributes to a profile, as data.

use crate::profile::{Access, CapabilitySet, PtraceRule};

/// What a rule is to the BPF enforcer.
#[derive(Clone, Copy, Debug)]
pub enum Bpf {
    Contributes(&'static [Contribution]),
    /// Why the BPF enforcer cannot hold the rule.
    Unsupported(&'static str),
}

/// What a rule is to the `AppArmor` enforcer.
#[derive(Clone, Copy, Debug)]
pub enum AppArmor {
    /// The same parts as to the BPF enforcer.
    AsBpf,
    /// The same parts, in so far as it can tell things apart: where it holds less or more than the description.
    Partly(&'static str),
    /// Why the `AppArmor` enforcer cannot hold the rule.
    Unsupported(&'static str),
}

/// One part of a built-in rule.
#[derive(Clone, Copy, Debug)]
pub enum Contribution {
    /// Files and executables by path pattern.
    Path(&'static str, Access),
    Capabilities(CapabilitySet),
    Socket(SocketPart),
    /// Every port of one address.
    Address(&'static str),
    Ptrace(PtraceRule),
    Mount(MountPart),
    /// The disks of the node.
    DiskDevices(DiskUse),
    /// Creating a user namespace.
    UserNamespace,
    /// The addresses of a Service of the cluster.
    Service {
        namespace: &'static str,
        name: &'static str,
    },
}

/// Sockets; an empty list stands for every value.
#[derive(Clone, Copy, Debug)]
pub struct SocketPart {
    pub domains: &'static [u32],
    pub protocols: &'static [u32],
}

/// Mounts; see `profile::MountRule`.
#[derive(Clone, Copy, Debug)]
pub struct MountPart {
    pub source: &'static str,
    pub fstype: Option<&'static str>,
    pub any: u32,
    pub none: u32,
}

/// What a rule about disks refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskUse {
    /// Opening the device, and making a node of it.
    Open,
    /// Making a node of it.
    Make,
    /// Mounting it.
    Mount,
}
