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
    /// Only in the object for kernels without task storage.
    TaskHash,
}

const FILE: HookGroups = HookGroups::FILE;
const EXEC: HookGroups = HookGroups::EXEC;
const CAPABILITY: HookGroups = HookGroups::CAPABILITY;
const SOCKET: HookGroups = HookGroups::SOCKET;
const EGRESS: HookGroups = HookGroups::EGRESS;
const INGRESS: HookGroups = HookGroups::INGRESS;
const UNIX: HookGroups = HookGroups::UNIX;
const MOUNT: HookGroups = HookGroups::MOUNT;
const PTRACE: HookGroups = HookGroups::PTRACE;
/// A mount over a protected path concerns file rules too.
const MOUNT_AND_FILE: HookGroups = MOUNT.union(FILE);

use Presence::{CoveredBy, Required, TaskHash};

/// All programs, identity first: they are attached in this order.
pub const HOOKS: &[Hook] = &[
    hook("task_alloc", IDENTITY, Required),
    hook("task_free", IDENTITY, TaskHash),
    hook("bprm_creds_for_exec", IDENTITY, Required),
    hook("cred_prepare", CAPABILITY, Required),
    hook("cred_transfer", CAPABILITY, Required),
    hook("cred_free", CAPABILITY, Required),
    hook("capable", CAPABILITY, Required),
    hook("file_open", FILE, Required),
    hook("file_truncate", FILE, CoveredBy("path_truncate")),
    hook("path_truncate", FILE, Required),
    hook("path_chmod", FILE, Required),
    hook(
        "path_chown",
        FILE,
        CoveredBy("nothing: chown of a write-protected file is not refused on this kernel"),
    ),
    hook("path_mknod", FILE, Required),
    hook("path_mkdir", FILE, Required),
    hook("path_rmdir", FILE, Required),
    hook("path_unlink", FILE, Required),
    hook("path_symlink", FILE, Required),
    hook("path_link", FILE, Required),
    hook("path_rename", FILE, Required),
    hook("bprm_check_security", EXEC, Required),
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
    hook("move_mount", MOUNT_AND_FILE, Required),
    hook("sb_umount", MOUNT, Required),
    hook("sb_pivotroot", MOUNT, Required),
    hook("sb_remount", MOUNT, Required),
    hook("ptrace_access_check", PTRACE, Required),
    hook("ptrace_traceme", PTRACE, Required),
];

const fn hook(name: &'static str, groups: HookGroups, presence: Presence) -> Hook {
    Hook {
        name,
        groups,
        presence,
    }
}
