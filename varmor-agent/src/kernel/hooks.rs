//! The table of hooks: which program sits on which hook, for which group of rules, and what is lost without it.

use varmor_common::compile::bpf::HookGroups;

/// The group of hooks that give tasks their identity; needed by every profile.
pub const IDENTITY: HookGroups = HookGroups(1 << 31);

/// One program of the kernel object. Program and hook have the same name.
#[derive(Clone, Copy, Debug)]
pub struct Hook {
    pub name: &'static str,
    /// The program is attached while a loaded profile needs one of these groups.
    pub groups: HookGroups,
    pub presence: Presence,
}

/// What a kernel without the hook means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Every supported kernel has it; without it the enforcer refuses to start.
    Required,
    /// The kernel covers the operation by another hook of the table.
    CoveredBy(&'static str),
    /// Only in the object for kernels whose labels are in a hash.
    TaskHash,
}

/// The enforcer's own objects; as identity, needed by every profile.
const GUARD: HookGroups = IDENTITY;
const FILE: HookGroups = HookGroups::FILE;
const EXEC: HookGroups = HookGroups::EXEC;
const CAPABILITY: HookGroups = HookGroups::CAPABILITY;
const SOCKET: HookGroups = HookGroups::SOCKET;
const EGRESS: HookGroups = HookGroups::EGRESS;
const INGRESS: HookGroups = HookGroups::INGRESS;
const UNIX: HookGroups = HookGroups::UNIX;
const MOUNT: HookGroups = HookGroups::MOUNT;
const PTRACE: HookGroups = HookGroups::PTRACE;
const ATTRIBUTE: HookGroups = HookGroups::ATTRIBUTE;
const NAMESPACE: HookGroups = HookGroups::NAMESPACE;
/// A mount over a protected path concerns file rules too.
const MOUNT_AND_FILE: HookGroups = MOUNT.union(FILE);
/// Devices are opened, made and mounted.
const FILE_AND_DEVICE: HookGroups = FILE.union(HookGroups::DEVICE);
const MOUNT_AND_DEVICE: HookGroups = MOUNT.union(HookGroups::DEVICE);
/// Pins are removed and renamed like files.
const FILE_AND_GUARD: HookGroups = FILE.union(GUARD);
/// Both hold for credentials that a kernel thread of `io_uring` may take on.
const CREDENTIAL: HookGroups = CAPABILITY.union(ATTRIBUTE);

/// What a kernel without the hook `userns_create` (before 6.1) has for the purpose.
const NO_USERNS: &str = "seccomp (the Seccomp enforcer), or capability rules: deny CAP_SYS_ADMIN";

use Presence::{CoveredBy, Required, TaskHash};

/// All programs, identity first: they are attached in this order.
pub const HOOKS: &[Hook] = &[
    hook("task_alloc", IDENTITY, Required),
    hook("task_free", IDENTITY, TaskHash),
    hook("bprm_check_security", IDENTITY, Required),
    hook("cred_prepare", CAPABILITY, Required),
    hook("cred_transfer", CAPABILITY, Required),
    hook("cred_free", CAPABILITY, Required),
    hook("capable", CAPABILITY, Required),
    hook("file_open", FILE_AND_DEVICE, Required),
    hook("file_truncate", FILE, CoveredBy("path_truncate")),
    hook("path_truncate", FILE, Required),
    hook("path_chmod", FILE, Required),
    hook("path_chown", FILE, CoveredBy("inode_setattr")),
    hook("path_mknod", FILE_AND_DEVICE, Required),
    hook("path_mkdir", FILE, Required),
    hook("path_rmdir", FILE_AND_GUARD, Required),
    hook("path_unlink", FILE_AND_GUARD, Required),
    hook("path_symlink", FILE, Required),
    hook("path_link", FILE, Required),
    hook("path_rename", FILE_AND_GUARD, Required),
    hook("bprm_committing_creds", HookGroups::TARGET, Required),
    hook("mmap_file", EXEC, Required),
    hook("file_mprotect", EXEC, Required),
    hook("socket_create", SOCKET, Required),
    hook("socket_connect", EGRESS, Required),
    hook("socket_sendmsg", EGRESS, Required),
    hook("socket_bind", INGRESS, Required),
    hook("socket_listen", INGRESS, Required),
    hook("socket_accept", INGRESS, Required),
    hook(
        "sctp_bind_connect",
        EGRESS.union(INGRESS),
        CoveredBy("nothing: addresses that SCTP sockets get by setsockopt are not judged on this kernel"),
    ),
    hook("unix_stream_connect", UNIX, Required),
    hook("unix_may_send", UNIX, Required),
    hook("sb_mount", MOUNT_AND_FILE, Required),
    hook("inode_follow_link", MOUNT, Required),
    hook("move_mount", MOUNT_AND_FILE, Required),
    hook("sb_kern_mount", MOUNT_AND_DEVICE, Required),
    hook("sb_umount", MOUNT_AND_FILE, Required),
    hook("sb_pivotroot", MOUNT_AND_FILE, Required),
    hook("sb_remount", MOUNT, Required),
    hook("inode_setattr", ATTRIBUTE, Required),
    hook("inode_setxattr", ATTRIBUTE, Required),
    hook("inode_removexattr", ATTRIBUTE, Required),
    hook("inode_set_acl", ATTRIBUTE, CoveredBy("inode_setxattr")),
    hook("inode_remove_acl", ATTRIBUTE, CoveredBy("inode_removexattr")),
    hook("inode_file_setattr", ATTRIBUTE, CoveredBy("file_ioctl")),
    hook("file_ioctl", ATTRIBUTE, Required),
    hook(
        "file_ioctl_compat",
        ATTRIBUTE,
        CoveredBy("nothing: chattr of 32-bit programs is not judged on this kernel"),
    ),
    hook("userns_create", NAMESPACE, CoveredBy(NO_USERNS)),
    hook(
        "uring_override_creds",
        CREDENTIAL,
        CoveredBy(
            "the set of protected credentials; a ring that was made outside and passed in is not judged",
        ),
    ),
    hook("bpf", GUARD, Required),
    hook("bpf_map", GUARD, Required),
    hook("bpf_prog", GUARD, Required),
    hook("task_kill", GUARD, Required),
    hook("ptrace_access_check", PTRACE.union(GUARD), Required),
    hook("ptrace_traceme", PTRACE, Required),
];

const fn hook(name: &'static str, groups: HookGroups, presence: Presence) -> Hook {
    Hook {
        name,
        groups,
        presence,
    }
}
