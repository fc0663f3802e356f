//! The other names of an object: every mount of its filesystem in the task's mount namespace through which it can be
//! reached.
//!
//! For hooks that are told an object and no mount (extended attributes, ACLs, times), and for containers that have
//! bound one place of the tree to another. The tree of mounts is read while others may change it; the namespace
//! counts its changes, and an answer that a change has overtaken is a fault.

use aya_ebpf::helpers::generated::bpf_get_current_task;
use varmor_common::{
    abi::{FAULT_DEPTH, FAULT_MOUNTS, FAULT_READ, FAULT_TABLE, MAX_DEPTH, PROFILE_FILESYSTEMS},
    matcher::{filesystem_symbol, merge},
};

use crate::{
    identity::Subject,
    kernel::probe,
    maps::{self, state},
    name::{Name, hash_long},
    offsets::{
        DENTRY_SB, HASH_KEY, MNTNS_EVENT, MNTNS_ROOT, MOUNT_CHILDREN, MOUNT_NAMESPACE, MOUNT_PARENT,
        MOUNT_VFSMOUNT, NSPROXY_MNT, SB_MAGIC, SB_ROOT, TASK_NSPROXY, VFSMOUNT_ROOT,
    },
    path::{climb, fault_of, filesystem, pack},
    step::{enter, may_have, step},
};

/// Most times that [`views`] looks at a mount.
const ROUNDS: u32 = 64;
/// Most steps from one look to the next; a mount takes one or two. Were the 2,048 steps of both the rounds of one
/// loop, the verifier would walk them one by one.
const STEPS: u32 = 32;
/// Bit of a cursor: the mounts below this one are done.
const DONE: u64 = 1;
/// The cursor after a mount that cannot be read: no mount, and none after it.
const LOST: u64 = u64::MAX;
/// Bits of a fault among the collected emissions.
const FAULT_SHIFT: u32 = 24;
/// Note among the collected emissions, in the highest bit of the fault: some mount showed the object.
const SEEN: u64 = 1 << 31;

/// From now on objects may have several names in the subject's container.
#[inline(always)]
pub fn note(subject: &Subject) {
    if let Some(flag) = maps::ALIASED.get_ptr_mut(subject.binding) {
        // SAFETY: the element is a word of the map; every writer writes the same value.
        unsafe { *flag = 1 };
    }
}

/// Whether objects may have several names in the subject's container.
#[inline(always)]
pub fn is_possible(subject: &Subject) -> bool {
    maps::ALIASED.get(subject.binding).is_some_and(|flag| *flag != 0)
}

/// What the rules say about an object under all its names; for hooks that know no mount.
#[inline(always)]
pub fn everywhere(subject: &Subject, dentry: u64, request: u32) -> u64 {
    let artefact_request = pack(subject.artefact, request);
    let mut collected = 0;
    if subject.profile.flags & PROFILE_FILESYSTEMS != 0 {
        let Some(superblock) = probe::<u64>(dentry + u64::from(DENTRY_SB.load())) else {
            return fault(FAULT_READ);
        };
        let Some(magic) = probe::<u64>(superblock + u64::from(SB_MAGIC.load())) else {
            return fault(FAULT_READ);
        };
        if may_have(
            subject.artefact,
            subject.profile,
            filesystem_symbol(HASH_KEY.load(), magic),
        ) {
            collected = filesystem(dentry, subject.profile.file_start, artefact_request, 0, magic);
            if fault_of(collected) != 0 {
                return collected;
            }
        }
    }
    views(dentry, subject.profile.file_start, artefact_request, collected)
}

/// Adds what the rules say about an object that was opened in another mount namespace, by its names in the current
/// task's: a server's socket that is mounted into a container has the server's path, and the rules speak of the
/// container's. Nothing is added for an object that has no name there.
#[inline(always)]
pub fn seen(dentry: u64, number: u32, artefact_request: u64, collected: u64) -> u64 {
    views(dentry, number, artefact_request, collected | SEEN)
}

/// Whether `mount` belongs to another mount namespace than the current task's; one that cannot be read does.
#[inline(always)]
pub fn is_foreign(mount: u64) -> bool {
    let own = mount - u64::from(MOUNT_VFSMOUNT.load());
    let theirs = probe::<u64>(own + u64::from(MOUNT_NAMESPACE.load()));
    theirs.is_none() || theirs != mount_namespace()
}

/// Adds to `collected` what the file automaton says from state `number` about an object under every name that it has
/// in the current task's mount namespace. An object without a name there is judged by its place in its filesystem,
/// unless `collected` says that it was seen already.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn views(dentry: u64, number: u32, artefact_request: u64, collected: u64) -> u64 {
    let before = changes();
    let mut cursor = first_mount();
    if before == LOST || cursor == LOST {
        return fault(FAULT_READ);
    }
    let mut collected = collected;
    let mut i = 0;
    while i < ROUNDS {
        i += 1;
        cursor = find(cursor, dentry);
        if cursor == 0 {
            break;
        }
        collected = look(cursor, dentry, number, artefact_request, collected);
        if fault_of(collected & !SEEN) != 0 {
            return collected & !SEEN;
        }
        cursor = next_mount(cursor);
        if cursor == 0 {
            break;
        }
    }
    if cursor != 0 || changes() != before {
        return fault(FAULT_MOUNTS);
    }
    if collected & SEEN == 0 {
        return inside(dentry, number, artefact_request, collected);
    }
    collected & !SEEN
}

/// How often the current task's mount namespace has changed; `LOST` if that cannot be read. A function of its own, like
/// `first_mount`: the climb needs the stack that reading takes.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn changes() -> u64 {
    mount_namespace()
        .and_then(|namespace| probe(namespace + u64::from(MNTNS_EVENT.load())))
        .unwrap_or(LOST)
}

/// The cursor of the mount at the root of the current task's mount namespace, or `LOST`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn first_mount() -> u64 {
    mount_namespace()
        .and_then(|namespace| probe(namespace + u64::from(MNTNS_ROOT.load())))
        .unwrap_or(LOST)
}

/// The next mount from the cursor's on that shows the object, the cursor's own included; 0 = there is none. After
/// [`STEPS`] steps it ends where it is, at a mount of which [`look`] finds nothing to say.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn find(cursor: u64, dentry: u64) -> u64 {
    let mut cursor = cursor;
    let mut i = 0;
    while i < STEPS {
        i += 1;
        if shows(cursor, dentry) != 0 {
            break;
        }
        cursor = next_mount(cursor);
        if cursor == 0 {
            break;
        }
    }
    cursor
}

/// One mount of [`views`]: a function of its own, so that the rounds differ in nothing that the verifier knows.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn look(cursor: u64, dentry: u64, number: u32, artefact_request: u64, collected: u64) -> u64 {
    if shows(cursor, dentry) == 0 {
        return collected;
    }
    let mount = cursor + u64::from(MOUNT_VFSMOUNT.load());
    climb(
        dentry,
        mount,
        u64::from(number),
        artefact_request,
        collected & !SEEN,
    ) | SEEN
}

/// 1 if the mount of a cursor shows the object: its root is the object or a folder above it.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn shows(cursor: u64, dentry: u64) -> u32 {
    if cursor & DONE != 0 {
        return 0;
    }
    let mount = cursor + u64::from(MOUNT_VFSMOUNT.load());
    // `mnt_root` and `mnt_sb` are neighbours, a fact that the loader checks.
    let Some([root, superblock]) = probe::<[u64; 2]>(mount + u64::from(VFSMOUNT_ROOT.load())) else {
        return 0;
    };
    if probe::<u64>(dentry + u64::from(DENTRY_SB.load())) != Some(superblock) {
        return 0;
    }
    let mut dentry = dentry;
    let mut depth = 0;
    while depth < MAX_DEPTH {
        if dentry == root {
            return 1;
        }
        let Some(fields) = Name::read(dentry) else {
            return 0;
        };
        if fields.parent == dentry {
            return 0;
        }
        dentry = fields.parent;
        depth += 1;
    }
    // Too deep to know; the climb will be too deep as well, which is a fault.
    1
}

/// The mount after a cursor's in the tree, a mount before those below it; 0 = that was all. A mount that was taken
/// out meanwhile leads to itself, and a cursor that cannot be read too: the steps run out, which is a fault.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn next_mount(cursor: u64) -> u64 {
    let own = cursor & !DONE;
    let children = u64::from(MOUNT_CHILDREN.load());
    let child = children + 16;
    // `mnt_mounts` and `mnt_child` are neighbours, a fact that the loader checks.
    let Some([first, _, sibling, _]) = probe::<[u64; 4]>(own + children) else {
        return LOST;
    };
    if cursor & DONE == 0 && first != own + children {
        return first - child;
    }
    let Some(parent) = probe::<u64>(own + u64::from(MOUNT_PARENT.load())) else {
        return LOST;
    };
    if parent == own {
        return 0;
    }
    if sibling == parent + children {
        parent | DONE
    } else {
        sibling - child
    }
}

/// Adds what is said about an object's place in its filesystem, as if that were mounted at `/`. The kernel's own
/// objects (pipes, memory files) have no place.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn inside(dentry: u64, number: u32, artefact_request: u64, collected: u64) -> u64 {
    let artefact = artefact_request as u32;
    let request = (artefact_request >> 32) as u32 & 0xff;
    let Some(superblock) = probe::<u64>(dentry + u64::from(DENTRY_SB.load())) else {
        return fault(FAULT_READ);
    };
    let Some(root) = probe::<u64>(superblock + u64::from(SB_ROOT.load())) else {
        return fault(FAULT_READ);
    };
    let mut dentry = dentry;
    let mut number = number;
    let mut collected = collected;
    let mut depth = 0;
    while depth < MAX_DEPTH {
        let Some(fields) = Name::read(dentry) else {
            return fault(FAULT_READ);
        };
        if fields.parent == dentry {
            if dentry != root {
                return collected;
            }
            return match state(artefact, number) {
                Some(record) => merge(collected, record.root, record.root_site, request),
                None => fault(FAULT_TABLE),
            };
        }
        let symbol = hash_long(fields.name, fields.length);
        number = step(artefact, number, symbol, fields.name, fields.length);
        collected = enter(artefact, number, collected, request);
        dentry = fields.parent;
        depth += 1;
    }
    fault(FAULT_DEPTH)
}

/// The mount at the root of the current task's mount namespace.
#[inline(always)]
pub fn root_mount() -> Option<u64> {
    let root = probe::<u64>(mount_namespace()? + u64::from(MNTNS_ROOT.load()))?;
    Some(root + u64::from(MOUNT_VFSMOUNT.load()))
}

#[inline(always)]
fn mount_namespace() -> Option<u64> {
    // SAFETY: the helper has no precondition.
    let task = unsafe { bpf_get_current_task() };
    let proxy = probe::<u64>(task + u64::from(TASK_NSPROXY.load()))?;
    probe(proxy + u64::from(NSPROXY_MNT.load()))
}

#[inline(always)]
const fn fault(reason: u32) -> u64 {
    (reason as u64) << FAULT_SHIFT
}
