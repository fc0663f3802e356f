//! Mounts. What the new mount API builds without a hook (`open_tree`, `fsmount`, `mount_setattr`) is caught when
//! it is moved into place, and by the end-of-walk check, which denies files on detached mounts.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use varmor_common::abi::{EVENT_FILE, EVENT_MOUNT, MOUNT_UMOUNT, PERM_STRUCT, PERM_WRITE, operation};

use super::subject_or_return;
use crate::{
    audit::What,
    identity::Subject,
    kernel::{Typed, pointer, probe, raw_argument},
    mount::{
        EVERY_CLASS, MS_BIND, MS_MOVE, MS_REMOUNT, NO_INSTANCE, mount_verdict, no_type, short_string_hash,
        source_classes,
    },
    offsets::{FSTYPE_NAME, PATH_DENTRY, PATH_MNT, SB_TYPE, VFSMOUNT_SB},
    path::{COLLECT_CLASSES, MOUNT_FAULT, climb, is_detached, pack, path_addresses, walk},
    verdict::{ALLOW, DENY, file, lost, point},
};

/// mount(2). The source is a string here, so a relative one is taken for every source.
#[lsm(hook = "sb_mount")]
pub fn sb_mount(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_MOUNT, operation::MOUNT);
    let subject = subject_or_return!(WHAT);
    let flags: u64 = ctx.arg(3);
    // Bits that user space must not be able to set for itself.
    let flags = flags as u32 & !MOUNT_UMOUNT;
    let (Some(source), Some(fstype)) = (raw_argument::<0>(&ctx), raw_argument::<2>(&ctx)) else {
        return DENY;
    };
    if subject.profile.mount_classes != 0 {
        let typed = if flags & NO_INSTANCE != 0 {
            no_type()
        } else {
            type_at(fstype)
        };
        let classes = if flags & MS_REMOUNT != 0 {
            EVERY_CLASS
        } else {
            classes_of(subject.artefact, source, flags)
        };
        let verdict = conclude(&subject, WHAT, flags, typed, classes, fstype);
        if verdict != ALLOW {
            return DENY;
        }
    }
    target(&ctx, 1, &subject)
}

/// A mount over a protected path, or over a folder that one passes through, would replace it.
#[inline(always)]
fn target(ctx: &LsmContext, argument: usize, subject: &Subject) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::MOUNT);
    const REQUEST: u32 = PERM_WRITE | PERM_STRUCT;
    if subject.profile.file_perms & REQUEST == 0 {
        return ALLOW;
    }
    let path: Typed = ctx.arg(argument);
    // SAFETY: `path` is the hook's argument.
    let (mount, dentry) = unsafe { (pointer(path, PATH_MNT.load()), pointer(path, PATH_DENTRY.load())) };
    let Some((dentry_address, mount_address)) = path_addresses(path) else {
        return DENY;
    };
    let collected = walk(subject, mount, mount_address, dentry, REQUEST);
    file(subject, WHAT, REQUEST, collected, || {
        (dentry_address, mount_address)
    })
}

#[lsm(hook = "sb_umount")]
pub fn sb_umount(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_MOUNT, operation::UMOUNT);
    let subject = subject_or_return!(WHAT);
    if subject.profile.mount_classes == 0 {
        return ALLOW;
    }
    let Some(mount) = raw_argument::<0>(&ctx) else {
        return DENY;
    };
    let classes = climb(
        0,
        mount,
        subject.profile.mount_start,
        pack(subject.artefact, 0) | COLLECT_CLASSES,
        0,
    );
    conclude(&subject, WHAT, MOUNT_UMOUNT, no_type(), classes, 0)
}

/// move_mount(2): a move, or the last step of a new mount, which is then judged by its filesystem type.
#[lsm(hook = "move_mount")]
pub fn move_mount(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_MOUNT, operation::MOVE_MOUNT);
    let subject = subject_or_return!(WHAT);
    if subject.profile.mount_classes != 0 {
        let from: Typed = ctx.arg(0);
        let Some((dentry, mount)) = path_addresses(from) else {
            return DENY;
        };
        let verdict = if is_detached(mount) {
            let Some(name) = type_of_mount(mount) else {
                return DENY;
            };
            conclude(&subject, WHAT, 0, type_at(name), EVERY_CLASS, name)
        } else {
            let classes = climb(
                dentry,
                mount,
                subject.profile.mount_start,
                pack(subject.artefact, 0) | COLLECT_CLASSES,
                0,
            );
            conclude(&subject, WHAT, MS_MOVE, no_type(), classes, 0)
        };
        if verdict != ALLOW {
            return DENY;
        }
    }
    target(&ctx, 1, &subject)
}

/// Exchanging the root is a move of the root mount.
#[lsm(hook = "sb_pivotroot")]
pub fn sb_pivotroot(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_MOUNT, operation::PIVOT_ROOT);
    let subject = subject_or_return!(WHAT);
    if subject.profile.mount_classes == 0 {
        return ALLOW;
    }
    let new: Typed = ctx.arg(1);
    let Some((dentry, mount)) = path_addresses(new) else {
        return DENY;
    };
    let classes = climb(
        dentry,
        mount,
        subject.profile.mount_start,
        pack(subject.artefact, 0) | COLLECT_CLASSES,
        0,
    );
    conclude(&subject, WHAT, MS_MOVE, no_type(), classes, 0)
}

/// Reconfiguration through the new mount API; mount(2) was judged before.
#[lsm(hook = "sb_remount")]
pub fn sb_remount(_ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_MOUNT, operation::MOUNT);
    let subject = subject_or_return!(WHAT);
    if subject.profile.mount_classes == 0 {
        return ALLOW;
    }
    conclude(&subject, WHAT, MS_REMOUNT, no_type(), EVERY_CLASS, 0)
}

#[inline(always)]
fn conclude(subject: &Subject, what: What, flags: u32, fstype: u64, classes: u64, type_name: u64) -> i32 {
    if classes & MOUNT_FAULT != 0 {
        return lost(what, classes as u32 & 0xf);
    }
    let verdict = mount_verdict(subject.artefact, flags, fstype, classes);
    let name: [u64; 2] = if type_name == 0 {
        [0; 2]
    } else {
        probe(type_name).unwrap_or([0; 2])
    };
    point(
        subject,
        what,
        u32::MAX,
        verdict,
        [u64::from(flags), name[0], name[1]],
    )
}

#[inline(always)]
fn type_at(address: u64) -> u64 {
    if address == 0 {
        no_type()
    } else {
        short_string_hash(address)
    }
}

#[inline(always)]
fn type_of_mount(mount: u64) -> Option<u64> {
    let superblock: u64 = probe(mount + u64::from(VFSMOUNT_SB.load()))?;
    let fstype: u64 = probe(superblock + u64::from(SB_TYPE.load()))?;
    probe(fstype + u64::from(FSTYPE_NAME.load()))
}

#[inline(always)]
fn classes_of(artefact: u32, source: u64, flags: u32) -> u64 {
    if source == 0 {
        return EVERY_CLASS;
    }
    let first = probe::<u8>(source);
    // The hook has the string only. What `.` or a link stands for cannot be told from it; the object behind a
    // bind of a proc, sys or cgroup folder stays protected by its filesystem.
    if flags & (MS_BIND | MS_MOVE) != 0 && first != Some(b'/') {
        return EVERY_CLASS;
    }
    source_classes(artefact, source)
}
