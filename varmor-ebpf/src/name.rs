//! The name of a component: where it stands in a dentry, and its symbol in the automata.

use core::{ffi::c_void, mem::MaybeUninit};

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use varmor_common::{abi::patch, matcher::NameHash};

use crate::{
    field::{cast, half, number, pointer, word, word_of},
    kernel::{Typed, mask, probe},
    maps,
    offsets::{DENTRY_NAME, DENTRY_NAME_LEN, DENTRY_PARENT, HASH_KEY, HAVE_CAST, ID_DENTRY},
    step::{NO_SYMBOL, may_have},
};

/// Names of this length and more are not stored in the dentry itself on some kernel (`DNAME_INLINE_LEN` is at
/// least 32 with its trailing zero).
pub const INLINE_NAME: u64 = 32;

/// The symbol of a name that is stored in the dentry, whose inline array has at least 32 bytes (a fact that the
/// loader checks). What stands behind the name in its last word is not the name's.
#[inline(always)]
pub fn inline_hash(key: u64, dentry: Typed, length: u64) -> u64 {
    let mut hash = NameHash::new(key, length);
    // SAFETY: `dentry` is a BTF pointer; the words are within the inline array.
    unsafe {
        if length > 0 {
            hash = hash.word(word::<{ patch::DENTRY_NAME_0 }>(dentry) & keep(length));
        }
        if length > 8 {
            hash = hash.word(word::<{ patch::DENTRY_NAME_8 }>(dentry) & keep(length - 8));
        }
        if length > 16 {
            hash = hash.word(word::<{ patch::DENTRY_NAME_16 }>(dentry) & keep(length - 16));
        }
        if length > 24 {
            hash = hash.word(word::<{ patch::DENTRY_NAME_24 }>(dentry) & keep(length - 24));
        }
    }
    hash.finish()
}

/// By number of bytes: the mask that keeps them. A table, because a shift by a variable number costs five instructions.
static KEEP: [u64; 8] = [
    0,
    0xff,
    0xffff,
    0xff_ffff,
    0xffff_ffff,
    0xff_ffff_ffff,
    0xffff_ffff_ffff,
    0xff_ffff_ffff_ffff,
];

/// Keeps the first `rest` bytes of a word, all of them if `rest` is 8 or more.
#[inline(always)]
pub fn keep(rest: u64) -> u64 {
    if rest < 8 {
        // SAFETY: the masked index is below 8.
        unsafe { *KEEP.as_ptr().add(mask::<7>(rest) as usize) }
    } else {
        u64::MAX
    }
}

/// The symbol of the name at an address, read in chunks; an unreadable name hashes to 0, which no rule has.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn hash_long(name: u64, length: u32) -> u64 {
    let length = length & 255;
    let mut hash = NameHash::new(HASH_KEY.load(), u64::from(length));
    let mut offset = 0u32;
    while offset < 256 {
        if offset >= length {
            break;
        }
        let rest = length - offset;
        // 1 to 32, in a form that shows it to the verifier.
        let take = mask::<31>(u64::from(if rest > 32 { 32 } else { rest }) - 1) as u32 + 1;
        let mut buffer = MaybeUninit::<[u64; 4]>::uninit();
        let words = buffer.as_mut_ptr().cast::<u64>();
        // Volatile, or these become a call of `memset`, whose frame takes 32 bytes of every chain of calls.
        // SAFETY: the four words of the buffer.
        unsafe {
            words.write_volatile(0);
            words.add(1).write_volatile(0);
            words.add(2).write_volatile(0);
            words.add(3).write_volatile(0);
        }
        // SAFETY: at most the buffer's 32 bytes are written.
        let failed = unsafe {
            bpf_probe_read_kernel(
                words.cast::<c_void>(),
                take,
                (name + u64::from(offset)) as *const c_void,
            )
        };
        if failed != 0 {
            return 0;
        }
        let mut i = 0;
        while i < 4 {
            if rest <= i * 8 {
                break;
            }
            // SAFETY: `i` is below 4, and all words were written above.
            hash = hash.word(unsafe { *words.add(i as usize) });
            i += 1;
        }
        offset += 32;
    }
    hash.finish()
}

/// The folder that a dentry is in.
#[inline(always)]
pub fn parent_of(dentry: u64) -> Option<u64> {
    word_of::<{ patch::DENTRY_PARENT }>(dentry, DENTRY_PARENT.load(), ID_DENTRY.load())
}

/// The symbol of a dentry's name if some rule may know it, else `NO_SYMBOL`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn known_symbol(artefact: u32, dentry: u64) -> u64 {
    let symbol = read_symbol(dentry);
    match maps::descriptor(artefact) {
        Some(profile) if !may_have(artefact, profile, symbol) => NO_SYMBOL,
        // Without a descriptor: the step finds that the tables are damaged.
        _ => symbol,
    }
}

/// The symbol of a dentry's name.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn symbol_of(dentry: u64) -> u64 {
    read_symbol(dentry)
}

/// The symbol of a dentry's name; 0 for an unreadable one. Not for the climb itself, whose stack frame has no room for a
/// copy of the name.
#[inline(always)]
fn read_symbol(dentry: u64) -> u64 {
    let key = HASH_KEY.load();
    if HAVE_CAST.load() != 0 {
        let typed = cast(dentry, ID_DENTRY.load());
        // SAFETY: a cast pointer.
        let length = unsafe { half::<{ patch::DENTRY_NAME_LEN }>(typed) };
        return if length < INLINE_NAME {
            inline_hash(key, typed, length)
        } else {
            match probe(dentry + u64::from(DENTRY_NAME.load())) {
                Some(name) => hash_long(name, length as u32),
                None => 0,
            }
        };
    }
    // From the name's hash to the short name, a fact that the loader checks.
    let Some([hash_length, name, _, words @ ..]) =
        probe::<[u64; 7]>(dentry + u64::from(DENTRY_NAME_LEN.load()) - 4)
    else {
        return 0;
    };
    let length = hash_length >> 32;
    if length >= INLINE_NAME {
        return hash_long(name, length as u32);
    }
    let mut hash = NameHash::new(key, length);
    if length > 0 {
        hash = hash.word(words[0] & keep(length));
    }
    if length > 8 {
        hash = hash.word(words[1] & keep(length - 8));
    }
    if length > 16 {
        hash = hash.word(words[2] & keep(length - 16));
    }
    if length > 24 {
        hash = hash.word(words[3] & keep(length - 24));
    }
    hash.finish()
}

/// The fields of a dentry that a climb needs.
pub struct Name {
    pub parent: u64,
    pub name: u64,
    pub length: u32,
}

impl Name {
    #[inline(always)]
    pub fn read(dentry: u64) -> Option<Self> {
        if HAVE_CAST.load() != 0 {
            // Until 6.16 the verifier takes the name's address for a number, later for a pointer: so it is read as bytes.
            let name = probe(dentry + u64::from(DENTRY_NAME.load()))?;
            let dentry = cast(dentry, ID_DENTRY.load());
            // SAFETY: a cast pointer.
            return unsafe {
                Some(Self {
                    parent: number(pointer::<{ patch::DENTRY_PARENT }>(dentry)),
                    name,
                    length: half::<{ patch::DENTRY_NAME_LEN }>(dentry) as u32,
                })
            };
        }
        // `d_parent`, `d_name.{hash,len}` and `d_name.name` are neighbours, a fact that the loader checks.
        let [parent, hash_length, name] = probe::<[u64; 3]>(dentry + u64::from(DENTRY_PARENT.load()))?;
        Some(Self {
            parent,
            name,
            length: (hash_length >> 32) as u32,
        })
    }
}
