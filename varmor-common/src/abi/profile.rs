//! The descriptor of a compiled profile: everything about it that is not a table.

use super::NetStarts;

/// Violations are logged and allowed.
pub const PROFILE_COMPLAIN: u32 = 1;
/// The profile has rules about filesystems (`proc`, `sysfs`, `cgroup`), which are judged at their root.
pub const PROFILE_FILESYSTEMS: u32 = 1 << 1;
/// The profile has socket rules.
pub const PROFILE_SOCKETS: u32 = 1 << 2;
/// The profile has rules about destinations.
pub const PROFILE_EGRESS: u32 = 1 << 3;
/// The profile has rules about local addresses that the outside can reach.
pub const PROFILE_INGRESS: u32 = 1 << 12;

/// 64 Kbit: one look-up in thirty is in vain at 2,000 different names, one in seven at 10,000.
pub const BLOOM_WORDS: usize = 1024;
pub const MAX_MOUNT_CLASSES: usize = 63;

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
    /// Permissions that are denied unless a rule allows them (allow-list profiles).
    pub file_default: u32,
    pub file_start: u32,
    pub mount_start: u32,
    pub mount_classes: u32,
    pub caps_deny: u64,
    pub caps_audit: u64,
    /// Site per capability.
    pub cap_sites: [u32; 64],
    pub ptrace: PtraceRules,
    pub net: NetStarts,
    /// Word `(h >> 6) % BLOOM_WORDS`, bit `h % 64`: may a transition with symbol `h` exist?
    pub bloom: [u64; BLOOM_WORDS],
    pub mounts: [MountClass; 64],
}
const _: () = assert!(size_of::<Descriptor>() == 48 + 256 + 48 + 2312 + 8192 + 1536);

impl Default for Descriptor {
    fn default() -> Self {
        Self {
            generation: 0,
            slot: 0,
            flags: 0,
            file_perms: 0,
            file_default: 0,
            file_start: 0,
            mount_start: 0,
            mount_classes: 0,
            caps_deny: 0,
            caps_audit: 0,
            cap_sites: [0; 64],
            ptrace: PtraceRules::default(),
            net: NetStarts::default(),
            bloom: [0; BLOOM_WORDS],
            mounts: [MountClass::default(); 64],
        }
    }
}
