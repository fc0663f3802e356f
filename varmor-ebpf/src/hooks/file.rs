//! Files: opening them, and everything that changes them or their names.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use varmor_common::abi::{
    EVENT_FILE, MASK_ALLOW, MASK_AUDIT, MASK_DENY, OWN_FOLDER, PERM_ALL, PERM_APPEND, PERM_READ, PERM_STRUCT,
    PERM_WRITE, operation, patch,
};

use super::{device, guard, subject_or_return};
use crate::{
    audit::What,
    field::{address, half, pointer},
    identity::{self, Subject, Who},
    kernel::{Typed, is_zero, probe, probe_or_zero, raw_argument, scalar},
    offsets::{DENTRY_INODE, FILE_PATH, INODE_MODE, PATH_DENTRY, PATH_MNT},
    path::walk,
    verdict::{ALLOW, DENY, file, file_within, lost},
};

const FMODE_READ: u32 = 1;
const FMODE_WRITE: u32 = 2;
/// Kernel-internal open of an object that was already judged (overlayfs opens its layers this way).
const FMODE_NOACCOUNT: u32 = 0x2000_0000;
const O_TRUNC: u32 = 0o1000;
const O_APPEND: u32 = 0o2000;
/// `__FMODE_EXEC` in `f_flags`: the open belongs to an exec, which `bprm_check_security` judges.
const FMODE_EXEC: u32 = 0x20;
const S_IFMT: u64 = 0o170_000;
const S_IFDIR: u64 = 0o040_000;

#[lsm(hook = "file_open")]
pub fn file_open(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::OPEN);
    let Some(label) = identity::current_label() else {
        return ALLOW;
    };
    let opened: Typed = ctx.arg(0);
    // SAFETY: `opened` is the hook's argument.
    let (mode, flags) = unsafe {
        (
            half::<{ patch::FILE_MODE }>(opened) as u32,
            half::<{ patch::FILE_FLAGS }>(opened) as u32,
        )
    };
    if mode & FMODE_NOACCOUNT != 0 || flags & FMODE_EXEC != 0 {
        return ALLOW;
    }
    let subject = match identity::subject(label) {
        Who::Free => return ALLOW,
        Who::Subject(subject) => subject,
        Who::Lost(fault) => return lost(WHAT, fault),
    };
    let mut request = 0;
    if mode & FMODE_READ != 0 {
        request |= PERM_READ;
    }
    if mode & FMODE_WRITE != 0 {
        request |= if flags & O_APPEND != 0 {
            PERM_APPEND
        } else {
            PERM_WRITE
        };
    }
    if flags & O_TRUNC != 0 {
        request |= PERM_WRITE;
    }
    if device::open(&subject, opened, request) != ALLOW {
        return DENY;
    }
    open_file(&subject, WHAT, opened, request)
}

/// `ftruncate` from 6.2 on; before, `path_truncate` covers it.
#[lsm(hook = "file_truncate")]
pub fn file_truncate(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::TRUNCATE);
    let subject = subject_or_return!(WHAT);
    open_file(&subject, WHAT, ctx.arg(0), PERM_WRITE)
}

#[lsm(hook = "path_truncate")]
pub fn path_truncate(ctx: LsmContext) -> i32 {
    one_path(&ctx, What::new(EVENT_FILE, operation::TRUNCATE))
}

#[lsm(hook = "path_chmod")]
pub fn path_chmod(ctx: LsmContext) -> i32 {
    one_path(&ctx, What::new(EVENT_FILE, operation::CHMOD))
}

/// Not on 5.10, whose trampoline cannot pass the ids by value.
#[lsm(hook = "path_chown")]
pub fn path_chown(ctx: LsmContext) -> i32 {
    one_path(&ctx, What::new(EVENT_FILE, operation::CHOWN))
}

#[lsm(hook = "path_mknod")]
pub fn path_mknod(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::MKNOD);
    let subject = subject_or_return!(WHAT);
    let place = || {
        (
            raw_argument::<1>(&ctx).unwrap_or(0),
            scalar(ctx.arg(0), PATH_MNT.load()).unwrap_or(0),
        )
    };
    if device::make(&subject, ctx.arg(2), ctx.arg(3), place) != ALLOW {
        return DENY;
    }
    named::<0, 1, ENTRY>(&ctx, &subject, WHAT, PERM_WRITE, &mut { EVERYTHING })
}

#[lsm(hook = "path_mkdir")]
pub fn path_mkdir(ctx: LsmContext) -> i32 {
    entry(&ctx, What::new(EVENT_FILE, operation::MKDIR), PERM_WRITE)
}

#[lsm(hook = "path_rmdir")]
pub fn path_rmdir(ctx: LsmContext) -> i32 {
    entry(
        &ctx,
        What::new(EVENT_FILE, operation::RMDIR),
        PERM_WRITE | PERM_STRUCT,
    )
}

#[lsm(hook = "path_unlink")]
pub fn path_unlink(ctx: LsmContext) -> i32 {
    entry(&ctx, What::new(EVENT_FILE, operation::UNLINK), PERM_WRITE)
}

/// Judges the new name; where the link points to is judged when it is followed, by the object found there.
#[lsm(hook = "path_symlink")]
pub fn path_symlink(ctx: LsmContext) -> i32 {
    entry(&ctx, What::new(EVENT_FILE, operation::SYMLINK), PERM_WRITE)
}

/// A second name must not free an object from its rules: the old name needs every right that a rule could take.
/// The kernel refuses links across mounts, so the new folder's mount is the old name's mount too.
#[lsm(hook = "path_link")]
pub fn path_link(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::LINK);
    let subject = subject_or_return!(WHAT);
    let mut allowed = EVERYTHING;
    if named::<1, 0, AWAY>(&ctx, &subject, WHAT, PERM_ALL, &mut allowed) != ALLOW {
        return DENY;
    }
    named::<1, 2, ENTRY>(&ctx, &subject, WHAT, PERM_WRITE, &mut allowed)
}

/// Moving an object away must not free it from its rules, and neither must moving a folder above it: the old name
/// needs every right, and folders that a protected path passes through stay. Both names are judged alike, so that
/// `RENAME_EXCHANGE` is covered, which 5.19 and later ask only once.
#[lsm(hook = "path_rename")]
pub fn path_rename(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::RENAME);
    let subject = subject_or_return!(WHAT);
    let Some(old) = raw_argument::<1>(&ctx) else {
        return DENY;
    };
    let mut allowed = EVERYTHING;
    let request = PERM_ALL | folder_bit(mode_of(old));
    if named::<0, 1, AWAY>(&ctx, &subject, WHAT, request, &mut allowed) != ALLOW {
        return DENY;
    }
    let Some(new) = raw_argument::<3>(&ctx) else {
        return DENY;
    };
    // What is replaced loses its content; a name that is new needs no more than a creation does.
    let mode = mode_of(new);
    let replaced = (1 - is_zero(mode)) * PERM_ALL;
    let request = PERM_WRITE | replaced | folder_bit(mode);
    named::<2, 3, ENTRY>(&ctx, &subject, WHAT, request, &mut allowed)
}

#[inline(always)]
pub(super) fn open_file(subject: &Subject, what: What, opened: Typed, request: u32) -> i32 {
    if subject.profile.file_perms & request == 0 {
        return ALLOW;
    }
    // SAFETY: `opened` is a BTF pointer to a file.
    let (mount, dentry) = unsafe {
        (
            pointer::<{ patch::FILE_MNT }>(opened),
            pointer::<{ patch::FILE_DENTRY }>(opened),
        )
    };
    let Some(mount_address) = address(mount, opened, FILE_PATH.load() + PATH_MNT.load()) else {
        return DENY;
    };
    let collected = walk(subject, mount, mount_address, dentry, request);
    file(subject, what, request, collected, || {
        (
            scalar(opened, FILE_PATH.load() + PATH_DENTRY.load()).unwrap_or(0),
            mount_address,
        )
    })
}

/// A hook whose first argument is the path.
#[inline(always)]
fn one_path(ctx: &LsmContext, what: What) -> i32 {
    let subject = subject_or_return!(what);
    if subject.profile.file_perms & PERM_WRITE == 0 {
        return ALLOW;
    }
    let path: Typed = ctx.arg(0);
    // SAFETY: `path` is the hook's argument.
    let (mount, dentry) = unsafe {
        (
            pointer::<{ patch::PATH_MNT }>(path),
            pointer::<{ patch::PATH_DENTRY }>(path),
        )
    };
    let Some(mount_address) = address(mount, path, PATH_MNT.load()) else {
        return DENY;
    };
    let collected = walk(&subject, mount, mount_address, dentry, PERM_WRITE);
    file(&subject, what, PERM_WRITE, collected, || {
        (scalar(path, PATH_DENTRY.load()).unwrap_or(0), mount_address)
    })
}

/// A hook whose arguments are the folder's path and the entry's dentry.
#[inline(always)]
fn entry(ctx: &LsmContext, what: What, request: u32) -> i32 {
    let subject = subject_or_return!(what);
    named::<0, 1, ENTRY>(ctx, &subject, what, request, &mut { EVERYTHING })
}

/// What an allow-list must allow for changing an entry of a folder.
const ENTRY: u32 = PERM_WRITE | PERM_STRUCT;
/// What it must allow for giving an object another name: who may read and write it could as well copy it there.
const AWAY: u32 = PERM_READ | ENTRY;

/// Every permission: what an object that has no other name cannot gain anything over.
const EVERYTHING: u32 = 0xff;

/// Judges the entry that argument `DENTRY` of the hook names in the folder of argument `FOLDER`; an allow-list must
/// allow what is requested of `ALLOWED`. `before` holds what an allow-list allows for the object's other name, and then
/// what it allows for this one: a new name must not give more.
#[inline(always)]
fn named<const FOLDER: i32, const DENTRY: i32, const ALLOWED: u32>(
    ctx: &LsmContext,
    subject: &Subject,
    what: What,
    request: u32,
    before: &mut u32,
) -> i32 {
    if guard::is_pin(ctx.arg(DENTRY as usize), raw_argument::<DENTRY>(ctx)) {
        return guard::refuse(what.operation(), OWN_FOLDER, 0);
    }
    if subject.profile.file_perms & request == 0 {
        return ALLOW;
    }
    let path: Typed = ctx.arg(FOLDER as usize);
    // SAFETY: `path` is a path argument of the hook.
    let mount = unsafe { pointer::<{ patch::PATH_MNT }>(path) };
    let Some(mount_address) = address(mount, path, PATH_MNT.load()) else {
        return DENY;
    };
    let collected = walk(subject, mount, mount_address, ctx.arg(DENTRY as usize), request);
    let allowed = (collected >> MASK_ALLOW) as u32 & EVERYTHING;
    let gained = allowed & !*before;
    *before = allowed;
    let default = subject.profile.file_default;
    let gain = |shift: u32| (1 - is_zero(u64::from(default >> shift & gained))) << shift;
    let collected = collected | u64::from(PERM_WRITE * (gain(MASK_DENY) | gain(MASK_AUDIT)));
    file_within(subject, what, request, ALLOWED, collected, || {
        (raw_argument::<DENTRY>(ctx).unwrap_or(0), mount_address)
    })
}

/// The file mode behind the dentry at an address; 0 for a name without an object.
#[inline(always)]
fn mode_of(dentry: u64) -> u64 {
    let inode = probe::<u64>(dentry + u64::from(DENTRY_INODE.load())).unwrap_or(0);
    u64::from(probe_or_zero(inode + u64::from(INODE_MODE.load())))
}

/// `PERM_STRUCT` for a folder, nothing for any other object.
#[inline(always)]
fn folder_bit(mode: u64) -> u32 {
    is_zero((mode & S_IFMT) ^ S_IFDIR) * PERM_STRUCT
}
