//! The data of a profile.

use std::fmt;

use ipnet::IpNet;

use super::{AppArmorPart, Defaults, InertRule, Kinds, TargetGroup};
use crate::abi;
use crate::compile::seccomp::OciSeccomp;
use crate::policy::Enforcers;

/// What one workload may do, after all modes, built-in rules and raw rules have been resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// `varmor-{namespace}-{name}` or `varmor-cluster-{namespace}-{name}`.
    pub name: String,
    pub mode: ProfileMode,
    /// That the policy names.
    pub enforcers: Enforcers,
    /// In the order in which the policy names them. Order has no meaning for the verdict: any denying rule
    /// denies, whatever stands before or after it.
    pub rules: Vec<Rule>,
    /// What happens under BPF to operations that no rule allows; AppArmor's allow-list is in `app_armor`.
    pub default: Defaults,
    /// Rules for some executables only.
    pub targets: Vec<TargetGroup>,
    /// Rules that another policy for the same container leaves without effect.
    pub inert: Vec<InertRule>,
    /// What only AppArmor has; there if and only if the policy names it.
    pub app_armor: Option<AppArmorPart>,
    /// Filters of system calls, one for each policy that names Seccomp. The kernel asks all filters of a task and does
    /// the strictest of what they say, so several of them need no merge.
    pub seccomp: Vec<OciSeccomp>,
}

impl Profile {
    /// The same name and enforcers, and nothing that is refused or logged.
    #[must_use]
    pub fn without_rules(&self) -> Self {
        Self {
            name: self.name.clone(),
            enforcers: self.enforcers,
            app_armor: self.app_armor.as_ref().map(|_| AppArmorPart::default()),
            seccomp: self.seccomp.iter().map(|_| OciSeccomp::allow_all()).collect(),
            ..Self::default()
        }
    }
}

/// What happens on a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProfileMode {
    /// Refused.
    #[default]
    Enforce,
    /// Logged and allowed.
    Complain,
}

/// One rule. A built-in rule of the catalogue becomes several of these, all with its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Built-in id (`disable-write-etc`), or the field path of a raw rule (`bpfRawRules.files[3]`), or the mode's
    /// own rules (`runtime-default`).
    pub id: String,
    pub origin: Origin,
    pub verdict: Verdict,
    pub object: Object,
    /// The enforcers that are to hold it.
    pub enforcers: Enforcers,
}

/// Where a rule was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `VarmorPolicy demo/web`.
    pub policy: String,
    /// `spec.policy.enhanceProtect.hardeningRules[2]`.
    pub field: String,
}

/// What a matching rule asks for. Deny with audit and plain deny refuse alike; both are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Deny,
    /// Allowed, and logged.
    Audit,
    /// Allowed in an allow-list profile; without meaning in a deny-list profile.
    Allow,
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// Files and executables by path pattern (syntax: `matcher::pattern`).
    Path {
        pattern: String,
        access: Access,
    },
    Capability(CapabilitySet),
    Socket(SocketRule),
    Egress(EgressRule),
    /// Connections and datagrams to the pod's own addresses on these ports (empty = every port). Only the node knows the
    /// addresses: [`Profile::for_pod`] fills them in.
    PodEgress(Vec<PortRange>),
    Ingress(IngressRule),
    Ptrace(PtraceRule),
    Mount(MountRule),
    Device(DeviceRule),
    /// Creating a user namespace.
    UserNamespace,
}

impl Object {
    /// The kinds of operations that the object is about.
    #[must_use]
    pub const fn kinds(&self) -> Kinds {
        match self {
            Self::Path { access, .. } => {
                let files = if access.0 & !abi::PERM_EXEC == 0 {
                    Kinds::NONE
                } else {
                    Kinds::FILES
                };
                let exec = if access.0 & abi::PERM_EXEC == 0 {
                    Kinds::NONE
                } else {
                    Kinds::EXEC
                };
                files.with(exec)
            }
            Self::Capability(_) => Kinds::CAPABILITIES,
            Self::Socket(_) => Kinds::SOCKETS,
            Self::Egress(_) | Self::PodEgress(_) => Kinds::EGRESS,
            Self::Ptrace(_) => Kinds::PTRACE,
            Self::Mount(_) => Kinds::MOUNTS,
            Self::Ingress(_) => Kinds::INGRESS,
            // Deny-list only: no default speaks of them.
            Self::Device(_) | Self::UserNamespace => Kinds::NONE,
        }
    }
}

/// File permissions: `abi::PERM_*` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Access(pub u32);

impl Access {
    pub const READ: Self = Self(abi::PERM_READ);
    /// Writing includes appending, as in vArmor.
    pub const WRITE: Self = Self(abi::PERM_WRITE | abi::PERM_APPEND);
    pub const APPEND: Self = Self(abi::PERM_APPEND);
    pub const EXEC: Self = Self(abi::PERM_EXEC);
    pub const READ_WRITE: Self = Self(abi::PERM_READ | abi::PERM_WRITE | abi::PERM_APPEND);

    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Access {
    /// `rwax`, in this order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, letter) in [
            (abi::PERM_READ, 'r'),
            (abi::PERM_WRITE, 'w'),
            (abi::PERM_APPEND, 'a'),
            (abi::PERM_EXEC, 'x'),
        ] {
            if self.0 & bit != 0 {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

/// Capabilities as a bit set: bit n = capability number n (`include/uapi/linux/capability.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CapabilitySet(pub u64);

/// Sockets by domain, and by type or protocol. Empty list = every one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SocketRule {
    /// `AF_*` numbers.
    pub domains: Vec<u32>,
    /// `SOCK_*` numbers without flags.
    pub types: Vec<u32>,
    /// `IPPROTO_*` numbers, compared with the protocol that the socket really has.
    pub protocols: Vec<u32>,
}

/// Connections and datagrams to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressRule {
    /// `None` = every address of both families.
    pub network: Option<IpNet>,
    /// Empty = every port.
    pub ports: Vec<PortRange>,
}

/// Local addresses that the outside can reach: binding to them, listening and accepting on them.
///
/// An unspecified address stands for every local address: a rule that denies one of them denies it too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressRule {
    /// `None` = every address of both families.
    pub network: Option<IpNet>,
    /// Empty = every port, and those that the kernel chooses.
    pub ports: Vec<PortRange>,
}

/// `first..=last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

/// Ptrace permissions: `abi::PTRACE_*` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PtraceAccess(pub u32);

/// Towards whom a ptrace rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtraceScope {
    /// Every peer, also in the same container.
    All,
    /// Peers that are not in the same container.
    Outside,
    /// Peers in the same container.
    Inside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtraceRule {
    pub access: PtraceAccess,
    pub scope: PtraceScope,
}

/// Mounts, remounts, moves and unmounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountRule {
    /// Pattern of the source (for an unmount and a move: of the mount point). `**` = every source.
    pub source: String,
    /// `None` = every type; only calls that create a filesystem instance have one.
    pub fstype: Option<String>,
    /// Matches if one of these flags is set (`MS_*`, and `abi::MOUNT_UMOUNT`) ...
    pub any: u32,
    /// ... or one of these is clear.
    pub none: u32,
}

/// Device accesses: `abi::DEVICE_*` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DeviceAccess(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    Character,
    Block,
    Any,
}

/// Devices by number, whatever their name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRule {
    pub kind: DeviceKind,
    /// `None` = every device of the kind.
    pub major: Option<u32>,
    /// `None` = every minor of the major.
    pub minor: Option<u32>,
    pub access: DeviceAccess,
}
