//! Mounts. A new filesystem is judged when it is made, through either API; what the new API builds without a hook
//! (`open_tree`, `mount_setattr`) is caught when it is moved into place, and by the end-of-walk check, which denies
//! files on detached mounts.
//!
//! A change of the tree of mounts is also a change of what paths show, so file rules speak here too.

use aya_ebpf::{helpers::generated::bpf_get_current_task, macros::lsm, programs::LsmContext};
use varmor_common::{
    abi::{
        EVENT_FILE, EVENT_MOUNT, MASK_DENY, MOUNT_UMOUNT, PERM_ALL, PERM_STRUCT, PERM_WRITE, VERDICT_ALLOW,
        operation,
    },
    matcher::merge,
};

use super::{device, subject_or_return};
use crate::{
    alias,
    audit::What,
    identity::{self, Subject},
    kernel::{Typed, pointer, probe, raw_argument, word_or_zero},
    mount::{
        EVERY_CLASS, MS_BIND, MS_MOVE, MS_REMOUNT, NO_INSTANCE, PROPAGATION, mount_verdict, no_type,
        short_string_hash, source_classes,
    },
    offsets::{
        FILENAME_NAME, FSTYPE_NAME, NAMEIDATA_NAME, PATH_DENTRY, PATH_MNT, SB_ID, SB_TYPE, TASK_NAMEIDATA,
        VFSMOUNT_ROOT, VFSMOUNT_SB,
    },
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
    if has_rules(&subject) {
        // A link in the source is followed when this hook has spoken.
        if flags & (MS_BIND | MS_REMOUNT) == MS_BIND {
            identity::note_bind(short_string_hash(source), flags);
        } else {
            identity::note_bind(0, 0);
        }
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
    // In the kernel's order of precedence: what neither makes nor places a mount changes no path.
    if flags & MS_REMOUNT != 0 || flags & MS_BIND == 0 && flags & PROPAGATION != 0 {
        return ALLOW;
    }
    if flags & MS_BIND != 0 {
        alias::note(&subject);
    } else if flags & MS_MOVE != 0 && moves_away(&subject) != ALLOW {
        return DENY;
    }
    target(&ctx, 1, &subject)
}

/// A link on the way to the source of a bind mount: the string that `sb_mount` saw does not say what is bound.
#[lsm(hook = "inode_follow_link")]
pub fn inode_follow_link(_ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_MOUNT, operation::MOUNT);
    let Some(label) = identity::current_label() else {
        return ALLOW;
    };
    if label.bind_source == 0 || label.bind_source != name_in_lookup() {
        return ALLOW;
    }
    let subject = subject_or_return!(WHAT);
    if !has_rules(&subject) {
        return ALLOW;
    }
    let verdict = conclude(&subject, WHAT, label.bind_flags, no_type(), EVERY_CLASS, 0);
    if verdict != ALLOW {
        // The mount ends here; another look-up of this name is not its source.
        identity::note_bind(0, 0);
    }
    verdict
}

/// The hash of the start of the path that the current task looks up.
#[inline(always)]
fn name_in_lookup() -> u64 {
    // SAFETY: the helper has no precondition.
    let task = unsafe { bpf_get_current_task() };
    let lookup = word_or_zero(task + u64::from(TASK_NAMEIDATA.load()));
    let name = word_or_zero(lookup + u64::from(NAMEIDATA_NAME.load()));
    short_string_hash(word_or_zero(name + u64::from(FILENAME_NAME.load())))
}

/// A filesystem is there and not mounted yet: mount(2), and `fsconfig(FSCONFIG_CMD_CREATE)`, which has no other hook.
/// The source is known to mount(2) alone, which has judged it; here it is the name of the device or of the type, and
/// a rule that allows a type allows it from everywhere.
#[lsm(hook = "sb_kern_mount")]
pub fn sb_kern_mount(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_MOUNT, operation::MOUNT);
    let subject = subject_or_return!(WHAT);
    let Some(superblock) = raw_argument::<0>(&ctx) else {
        return DENY;
    };
    let Some(name) = type_of(superblock) else {
        return DENY;
    };
    let text: [u64; 2] = probe(name).unwrap_or([0; 2]);
    let data = [0, text[0], text[1]];
    if point(
        &subject,
        WHAT,
        u32::MAX,
        device::mount(&subject, superblock),
        data,
    ) != ALLOW
    {
        return DENY;
    }
    if !has_rules(&subject) {
        return ALLOW;
    }
    let typed = type_at(name);
    let classes = source_classes(subject.artefact, superblock + u64::from(SB_ID.load()));
    if classes & MOUNT_FAULT != 0 {
        return lost(WHAT, classes as u32 & 0xf);
    }
    let mut verdict = mount_verdict(subject.artefact, 0, typed, classes);
    if subject.profile.mount_default != 0 {
        let anywhere = mount_verdict(subject.artefact, 0, typed, EVERY_CLASS);
        verdict |= default_of(&subject, anywhere);
    }
    point(&subject, WHAT, u32::MAX, verdict, data)
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

/// Without a mount that a protected path passes, or that lies below one, the path shows something else.
#[lsm(hook = "sb_umount")]
pub fn sb_umount(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_MOUNT, operation::UMOUNT);
    let subject = subject_or_return!(WHAT);
    let Some(mount) = raw_argument::<0>(&ctx) else {
        return DENY;
    };
    if replaces(&subject, operation::UMOUNT, 0, mount, PERM_WRITE | PERM_STRUCT) != ALLOW {
        return DENY;
    }
    if !has_rules(&subject) {
        return ALLOW;
    }
    let classes = climb(
        0,
        mount,
        u64::from(subject.profile.mount_start),
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
    let from: Typed = ctx.arg(0);
    let Some((dentry, mount)) = path_addresses(from) else {
        return DENY;
    };
    let detached = is_detached(mount);
    if has_rules(&subject) {
        let verdict = if detached {
            let Some(name) = type_of_mount(mount) else {
                return DENY;
            };
            conclude(&subject, WHAT, 0, type_at(name), EVERY_CLASS, name)
        } else {
            let classes = climb(
                dentry,
                mount,
                u64::from(subject.profile.mount_start),
                pack(subject.artefact, 0) | COLLECT_CLASSES,
                0,
            );
            conclude(&subject, WHAT, MS_MOVE, no_type(), classes, 0)
        };
        if verdict != ALLOW {
            return DENY;
        }
    }
    if detached {
        // A copy of a tree that is there, or a new filesystem: only the first gives objects another name.
        alias::note(&subject);
    } else if replaces(
        &subject,
        operation::MOVE_MOUNT,
        dentry,
        mount,
        PERM_ALL | PERM_STRUCT,
    ) != ALLOW
    {
        return DENY;
    }
    target(&ctx, 1, &subject)
}

/// Exchanging the root is a move of the root mount, and changes what every path shows.
#[lsm(hook = "sb_pivotroot")]
pub fn sb_pivotroot(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_MOUNT, operation::PIVOT_ROOT);
    let subject = subject_or_return!(WHAT);
    if moves_away(&subject) != ALLOW {
        return DENY;
    }
    if !has_rules(&subject) {
        return ALLOW;
    }
    let new: Typed = ctx.arg(1);
    let Some((dentry, mount)) = path_addresses(new) else {
        return DENY;
    };
    let classes = climb(
        dentry,
        mount,
        u64::from(subject.profile.mount_start),
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
    if !has_rules(&subject) {
        return ALLOW;
    }
    conclude(&subject, WHAT, MS_REMOUNT, no_type(), EVERY_CLASS, 0)
}

/// A move of a mount whose place is not known (mount(2) tells a string), and a change of the root: refused if a
/// protected path has a place that it could lose.
#[inline(always)]
fn moves_away(subject: &Subject) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::MOVE_MOUNT);
    if subject.profile.file_perms & PERM_STRUCT == 0 {
        return ALLOW;
    }
    let collected = merge(0, u64::from(PERM_STRUCT) << MASK_DENY, 0, PERM_STRUCT);
    file(subject, WHAT, PERM_STRUCT, collected, || (0, 0))
}

/// The mount at `mount` (with `dentry` 0), or the place (`dentry`, `mount`), goes away: what file rules say there.
#[inline(always)]
fn replaces(subject: &Subject, operation: u32, dentry: u64, mount: u64, request: u32) -> i32 {
    if subject.profile.file_perms & request == 0 {
        return ALLOW;
    }
    let artefact_request = pack(subject.artefact, request);
    let collected = climb(
        dentry,
        mount,
        u64::from(subject.profile.file_start),
        artefact_request,
        0,
    );
    let what = What::new(EVENT_FILE, operation);
    file(subject, what, request, collected, || {
        let root = probe(mount + u64::from(VFSMOUNT_ROOT.load())).unwrap_or(0);
        (if dentry == 0 { root } else { dentry }, mount)
    })
}

/// Whether the profile says anything about mounts.
#[inline(always)]
fn has_rules(subject: &Subject) -> bool {
    subject.profile.mount_classes | subject.profile.mount_default != 0
}

/// What holds where no class allows.
#[inline(always)]
fn default_of(subject: &Subject, verdict: u64) -> u64 {
    if verdict & u64::from(VERDICT_ALLOW) == 0 {
        u64::from(subject.profile.mount_default)
    } else {
        0
    }
}

#[inline(always)]
fn conclude(subject: &Subject, what: What, flags: u32, fstype: u64, classes: u64, type_name: u64) -> i32 {
    if classes & MOUNT_FAULT != 0 {
        return lost(what, classes as u32 & 0xf);
    }
    let mut verdict = mount_verdict(subject.artefact, flags, fstype, classes);
    if classes == EVERY_CLASS && flags & MS_REMOUNT == 0 && flags & (MS_BIND | MS_MOVE) != 0 {
        // Nobody knows what is bound: whatever could refuse it does, and nothing that could allow it.
        verdict &= !u64::from(VERDICT_ALLOW);
    }
    let verdict = verdict | default_of(subject, verdict);
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
    type_of(probe(mount + u64::from(VFSMOUNT_SB.load()))?)
}

/// The address of the name of a superblock's type.
#[inline(always)]
fn type_of(superblock: u64) -> Option<u64> {
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
