//! Attributes of files: extended attributes, ACLs, owners, times, flags.
//!
//! Most of these hooks are told a dentry and no mount. What the system call knew is not asked for: an fentry program
//! on `mnt_want_write` could note it, but it would run in every create, remove and rename of the whole machine, and the
//! kernel leaves a tracing program out that is already running on the processor. So the object is judged under every
//! name that it has in the task's mount namespace.

use aya_ebpf::{helpers::generated::bpf_get_current_task, macros::lsm, programs::LsmContext};
use varmor_common::abi::{EVENT_FILE, PERM_WRITE, operation};

use super::{file::open_file, subject_or_return};
use crate::{
    alias::{everywhere, root_mount},
    audit::What,
    credentials,
    kernel::{probe, raw_argument},
    offsets::{
        IATTR_VALID, SETATTR_DENTRY, SETATTR_OWNER, TASK_CRED, TASK_FLAGS, TASK_REAL_CRED, XATTR_DENTRY,
    },
    verdict::{ALLOW, DENY, file},
};

const ATTR_OWNER: u32 = 1 << 1 | 1 << 2;
/// Times that a program gave (`ATTR_{ATIME,MTIME}_SET`, `ATTR_TIMES_SET`), or the time of now (`ATTR_TOUCH`).
const ATTR_TIMES: u32 = 1 << 7 | 1 << 8 | 1 << 16 | 1 << 17;

const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC32_SETFLAGS: u32 = 0x4004_6602;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const FS_IOC_SETVERSION: u32 = 0x4008_7602;
const FS_IOC32_SETVERSION: u32 = 0x4004_7602;

/// The thread works for `io_uring`, under credentials of requests.
const PF_IO_WORKER: u32 = 0x10;

/// Times, and owners where `path_chown` cannot be used. Modes and sizes have hooks with a path.
#[lsm(hook = "inode_setattr")]
pub fn inode_setattr(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::SETATTR);
    let (dentry, attributes) = if SETATTR_DENTRY.load() == 0 {
        (raw_argument::<0>(&ctx), raw_argument::<1>(&ctx))
    } else {
        (raw_argument::<1>(&ctx), raw_argument::<2>(&ctx))
    };
    let valid = attributes.and_then(|attributes| probe::<u32>(attributes + u64::from(IATTR_VALID.load())));
    let judged = if SETATTR_OWNER.load() == 0 {
        ATTR_TIMES
    } else {
        ATTR_TIMES | ATTR_OWNER
    };
    // What cannot be read counts as everything.
    if valid.unwrap_or(u32::MAX) & judged == 0 {
        return ALLOW;
    }
    object(WHAT, dentry)
}

#[lsm(hook = "inode_setxattr")]
pub fn inode_setxattr(ctx: LsmContext) -> i32 {
    xattr(&ctx, What::new(EVENT_FILE, operation::SETXATTR))
}

#[lsm(hook = "inode_removexattr")]
pub fn inode_removexattr(ctx: LsmContext) -> i32 {
    xattr(&ctx, What::new(EVENT_FILE, operation::REMOVEXATTR))
}

/// ACLs from 6.2 on; before, they are extended attributes.
#[lsm(hook = "inode_set_acl")]
pub fn inode_set_acl(ctx: LsmContext) -> i32 {
    object(What::new(EVENT_FILE, operation::SETACL), raw_argument::<1>(&ctx))
}

#[lsm(hook = "inode_remove_acl")]
pub fn inode_remove_acl(ctx: LsmContext) -> i32 {
    object(What::new(EVENT_FILE, operation::SETACL), raw_argument::<1>(&ctx))
}

/// `file_setattr(2)` and `chattr` from 6.17 on; before, `file_ioctl` covers it.
#[lsm(hook = "inode_file_setattr")]
pub fn inode_file_setattr(ctx: LsmContext) -> i32 {
    object(What::new(EVENT_FILE, operation::IOCTL), raw_argument::<0>(&ctx))
}

/// The commands of `chattr`. Devices and sockets have commands of their own, which are no change of the file.
#[lsm(hook = "file_ioctl")]
pub fn file_ioctl(ctx: LsmContext) -> i32 {
    ioctl(&ctx)
}

#[lsm(hook = "file_ioctl_compat")]
pub fn file_ioctl_compat(ctx: LsmContext) -> i32 {
    ioctl(&ctx)
}

#[inline(always)]
fn ioctl(ctx: &LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::IOCTL);
    let command: u32 = ctx.arg(1);
    if !matches!(
        command,
        FS_IOC_SETFLAGS | FS_IOC32_SETFLAGS | FS_IOC_FSSETXATTR | FS_IOC_SETVERSION | FS_IOC32_SETVERSION
    ) {
        return ALLOW;
    }
    let subject = subject_or_return!(WHAT);
    open_file(&subject, WHAT, ctx.arg(0), PERM_WRITE)
}

#[inline(always)]
fn xattr(ctx: &LsmContext, what: What) -> i32 {
    let dentry = if XATTR_DENTRY.load() == 0 {
        raw_argument::<0>(ctx)
    } else {
        raw_argument::<1>(ctx)
    };
    object(what, dentry)
}

#[inline(always)]
fn object(what: What, dentry: Option<u64>) -> i32 {
    let subject = subject_or_return!(what);
    if subject.profile.file_perms & PERM_WRITE == 0 || is_internal() {
        return ALLOW;
    }
    let Some(dentry) = dentry else {
        return DENY;
    };
    let collected = everywhere(&subject, dentry, PERM_WRITE);
    // On another mount than the namespace's root, the event's path ends at the root of the filesystem.
    file(&subject, what, PERM_WRITE, collected, || {
        (dentry, root_mount().unwrap_or(0))
    })
}

/// Whether the kernel works on its own behalf here: overlayfs changes its layers under the credential of its mounter,
/// after the same operation on the overlay was judged. A personality of `io_uring` also is another credential; workers
/// are known by a flag, and in the task itself `uring_override_creds` refuses strange ones.
#[inline(always)]
fn is_internal() -> bool {
    // SAFETY: the helper has no precondition.
    let task = unsafe { bpf_get_current_task() };
    let credential = probe::<u64>(task + u64::from(TASK_CRED.load()));
    let own = probe::<u64>(task + u64::from(TASK_REAL_CRED.load()));
    let (Some(credential), Some(own)) = (credential, own) else {
        return false;
    };
    if credential == own {
        return false;
    }
    let flags = probe::<u32>(task + u64::from(TASK_FLAGS.load())).unwrap_or(PF_IO_WORKER);
    flags & PF_IO_WORKER == 0 && !credentials::contains(credential)
}
