//! Mount rules: the classes of a call (flags and type) that the source's rules name.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use varmor_common::{
    abi::{
        FAULT_LENGTH, FAULT_READ, FAULT_TABLE, GLOB_DEAD, GLOB_START, MAX_MOUNT_CLASSES, MAX_NAME,
        VERDICT_DENY,
    },
    matcher::{NameHash, glob_step},
};

use crate::{kernel::probe, maps, offsets::HASH_KEY, path::MOUNT_FAULT};

pub const MS_REMOUNT: u32 = 1 << 5;
pub const MS_BIND: u32 = 1 << 12;
pub const MS_MOVE: u32 = 1 << 13;
pub const MS_UNBINDABLE: u32 = 1 << 17;
pub const MS_PRIVATE: u32 = 1 << 18;
pub const MS_SLAVE: u32 = 1 << 19;
pub const MS_SHARED: u32 = 1 << 20;
/// Changes of how mounts propagate.
pub const PROPAGATION: u32 = MS_UNBINDABLE | MS_PRIVATE | MS_SLAVE | MS_SHARED;
/// Calls with one of these make no filesystem instance.
pub const NO_INSTANCE: u32 = MS_REMOUNT | MS_BIND | MS_MOVE | PROPAGATION;
/// Every class, for a source that cannot be judged by its spelling.
pub const EVERY_CLASS: u64 = !MOUNT_FAULT;

/// `/..`
const UP: u32 = 0x2f_2e2e;

/// The type that rules see for calls that make no filesystem instance, as in vArmor.
#[inline(always)]
pub fn no_type() -> u64 {
    NameHash::new(HASH_KEY.load(), 4)
        .word(u64::from_le_bytes(*b"none\0\0\0\0"))
        .finish()
}

/// The hash of a short string at an address, of its first 31 bytes (filesystem types have at most 15 bytes in rules); 0 if
/// unreadable.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn short_string_hash(address: u64) -> u64 {
    let mut words = [0u64; 4];
    // SAFETY: at most the buffer's bytes are written.
    let read = unsafe {
        bpf_probe_read_kernel_str(
            words.as_mut_ptr().cast::<c_void>(),
            size_of_val(&words) as u32,
            address as *const c_void,
        )
    };
    if read <= 0 {
        return 0;
    }
    // The helper counts the trailing zero.
    let length = read as u64 - 1;
    let mut hash = NameHash::new(HASH_KEY.load(), length);
    let mut i = 0u64;
    while i < 4 {
        if i * 8 >= length {
            break;
        }
        hash = hash.word(words[i as usize]);
        i += 1;
    }
    hash.finish()
}

/// The classes whose source pattern matches the string at an address.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn source_classes(artefact: u32, address: u64) -> u64 {
    // Without mount rules there is no automaton to ask.
    if maps::descriptor(artefact).is_some_and(|profile| profile.mount_classes == 0) {
        return 0;
    }
    let Some(rows) = maps::MOUNT_SOURCES.get(artefact) else {
        return MOUNT_FAULT | u64::from(FAULT_TABLE);
    };
    let mut current = GLOB_START;
    let mut length = 0u32;
    // The last three bytes: a component that leads up is none of a pattern's.
    let mut last = 0u32;
    while length <= MAX_NAME {
        let Some(byte) = probe::<u8>(address + u64::from(length)) else {
            return MOUNT_FAULT | u64::from(FAULT_READ);
        };
        if last == UP && (byte == 0 || byte == b'/') {
            return EVERY_CLASS;
        }
        last = (last << 8 | u32::from(byte)) & 0xff_ffff;
        if byte == 0 {
            return maps::glob_row(rows, current)
                .map_or(MOUNT_FAULT | u64::from(FAULT_TABLE), |row| row.accept);
        }
        if current != GLOB_DEAD {
            let Some(row) = maps::glob_row(rows, current) else {
                return MOUNT_FAULT | u64::from(FAULT_TABLE);
            };
            current = glob_step(row, byte);
        }
        length += 1;
    }
    MOUNT_FAULT | u64::from(FAULT_LENGTH)
}

/// What the mount rules say: `VERDICT_*` bits, the site above. `source` holds the classes that the source
/// allows, `fstype` the hash of the type.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn mount_verdict(artefact: u32, flags: u32, fstype: u64, source: u64) -> u64 {
    let Some(profile) = maps::descriptor(artefact) else {
        return u64::from(VERDICT_DENY);
    };
    let mut verdict = 0u32;
    let mut site = 0u32;
    let mut i = 0;
    while i < MAX_MOUNT_CLASSES {
        if i >= profile.mount_classes as usize {
            break;
        }
        let class = &profile.mounts[i];
        let flagged = flags & class.any != 0 || !flags & class.none != 0;
        let typed = class.fstype == 0 || class.fstype == fstype;
        if (source >> i) & 1 != 0 && flagged && typed {
            if site == 0 || (class.verdict & VERDICT_DENY != 0 && verdict & VERDICT_DENY == 0) {
                site = class.site;
            }
            verdict |= class.verdict;
        }
        i += 1;
    }
    u64::from(verdict) | u64::from(site) << 32
}
