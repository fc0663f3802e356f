//! Mount flags.

use crate::abi::MOUNT_UMOUNT;

/// Flags of which one must be set, and flags of which one must be clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountFlags {
    pub any: u32,
    pub none: u32,
}

const RDONLY: u32 = 1;
const NOSUID: u32 = 1 << 1;
const NODEV: u32 = 1 << 2;
const NOEXEC: u32 = 1 << 3;
const SYNCHRONOUS: u32 = 1 << 4;
const REMOUNT: u32 = 1 << 5;
const MANDLOCK: u32 = 1 << 6;
const DIRSYNC: u32 = 1 << 7;
const NOATIME: u32 = 1 << 10;
const NODIRATIME: u32 = 1 << 11;
const BIND: u32 = 1 << 12;
const MOVE: u32 = 1 << 13;
const REC: u32 = 1 << 14;
const SILENT: u32 = 1 << 15;
const UNBINDABLE: u32 = 1 << 17;
const PRIVATE: u32 = 1 << 18;
const SLAVE: u32 = 1 << 19;
const SHARED: u32 = 1 << 20;
const RELATIME: u32 = 1 << 21;
const I_VERSION: u32 = 1 << 23;
const STRICTATIME: u32 = 1 << 24;

/// Flags of calls that create no filesystem instance: such calls have no filesystem type.
pub const TYPELESS_CALLS: u32 = REMOUNT | BIND | MOVE | UNBINDABLE | PRIVATE | SLAVE | SHARED | MOUNT_UMOUNT;

const SET: [(&str, u32); 39] = [
    ("ro", RDONLY),
    ("r", RDONLY),
    ("read-only", RDONLY),
    ("nosuid", NOSUID),
    ("nodev", NODEV),
    ("noexec", NOEXEC),
    ("sync", SYNCHRONOUS),
    ("mand", MANDLOCK),
    ("dirsync", DIRSYNC),
    ("noatime", NOATIME),
    ("nodiratime", NODIRATIME),
    ("silent", SILENT),
    ("relatime", RELATIME),
    ("iversion", I_VERSION),
    ("strictatime", STRICTATIME),
    ("remount", REMOUNT),
    ("bind", BIND),
    ("move", MOVE),
    ("rbind", BIND | REC),
    ("unbindable", UNBINDABLE),
    ("make-unbindable", UNBINDABLE),
    ("private", PRIVATE),
    ("make-private", PRIVATE),
    ("slave", SLAVE),
    ("make-slave", SLAVE),
    ("shared", SHARED),
    ("make-shared", SHARED),
    ("runbindable", BIND | REC | UNBINDABLE),
    ("make-runbindable", BIND | REC | UNBINDABLE),
    ("rprivate", BIND | REC | PRIVATE),
    ("make-rprivate", BIND | REC | PRIVATE),
    ("rslave", BIND | REC | SLAVE),
    ("make-rslave", BIND | REC | SLAVE),
    ("rshared", BIND | REC | SHARED),
    ("make-rshared", BIND | REC | SHARED),
    ("umount", MOUNT_UMOUNT),
    // The shorthands that vArmor documents; they are told apart from `r` by their case.
    ("B", BIND),
    ("M", MOVE),
    ("R", BIND | REC),
];

const CLEAR: [(&str, u32); 13] = [
    ("rw", RDONLY),
    ("w", RDONLY),
    ("suid", NOSUID),
    ("dev", NODEV),
    ("exec", NOEXEC),
    ("async", SYNCHRONOUS),
    ("nomand", MANDLOCK),
    ("atime", NOATIME),
    ("diratime", NODIRATIME),
    ("loud", SILENT),
    ("norelatime", RELATIME),
    ("noiversion", I_VERSION),
    ("nostrictatime", STRICTATIME),
];

/// What a flag of a raw mount rule means.
#[must_use]
pub fn mount_flag(word: &str) -> Option<MountFlags> {
    if super::is_all(word) {
        return Some(MountFlags {
            any: u32::MAX,
            none: u32::MAX,
        });
    }
    let lower = word.to_ascii_lowercase();
    let find = |table: &[(&str, u32)], word: &str| {
        table
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, bits)| *bits)
    };
    find(&SET, word)
        .or_else(|| find(&SET, &lower))
        .map(|any| MountFlags { any, none: 0 })
        .or_else(|| find(&CLEAR, &lower).map(|none| MountFlags { any: 0, none }))
}

/// The words for mount flags, for messages.
pub fn mount_flag_names() -> impl Iterator<Item = &'static str> {
    SET.iter()
        .chain(&CLEAR)
        .map(|(name, _)| *name)
        .filter(|name| name.len() > 1)
        .chain(["all"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorthands_are_told_apart_by_case() {
        assert_eq!(mount_flag("r"), Some(MountFlags { any: RDONLY, none: 0 }));
        assert_eq!(
            mount_flag("R"),
            Some(MountFlags {
                any: BIND | REC,
                none: 0
            })
        );
        assert_eq!(mount_flag("B"), mount_flag("bind"));
    }

    #[test]
    fn negated_flags_ask_for_a_clear_bit() {
        assert_eq!(mount_flag("RW"), Some(MountFlags { any: 0, none: RDONLY }));
        assert_eq!(
            mount_flag("umount"),
            Some(MountFlags {
                any: MOUNT_UMOUNT,
                none: 0
            })
        );
        assert_eq!(mount_flag("bogus"), None);
    }
}
