//! The set on kernels without atomic exchanges.

use aya_ebpf::{btf_maps::HashMap, macros::btf_map};

/// Address -> 1.
#[btf_map]
static CREDENTIALS: HashMap<u64, u32, 262_144, 1> = HashMap::new();

/// Whether the credential is in the set now; not if the set is full.
#[inline(always)]
pub fn insert(credential: u64) -> bool {
    CREDENTIALS.insert(&credential, &1u32, 0).is_ok()
}

#[inline(always)]
pub fn contains(credential: u64) -> bool {
    // SAFETY: only the presence of the entry counts.
    unsafe { CREDENTIALS.get(&credential) }.is_some()
}

/// Most credentials are not in the set, and a look costs less than a removal, which locks.
#[inline(always)]
pub fn remove(credential: u64) {
    if contains(credential) {
        let _ = CREDENTIALS.remove(&credential);
    }
}
