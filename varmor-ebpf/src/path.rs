//! The walk: from an object to the root of the mount tree, one automaton step per component.
//!
//! `walk` reads the first mount with typed loads; what lies above it, and everything in rare hooks, is climbed
//! by functions that take plain addresses, which the verifier checks once for all callers. No string is built.

use varmor_common::{
    abi::{
        AAFS_MAGIC, FAULT_DEPTH, FAULT_DETACHED, FAULT_DISCONNECTED, FAULT_READ, FAULT_TABLE, MASK_ALLOW,
        MAX_DEPTH, PERM_APPEND, PERM_READ, PERM_STRUCT, PERM_WRITE, PROFILE_FILESYSTEMS, STATE_EMITS,
        STATE_ENDS, STATE_GLOBS, STATE_LATE_GLOBS, STATE_MOVES, patch,
    },
    matcher::{filesystem_step, filesystem_symbol, merge},
};

use crate::{
    field::{cast, half, number, pointer, word, word_of},
    identity::Subject,
    kernel::{Typed, as_number, probe, scalar, word_or_zero},
    maps::{self, state},
    name::{INLINE_NAME, Name, hash_long, inline_hash, known_symbol, parent_of, symbol_of},
    offsets::{
        ANONYMOUS_BY, DENTRY_NAME, HASH_KEY, HAVE_CAST, ID_MNTNS, ID_MOUNT, ID_VFSMOUNT, MNTNS_INUM,
        MNTNS_SEQ, MOUNT_NAMESPACE, MOUNT_PARENT, MOUNT_VFSMOUNT, VFSMOUNT_ROOT,
    },
    step::{NO_SYMBOL, Transitions, advance, advance_by_name, enter, gather, may_have, step},
};

/// Collected emissions of a file walk: masks in bits 0..24, a fault in bits 24..32, the site above.
const FAULT_SHIFT: u32 = 24;
/// A fault of a mount walk: this bit, with the reason in the low bits.
pub const MOUNT_FAULT: u64 = 1 << 63;
/// Flag in the `artefact_request` argument: the walk collects mount classes instead of permission masks.
pub const COLLECT_CLASSES: u64 = 1 << 63;

/// `ERR_PTR(-EINVAL)`: the namespace of a kernel-internal mount (`MNT_NS_INTERNAL`).
const MNT_NS_INTERNAL: u64 = -22i64 as u64;

/// An anonymous namespace is told by a sequence number of zero (until 6.17) ...
const ANONYMOUS_BY_SEQUENCE: u32 = 1;
/// ... or by its fixed inode number (`enum init_ns_ino` in include/uapi/linux/nsfs.h, 6.18).
const MNT_NS_ANON_INO: u32 = 0xEFFF_FFF7;

/// The fault of a collected file walk; 0 = none.
#[inline(always)]
pub const fn fault_of(collected: u64) -> u32 {
    (collected >> FAULT_SHIFT) as u32 & 0xff
}

#[inline(always)]
const fn fault(collect_classes: bool, reason: u32) -> u64 {
    if collect_classes {
        MOUNT_FAULT | reason as u64
    } else {
        (reason as u64) << FAULT_SHIFT
    }
}

#[inline(always)]
const fn collect(collect_classes: bool, collected: u64, says: u64, site: u32, request: u32) -> u64 {
    if collect_classes {
        collected | says
    } else {
        merge(collected, says, site, request)
    }
}

/// Walks from `dentry` on `mount` to the root with the file automaton.
///
/// `mount_address` is `mount` as a plain number.
#[inline(always)]
pub fn walk(subject: &Subject, mount: Typed, mount_address: u64, dentry: Typed, request: u32) -> u64 {
    let profile = subject.profile;
    let artefact = subject.artefact;
    let key = HASH_KEY.load();
    // The state's number above its flags, as `advance` returns them.
    let mut at = u64::from(profile.file_start) << 32 | u64::from(profile.file_start_flags);
    let mut collected = 0u64;
    let mut dentry = dentry;
    // The dentry before, and the state before that with its flags: they tell whether its globs wait.
    let mut held = dentry;
    let mut before = 0u64;
    let mut depth = 0;
    let mut at_root = false;
    // SAFETY: `mount` and `dentry` are BTF pointers.
    let root = unsafe { pointer::<{ patch::VFSMOUNT_ROOT }>(mount) };
    while depth < MAX_DEPTH {
        if dentry == root {
            at_root = true;
            break;
        }
        // SAFETY: as above.
        let (parent, length) = unsafe {
            (
                pointer::<{ patch::DENTRY_PARENT }>(dentry),
                half::<{ patch::DENTRY_NAME_LEN }>(dentry),
            )
        };
        if parent == dentry {
            break;
        }
        let symbol = if length < INLINE_NAME {
            inline_hash(key, dentry, length)
        } else {
            let Some(name) = scalar(dentry, DENTRY_NAME.load()) else {
                break;
            };
            hash_long(name, length as u32)
        };
        let candidate = may_have(artefact, profile, symbol);
        if candidate && before as u32 & STATE_LATE_GLOBS != 0 {
            at = late(artefact, (before >> 32) as u32, as_number(held));
            if at == 0 {
                break;
            }
        }
        before = at;
        held = dentry;
        if candidate || at as u32 & (STATE_GLOBS | STATE_MOVES) != 0 {
            let symbol = if candidate { symbol } else { NO_SYMBOL };
            if at as u32 & STATE_GLOBS != 0 {
                at = advance_by_name(artefact, (at >> 32) as u32, symbol, as_number(dentry));
                if at == 0 {
                    break;
                }
            } else {
                at = advance(artefact, (at >> 32) as u32, symbol);
            }
            if at as u32 & STATE_EMITS != 0 {
                collected = enter(artefact, (at >> 32) as u32, collected, request);
            }
        }
        dentry = parent;
        depth += 1;
    }
    if !at_root {
        return if depth == MAX_DEPTH {
            fault(false, FAULT_DEPTH)
        } else {
            disconnected(mount_address)
        };
    }
    if profile.flags & PROFILE_FILESYSTEMS != 0 {
        // SAFETY: as above.
        let magic = unsafe { word::<{ patch::SB_MAGIC }>(pointer::<{ patch::DENTRY_SB }>(dentry)) };
        // AppArmor's own filesystem is never mounted anywhere: its place is all the path that it has.
        if magic == AAFS_MAGIC || may_have(artefact, profile, filesystem_symbol(key, magic)) {
            if before as u32 & STATE_LATE_GLOBS != 0 {
                at = late(artefact, (before >> 32) as u32, as_number(held));
                if at == 0 {
                    return fault(false, FAULT_READ);
                }
                before = 0;
            }
            let Some(address) = scalar(mount, VFSMOUNT_ROOT.load()) else {
                return fault(false, FAULT_READ);
            };
            let said = pack(artefact, request);
            collected = filesystem(address, (at >> 32) as u32, said, collected, magic);
            if magic == AAFS_MAGIC || fault_of(collected) != 0 {
                return collected;
            }
        }
    }
    let said = pack(artefact, request) | FACTS_KNOWN | (at & 0xff) << FACTS_SHIFT;
    if before as u32 & STATE_LATE_GLOBS == 0 {
        return climb(0, mount_address, at >> 32, said, collected);
    }
    let number = before & STATE_NUMBER | at >> 32;
    climb(as_number(held), mount_address, number, said, collected)
}

/// The high half of a state with its flags, as `advance` returns them.
const STATE_NUMBER: u64 = 0xffff_ffff << 32;

/// Flag in the `artefact_request` argument: it holds the flags of the state that the climb begins with.
const FACTS_KNOWN: u64 = 1 << 62;
const FACTS_SHIFT: u32 = 48;

/// The state, if its globs wait; else 0, which never has any.
#[inline(always)]
const fn late_from(at: u64) -> u32 {
    if at as u32 & STATE_LATE_GLOBS != 0 {
        (at >> 32) as u32
    } else {
        0
    }
}

/// From the state before `dentry`, whose globs have waited; 0 if its name cannot be read.
#[inline(always)]
fn late(artefact: u32, before: u32, dentry: u64) -> u64 {
    advance_by_name(artefact, before, symbol_of(dentry), dentry)
}

/// The `artefact_request` argument of the climbing functions.
#[inline(always)]
pub const fn pack(artefact: u32, request: u32) -> u64 {
    artefact as u64 | ((request as u64) << 32)
}

/// Takes the step into a filesystem from a mount's root dentry: when the mount shows only a part of the
/// filesystem, the components up to the filesystem's own root come first. Only what is said there is added.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn filesystem(
    dentry: u64,
    number: u32,
    artefact_request: u64,
    collected: u64,
    magic: u64,
) -> u64 {
    let artefact = artefact_request as u32;
    let request = (artefact_request >> 32) as u32 & 0xff;
    let mut dentry = dentry;
    let mut number = number;
    let mut collected = collected;
    let mut depth = 0;
    let mut done = false;
    while depth < MAX_DEPTH {
        let Some(fields) = Name::read(dentry) else {
            return fault(false, FAULT_READ);
        };
        if fields.parent == dentry {
            done = true;
            break;
        }
        let symbol = hash_long(fields.name, fields.length);
        number = step(artefact, number, symbol, fields.name, fields.length);
        // Where the state stays the same it says once more what it has said already, which changes nothing.
        collected = enter(artefact, number, collected, request);
        dentry = fields.parent;
        depth += 1;
    }
    if !done {
        return fault(false, FAULT_DEPTH);
    }
    let Some(transitions) = maps::TRANSITIONS.get(artefact) else {
        return fault(false, FAULT_TABLE);
    };
    let Some(record) = state(artefact, number) else {
        return fault(false, FAULT_TABLE);
    };
    let symbol = filesystem_symbol(HASH_KEY.load(), magic);
    if let Some(next) = filesystem_step(&Transitions(transitions), number, record, symbol) {
        let Some(record) = state(artefact, next) else {
            return fault(false, FAULT_TABLE);
        };
        collected = merge(collected, record.now, record.now_site, request);
    }
    collected
}

/// Climbs from `dentry` on `mount` (0 = from the mount's root) to the root of the mount tree, all by address,
/// and adds what the final state says at the root. With a state in the high half of `number` the climb begins at the
/// mount's root, and `dentry` is the one below whose globs wait, from that state.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn climb(dentry: u64, mount: u64, number: u64, artefact_request: u64, collected: u64) -> u64 {
    let artefact = artefact_request as u32;
    let request = (artefact_request >> 32) as u32 & 0xff;
    let classes = artefact_request & COLLECT_CLASSES != 0;
    // The state's number above its flags, as `advance` returns them: one word of the stack instead of two.
    let mut at = number << 32 | (artefact_request >> FACTS_SHIFT) & 0xff;
    if artefact_request & FACTS_KNOWN == 0 {
        let Some(first) = state(artefact, number as u32) else {
            return fault(classes, FAULT_TABLE);
        };
        at = number << 32 | u64::from(first.flags);
    }
    // The dentry whose globs wait, and the state before it, if there is one; 0 never has globs. Half a word less than in
    // `walk`: these functions have no stack to spare.
    let mut held = dentry;
    let mut before = (number >> 32) as u32;
    let mut dentry = if before == 0 { dentry } else { 0 };
    let mut collected = collected;
    let mut own = mount - u64::from(MOUNT_VFSMOUNT.load());
    let mut root = 0;
    if dentry != 0 {
        let Some(address) = root_of(own) else {
            return fault(classes, FAULT_READ);
        };
        root = address;
    }
    // 64 bits wide: 6.1 does not know what a spilled 32-bit counter holds.
    let mut depth = 0u64;
    let mut done = false;
    while depth < u64::from(MAX_DEPTH) {
        depth += 1;
        if dentry == root {
            let Some([parent, mountpoint]) = place_of(own) else {
                return fault(classes, FAULT_READ);
            };
            if parent == own {
                done = true;
                break;
            }
            dentry = mountpoint;
            own = parent;
            let Some(address) = root_of(own) else {
                return fault(classes, FAULT_READ);
            };
            root = address;
            continue;
        }
        let Some(folder) = parent_of(dentry) else {
            return fault(classes, FAULT_READ);
        };
        if folder == dentry {
            // Leaving the loop here would multiply the verifier's states tenfold; the callers never begin at a
            // dentry of the kernel's own mounts.
            return fault(classes, FAULT_DISCONNECTED);
        }
        let symbol = known_symbol(artefact, dentry);
        if symbol != NO_SYMBOL && before != 0 {
            at = late(artefact, before, held);
            if at == 0 {
                return fault(classes, FAULT_READ);
            }
        }
        before = late_from(at);
        held = dentry;
        if symbol != NO_SYMBOL || at as u32 & (STATE_GLOBS | STATE_MOVES) != 0 {
            if at as u32 & STATE_GLOBS != 0 {
                at = advance_by_name(artefact, (at >> 32) as u32, symbol, dentry);
                if at == 0 {
                    return fault(classes, FAULT_READ);
                }
            } else {
                at = advance(artefact, (at >> 32) as u32, symbol);
            }
            if at as u32 & STATE_EMITS != 0 {
                collected = gather(artefact_request, (at >> 32) as u32, collected);
            }
        }
        dentry = folder;
    }
    if !done {
        return fault(classes, FAULT_DEPTH);
    }
    match end_of_walk(own + u64::from(MOUNT_VFSMOUNT.load())) {
        End::Visible => {}
        End::Internal => return if classes { 0 } else { INTERNAL },
        End::Detached => return fault(classes, FAULT_DETACHED),
        End::Unreadable => return fault(classes, FAULT_READ),
    }
    if at as u32 & STATE_ENDS == 0 {
        return collected;
    }
    let Some(record) = state(artefact, (at >> 32) as u32) else {
        return fault(classes, FAULT_TABLE);
    };
    collect(classes, collected, record.root, record.root_site, request)
}

/// What is collected for a memfd, a pipe, an overlay layer: no path leads to it, so no path rule speaks of it, and
/// an allow-list is about paths. Executing it is what an allow-list must not overlook.
const INTERNAL: u64 = ((PERM_READ | PERM_WRITE | PERM_APPEND | PERM_STRUCT) as u64) << MASK_ALLOW;

/// The end of a walk at a dentry that no root is above: the kernel makes pipes, sockets and memory files so, on mounts
/// of its own; anywhere else it cannot be judged.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn disconnected(mount: u64) -> u64 {
    match end_of_walk(mount) {
        End::Internal => INTERNAL,
        _ => fault(false, FAULT_DISCONNECTED),
    }
}

/// The root dentry of a `struct mount`.
#[inline(always)]
fn root_of(own: u64) -> Option<u64> {
    let mount = own + u64::from(MOUNT_VFSMOUNT.load());
    word_of::<{ patch::VFSMOUNT_ROOT }>(mount, VFSMOUNT_ROOT.load(), ID_VFSMOUNT.load())
}

/// The parent and the mount point of a `struct mount`.
#[inline(always)]
fn place_of(own: u64) -> Option<[u64; 2]> {
    if HAVE_CAST.load() != 0 {
        let own = cast(own, ID_MOUNT.load());
        // SAFETY: a cast pointer.
        unsafe {
            Some([
                number(pointer::<{ patch::MOUNT_PARENT }>(own)),
                number(pointer::<{ patch::MOUNT_MOUNTPOINT }>(own)),
            ])
        }
    } else {
        // `mnt_parent` and `mnt_mountpoint` are neighbours, a fact that the loader checks.
        probe(own + u64::from(MOUNT_PARENT.load()))
    }
}

/// What the topmost mount of a walk belongs to.
enum End {
    /// A mount namespace.
    Visible,
    /// The kernel.
    Internal,
    /// Nothing (lazily unmounted), or an anonymous namespace (`open_tree`, `fsmount`).
    Detached,
    Unreadable,
}

#[inline(always)]
fn end_of_walk(mount: u64) -> End {
    let own = mount - u64::from(MOUNT_VFSMOUNT.load());
    let Some(namespace) = word_of::<{ patch::MOUNT_NAMESPACE }>(own, MOUNT_NAMESPACE.load(), ID_MOUNT.load())
    else {
        return End::Unreadable;
    };
    if namespace == MNT_NS_INTERNAL {
        return End::Internal;
    }
    if namespace == 0 {
        return End::Detached;
    }
    let cast_to = ID_MNTNS.load();
    let anonymous = match (
        ANONYMOUS_BY.load() == ANONYMOUS_BY_SEQUENCE,
        HAVE_CAST.load() != 0,
    ) {
        // SAFETY: cast pointers.
        (true, true) => Some(unsafe { word::<{ patch::MNTNS_SEQ }>(cast(namespace, cast_to)) } == 0),
        (false, true) => Some(
            // SAFETY: as above.
            unsafe { half::<{ patch::MNTNS_INUM }>(cast(namespace, cast_to)) } == u64::from(MNT_NS_ANON_INO),
        ),
        (true, false) => probe::<u64>(namespace + u64::from(MNTNS_SEQ.load())).map(|sequence| sequence == 0),
        (false, false) => {
            probe::<u32>(namespace + u64::from(MNTNS_INUM.load())).map(|number| number == MNT_NS_ANON_INO)
        }
    };
    match anonymous {
        Some(false) => End::Visible,
        Some(true) => End::Detached,
        None => End::Unreadable,
    }
}

/// Whether a mount is in no mount namespace yet or any more.
#[inline(always)]
pub fn is_detached(mount: u64) -> bool {
    matches!(end_of_walk(mount), End::Detached)
}

/// The addresses of a `struct path` hook argument: dentry and mount.
#[inline(always)]
pub fn path_addresses(path: Typed) -> Option<(u64, u64)> {
    use crate::offsets::{PATH_DENTRY, PATH_MNT};
    Some((scalar(path, PATH_DENTRY.load())?, scalar(path, PATH_MNT.load())?))
}

/// As [`climb`] from the start of the file automaton, with another name for the leaf: (`name`, `length`) is the
/// name by which the object was called. Nothing if it is the object's own name.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn climb_as(dentry: u64, mount: u64, name: u64, length: u64, artefact_request: u64) -> u64 {
    let artefact = artefact_request as u32;
    let request = (artefact_request >> 32) as u32 & 0xff;
    let Some(profile) = maps::descriptor(artefact) else {
        return fault(false, FAULT_TABLE);
    };
    let mut dentry = dentry;
    let mut mount = mount;
    let over = mounted_over(dentry, mount - u64::from(MOUNT_VFSMOUNT.load()));
    if over != 0 {
        let Some([parent, mountpoint]) = place_of(over) else {
            return fault(false, FAULT_READ);
        };
        dentry = mountpoint;
        mount = parent + u64::from(MOUNT_VFSMOUNT.load());
    }
    let Some(folder) = parent_of(dentry) else {
        return fault(false, FAULT_READ);
    };
    if folder == dentry {
        return INTERNAL;
    }
    let length = length as u32;
    let symbol = hash_long(name, length);
    if symbol == symbol_of(dentry) {
        return 0;
    }
    let number = step(artefact, profile.file_start, symbol, name, length);
    let Some(record) = state(artefact, number) else {
        return fault(false, FAULT_TABLE);
    };
    let collected = merge(0, record.now, record.now_site, request);
    climb(folder, mount, u64::from(number), artefact_request, collected)
}

/// A file can be mounted over the place of another, and that place be a mount's root again: the outermost of these mounts,
/// whose place has the name by which the file is called; 0 if the dentry is no mount's root.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn mounted_over(dentry: u64, own: u64) -> u64 {
    const STACKED: u64 = 8;
    let mut dentry = dentry;
    let mut own = own;
    let mut outermost = 0;
    let mut i = 0u64;
    while i < STACKED {
        i += 1;
        let root = word_or_zero(own + u64::from(MOUNT_VFSMOUNT.load() + VFSMOUNT_ROOT.load()));
        let parent = word_or_zero(own + u64::from(MOUNT_PARENT.load()));
        if root != dentry || parent == own {
            break;
        }
        // A word that cannot be read is no dentry and no mount: the next round ends.
        dentry = word_or_zero(own + u64::from(MOUNT_PARENT.load()) + 8);
        outermost = own;
        own = parent;
    }
    outermost
}

/// As [`climb`], for an object that may be a memory file or the like, which no path rule speaks of.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn masks_of(dentry: u64, mount: u64, start: u32, artefact_request: u64) -> u64 {
    let Some(folder) = parent_of(dentry) else {
        return fault(false, FAULT_READ);
    };
    if folder == dentry {
        return disconnected(mount);
    }
    climb(dentry, mount, u64::from(start), artefact_request, 0)
}

/// The classes of an object: as [`climb`] with `COLLECT_CLASSES`, and none for what the kernel keeps outside of any
/// tree (a memfd).
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn classes_of(dentry: u64, mount: u64, start: u32, artefact_request: u64) -> u64 {
    let Some(folder) = parent_of(dentry) else {
        return fault(true, FAULT_READ);
    };
    if folder == dentry {
        return 0;
    }
    climb(dentry, mount, u64::from(start), artefact_request, 0)
}
