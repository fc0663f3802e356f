//! Audit events as the kernel programs write them.

/// What happened: the first field of an event.
pub const EVENT_FILE: u32 = 1;
pub const EVENT_EXEC: u32 = 2;
pub const EVENT_CAPABILITY: u32 = 3;
pub const EVENT_SOCKET: u32 = 4;
pub const EVENT_CONNECT: u32 = 5;
pub const EVENT_MOUNT: u32 = 6;
pub const EVENT_PTRACE: u32 = 7;
/// A task reached for the enforcer's own maps, programs, links or process.
pub const EVENT_GUARD: u32 = 20;
pub const EVENT_NAMESPACE: u32 = 21;

/// The operation was refused by a rule.
pub const ACTION_DENIED: u32 = 1;
/// The operation was allowed and a rule asked for an audit record.
pub const ACTION_AUDIT: u32 = 2;
/// The operation would have been refused; the profile is in complain mode.
pub const ACTION_ALLOWED: u32 = 3;
/// The operation was refused because it could not be judged; `fault` says why.
pub const ACTION_FAULT: u32 = 4;

/// Why an operation could not be judged.
pub const FAULT_NONE: u32 = 0;
/// The path is deeper than `MAX_DEPTH`.
pub const FAULT_DEPTH: u32 = 1;
/// The object is on a mount that belongs to no mount namespace.
pub const FAULT_DETACHED: u32 = 2;
/// The dentry has no way to a root.
pub const FAULT_DISCONNECTED: u32 = 3;
/// Kernel memory could not be read.
pub const FAULT_READ: u32 = 4;
/// A map of the profile has no entry where one must be.
pub const FAULT_TABLE: u32 = 5;
/// The container of the task is gone and its entry was reused.
pub const FAULT_ORPHAN: u32 = 6;
/// The label of the child could not be stored.
pub const FAULT_LABEL: u32 = 7;
/// A string is longer than what is judged.
pub const FAULT_LENGTH: u32 = 8;
/// The mounts of the namespace are too many to look through, or changed meanwhile.
pub const FAULT_MOUNTS: u32 = 9;
/// A container would start, and there is no agent to say what it may do.
pub const FAULT_ABSENT: u32 = 10;
/// Number of fault reasons, for the counter map.
pub const FAULTS: u32 = 11;

/// Operation codes: which hook asked.
pub mod operation {
    pub const OPEN: u32 = 1;
    pub const TRUNCATE: u32 = 2;
    pub const CREATE: u32 = 3;
    pub const UNLINK: u32 = 4;
    pub const MKDIR: u32 = 5;
    pub const RMDIR: u32 = 6;
    pub const MKNOD: u32 = 7;
    pub const SYMLINK: u32 = 8;
    pub const LINK: u32 = 9;
    pub const RENAME: u32 = 10;
    pub const CHMOD: u32 = 11;
    pub const CHOWN: u32 = 12;
    pub const EXEC: u32 = 13;
    pub const MMAP_EXEC: u32 = 14;
    pub const MPROTECT_EXEC: u32 = 15;
    pub const CAPABLE: u32 = 16;
    pub const SOCKET_CREATE: u32 = 17;
    pub const CONNECT: u32 = 18;
    pub const SENDMSG: u32 = 19;
    pub const MOUNT: u32 = 20;
    pub const UMOUNT: u32 = 21;
    pub const MOVE_MOUNT: u32 = 22;
    pub const PIVOT_ROOT: u32 = 23;
    pub const PTRACE: u32 = 24;
    pub const TRACEME: u32 = 25;
    pub const SETATTR: u32 = 26;
    pub const FORK: u32 = 27;
    pub const BIND: u32 = 28;
    pub const LISTEN: u32 = 29;
    pub const ACCEPT: u32 = 30;
    pub const SETXATTR: u32 = 40;
    pub const REMOVEXATTR: u32 = 41;
    pub const SETACL: u32 = 42;
    pub const IOCTL: u32 = 43;
    pub const BPF: u32 = 44;
    pub const KILL: u32 = 45;
    pub const USERNS: u32 = 46;
    pub const PERSONALITY: u32 = 47;
}

/// Ancestors in an event: the task's parent first.
pub const EVENT_ANCESTORS: usize = 4;
/// Texts of an event: the object's path, the task's executable, the ancestors' executables.
pub const EVENT_TEXTS: usize = 2 + EVENT_ANCESTORS;
/// Bytes for all texts of one event: a multiple of 8 below 8192.
pub const EVENT_TEXT: usize = 8184;
/// Longest path of an object (`PATH_MAX`), of an executable, of an ancestor's executable; a longer one keeps its
/// tail, and so does one with more components and mount crossings than are judged (`MAX_DEPTH`).
pub const EVENT_PATH: usize = 4096;
pub const EVENT_EXE: usize = 3056;
pub const EVENT_ANCESTOR_EXE: usize = 256;
const _: () = assert!(EVENT_PATH + EVENT_EXE + EVENT_ANCESTORS * EVENT_ANCESTOR_EXE <= EVENT_TEXT);

/// One ancestor of the task.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ancestor {
    pub tgid: u32,
    pub _pad: u32,
    pub comm: [u8; 16],
}
const _: () = assert!(size_of::<Ancestor>() == 24);

/// The fixed part of an audit event. The texts follow it and end with the event, in this order from the end: the
/// object's path, the executable, the ancestors' executables; up to seven bytes before them mean nothing.
///
/// The four `data` words depend on `kind`: capability: [number]; socket: [domain, type, protocol]; connect:
/// [address high, address low (big-endian order as integers, IPv4 as v4-mapped), port in the low half and family in
/// the high one]; mount: [flags, 8 bytes of the type, 8 more bytes]; ptrace: [permission bits, peer tgid, outside
/// 0/1]; guard: [`OWN_*`, id]; without meaning for files, executables and namespaces.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawEvent {
    pub kind: u32,
    pub operation: u32,
    pub action: u32,
    pub fault: u32,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    pub cgroup: u64,
    /// Equal for equal events (same rules, operation, object and process): see `Recent`.
    pub identity: u64,
    pub slot: u32,
    pub generation: u32,
    /// Target groups that the task is in.
    pub domain: u32,
    pub site: u32,
    /// Requested permission bits.
    pub requested: u32,
    /// Equal events that were counted and not written since the last one.
    pub repeated: u32,
    pub tgid: u32,
    pub tid: u32,
    pub uid: u32,
    pub gid: u32,
    /// Inode number of the task's mount namespace.
    pub mount_namespace: u32,
    pub _pad: u32,
    pub data: [u64; 4],
    pub comm: [u8; 16],
    pub ancestors: [Ancestor; EVENT_ANCESTORS],
    /// Lengths of the texts.
    pub lengths: [u16; EVENT_TEXTS],
    /// Bit per text: it is only the tail.
    pub tails: u16,
    pub _pad2: u16,
}
const _: () = assert!(size_of::<RawEvent>() == 88 + 32 + 16 + 96 + 16);

/// Equal events within this time (nanoseconds) are one.
pub const REPEAT_WINDOW: u64 = 1_000_000_000;
/// Identities that are remembered at a time.
pub const MAX_RECENT: u32 = 4096;

/// What is remembered of an event, to recognise its repetitions.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// When the last one was written.
    pub since: u64,
    /// Equal ones since then.
    pub repeated: u64,
}
const _: () = assert!(size_of::<Recent>() == 16);

/// Rules that are counted at a time, over all profiles.
pub const MAX_HITS: u32 = 65_536;

/// Where a rule spoke.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HitKey {
    pub slot: u32,
    pub generation: u32,
    pub domain: u32,
    pub site: u32,
    /// Requested permission bits: they tell which of the site's rules spoke.
    pub requested: u32,
    pub _pad: u32,
}
const _: () = assert!(size_of::<HitKey>() == 24);

/// How often, and when an event of it was last written.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    pub count: u64,
    pub written: u64,
}
const _: () = assert!(size_of::<Hits>() == 16);

/// Numbers of one profile slot. Slot 0 takes what belongs to no profile, such as orphans.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    pub denied: u64,
    /// Allowed, with an event: audit rules and complain mode.
    pub audited: u64,
    /// Events that found no room.
    pub lost: u64,
    /// Events above the rate of the profile.
    pub limited: u64,
    /// Events that were equal to one of the last second.
    pub repeated: u64,
    /// Rules that could not be counted because the table was full.
    pub uncounted: u64,
    /// When the next event is due at the full rate (nanoseconds), for the limit.
    pub due: u64,
    pub _pad: u64,
}
const _: () = assert!(size_of::<SlotCounts>() == 64);
