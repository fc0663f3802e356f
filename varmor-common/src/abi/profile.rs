//! The descriptor of a compiled profile: everything about it that is not a table.

use super::NetStarts;

/// Violations are logged and allowed.
pub const PROFILE_COMPLAIN: u32 = 1;
/// The profile has rules about filesystems (`proc`, `sysfs`, `cgroup`), which are judged at their root, or denies what
/// it does not allow.
pub const PROFILE_FILESYSTEMS: u32 = 1 << 1;
/// The profile has socket rules.
pub const PROFILE_SOCKETS: u32 = 1 << 2;
/// The profile has rules about destinations.
pub const PROFILE_EGRESS: u32 = 1 << 3;
/// The profile has device points.
pub const PROFILE_DEVICES: u32 = 1 << 8;
/// The profile has rules about local addresses that the outside can reach.
pub const PROFILE_INGRESS: u32 = 1 << 12;

/// `AAFS_MAGIC` (`include/uapi/linux/magic.h`): the filesystem behind `/sys/kernel/security/apparmor/policy`. It is on a
/// mount of the kernel's own, as pipes and memory files are, but a path leads to it.
pub const AAFS_MAGIC: u64 = 0x5a3c_69f0;

/// Slots of the filter in front of the transitions.
pub const FILTER: usize = 65_536;
/// Slots of the second filter, which is asked where a slot of the first has several symbols.
pub const FILTER_SEVERAL: usize = 16_384;
pub const MAX_MOUNT_CLASSES: usize = 63;
/// Most groups of executables with rules of their own.
pub const MAX_TARGETS: usize = 6;
/// Sets of target groups that a task can be in.
pub const DOMAINS: usize = 1 << MAX_TARGETS;

/// Ptrace permissions, as vArmor names them.
pub const PTRACE_TRACE: u32 = 1 << 1;
pub const PTRACE_READ: u32 = 1 << 2;
pub const PTRACE_TRACEBY: u32 = 1 << 3;
pub const PTRACE_READBY: u32 = 1 << 4;

/// The pseudo mount flag of an unmount; it is a bit that mount(2) itself does not use (`MS_NOSYMFOLLOW` is
/// 0x100, 0x200 is free), and the programs never take it from user space.
pub const MOUNT_UMOUNT: u32 = 0x200;

/// A mount class: a distinct combination of flags, filesystem type and verdict. A call is in the class if
/// `flags & any != 0 || !flags & none != 0`, and `fstype` is 0 or the hash of the type.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountClass {
    pub any: u32,
    pub none: u32,
    /// `matcher::hash` of the filesystem type; 0 = every type.
    pub fstype: u64,
    /// `VERDICT_*` bits.
    pub verdict: u32,
    pub site: u32,
}
const _: () = assert!(size_of::<MountClass>() == 24);

/// Ptrace permissions denied and audited, towards every peer and towards peers of other containers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PtraceRules {
    pub deny_all: u32,
    pub deny_outside: u32,
    pub audit_all: u32,
    pub audit_outside: u32,
    /// Site per permission bit (index = bit number), deny before audit.
    pub sites: [u32; 8],
}
const _: () = assert!(size_of::<PtraceRules>() == 48);

/// Everything about a compiled profile that is not a table.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Number of the compilation, for events.
    pub generation: u32,
    /// Profile slot, for events.
    pub slot: u32,
    /// `PROFILE_*` bits.
    pub flags: u32,
    /// Union of the permissions that some file rule names, with `PERM_STRUCT`.
    pub file_perms: u32,
    /// Permissions that need an allowing rule (allow-list profiles), as masks like those of a state: without one
    /// they are denied (`<< MASK_DENY`) or audited (`<< MASK_AUDIT`).
    pub file_default: u32,
    pub file_start: u32,
    /// Flags of the state `file_start`.
    pub file_start_flags: u32,
    pub mount_start: u32,
    pub mount_classes: u32,
    /// `VERDICT_*` bits of a mount that no class allows (allow-list profiles); 0 = allowed.
    pub mount_default: u32,
    /// Start of the automaton that reads the path of a new executable and collects, as `now` and `root`, the
    /// target groups that the task enters: bit n = group n. Meaningless while `targets` is 0.
    pub target_start: u32,
    /// Number of target groups.
    pub targets: u32,
    /// `VERDICT_*` bits about creating a user namespace.
    pub user_namespace: u32,
    pub user_namespace_site: u32,
    pub caps_deny: u64,
    pub caps_audit: u64,
    /// Site per capability.
    pub cap_sites: [u32; 64],
    pub ptrace: PtraceRules,
    pub net: NetStarts,
    pub mounts: [MountClass; 64],
    /// By `Label::domain`: index of the artefact that holds for a task in these target groups; 0 = this one. The
    /// loader fills it in.
    pub domains: [u32; DOMAINS],
    /// May a transition with a symbol exist? See `matcher::filter`.
    pub filter: [u8; FILTER],
    pub filter_several: [u8; FILTER_SEVERAL],
}
const _: () = assert!(size_of::<Descriptor>() == 72 + 256 + 48 + 2824 + 1536 + 256 + 65_536 + 16_384);

impl Default for Descriptor {
    #[expect(
        clippy::large_stack_arrays,
        reason = "the filter is a part of the structure, which the kernel reads as one value"
    )]
    fn default() -> Self {
        Self {
            generation: 0,
            slot: 0,
            flags: 0,
            file_perms: 0,
            file_default: 0,
            file_start: 0,
            file_start_flags: 0,
            mount_start: 0,
            mount_classes: 0,
            mount_default: 0,
            target_start: 0,
            targets: 0,
            user_namespace: 0,
            user_namespace_site: 0,
            caps_deny: 0,
            caps_audit: 0,
            cap_sites: [0; 64],
            ptrace: PtraceRules::default(),
            net: NetStarts::default(),
            mounts: [MountClass::default(); 64],
            domains: [0; DOMAINS],
            filter: [0; FILTER],
            filter_several: [0; FILTER_SEVERAL],
        }
    }
}
