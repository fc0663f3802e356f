//! The set as an array of small buckets.
//!
//! An address is put in, and taken out, once in the life of its credential; two tasks that share one may both put it in
//! when they are adopted, so a removal looks at the whole bucket.

use aya_ebpf::{
    btf_maps::{Array, HashMap},
    macros::btf_map,
};

use crate::atomic::compare_exchange;

/// 2^14.
const BUCKETS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
const WAYS: usize = 4;
/// 2^64 divided by the golden ratio: spreads addresses that differ in few bits (Knuth, The Art of Computer Programming, 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Addresses; 0 = empty.
#[btf_map]
static CREDENTIAL_SLOTS: Array<[u64; WAYS], BUCKETS> = Array::new();

/// What found its bucket full: address -> 1.
#[btf_map]
static CREDENTIALS: HashMap<u64, u32, 131_072, 1> = HashMap::new();

/// Word 0: 1 once something is in `CREDENTIALS`.
#[btf_map]
static CREDENTIALS_USED: Array<u32, 1> = Array::new();

/// Whether the credential is in the set now; not if the set is full.
#[inline(always)]
pub fn insert(credential: u64) -> bool {
    let Some(bucket) = bucket(credential) else {
        return false;
    };
    let mut way = 0;
    while way < WAYS {
        // SAFETY: `way` is below `WAYS`.
        let found = unsafe { compare_exchange(bucket.add(way), 0, credential) };
        if found == 0 || found == credential {
            return true;
        }
        way += 1;
    }
    let Some(used) = CREDENTIALS_USED.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: everybody writes the same.
    unsafe { used.write_volatile(1) };
    CREDENTIALS.insert(&credential, &1u32, 0).is_ok()
}

#[inline(always)]
pub fn contains(credential: u64) -> bool {
    let Some(bucket) = bucket(credential) else {
        return false;
    };
    let mut way = 0;
    while way < WAYS {
        // SAFETY: `way` is below `WAYS`.
        if unsafe { bucket.add(way).read_volatile() } == credential {
            return true;
        }
        way += 1;
    }
    // SAFETY: only the presence of the entry counts.
    has_overflown() && unsafe { CREDENTIALS.get(&credential) }.is_some()
}

#[inline(always)]
pub fn remove(credential: u64) {
    let Some(bucket) = bucket(credential) else { return };
    let mut way = 0;
    while way < WAYS {
        // SAFETY: `way` is below `WAYS`. Nobody else writes a slot with an address in it.
        unsafe {
            if bucket.add(way).read_volatile() == credential {
                bucket.add(way).write_volatile(0);
            }
        }
        way += 1;
    }
    // SAFETY: only the presence of the entry counts.
    if has_overflown() && unsafe { CREDENTIALS.get(&credential) }.is_some() {
        let _ = CREDENTIALS.remove(&credential);
    }
}

#[inline(always)]
fn has_overflown() -> bool {
    CREDENTIALS_USED.get(0).is_some_and(|used| *used != 0)
}

#[inline(always)]
fn bucket(credential: u64) -> Option<*mut u64> {
    let index = (credential.wrapping_mul(SPREAD) >> (64 - INDEX_BITS)) as u32;
    CREDENTIAL_SLOTS.get_ptr_mut(index).map(<*mut [u64; WAYS]>::cast)
}
