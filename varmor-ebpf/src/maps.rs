//! All maps. User space writes every one of them except the labels, the credentials, the counters and the ring.
//!
//! A compiled profile (artefact) is a set of inner maps under one index; a profile slot names the index, so
//! that one write of a slot swaps the whole profile for every task at once.

use aya_ebpf::{
    btf_maps::{Array, ArrayOfMaps, HashMap},
    macros::{btf_map, map},
    maps::{PerCpuArray, RingBuf},
};
use varmor_common::abi::{
    Binding, COUNTER_FAULTS, Descriptor, FAULTS, GlobRow, MAX_ARTEFACTS, MAX_BINDINGS, MAX_SLOTS, Managed, Point,
    PointKey, SETTINGS as SETTING_WORDS, State, Transition,
};

const NO_PREALLOC: usize = 1;
const INNER_MAP: usize = 1 << 12;
const ARTEFACTS: usize = MAX_ARTEFACTS as usize;

/// Cgroup id -> how its tasks get their label.
#[btf_map]
pub static CGROUPS: HashMap<u64, Managed, { MAX_BINDINGS as usize }, NO_PREALLOC> = HashMap::new();

/// Binding -> container and profile slot. An array: read on every hook of a protected task.
#[btf_map]
pub static BINDINGS: Array<Binding, { MAX_BINDINGS as usize }> = Array::new();

/// Profile slot -> artefact; 0 = nothing is loaded: everything is allowed.
#[btf_map]
pub static SLOTS: Array<u32, { MAX_SLOTS as usize }> = Array::new();

#[btf_map]
pub static DESCRIPTORS: ArrayOfMaps<Array<Descriptor, 1, INNER_MAP>, ARTEFACTS> = ArrayOfMaps::new();
#[btf_map]
pub static STATES: ArrayOfMaps<Array<State, 1, INNER_MAP>, ARTEFACTS> = ArrayOfMaps::new();
#[btf_map]
pub static TRANSITIONS: ArrayOfMaps<TransitionTable, ARTEFACTS> = ArrayOfMaps::new();
pub type TransitionTable = HashMap<Transition, u32, 1, NO_PREALLOC>;
#[btf_map]
pub static COMPONENT_GLOBS: ArrayOfMaps<Array<GlobRow, 1, INNER_MAP>, ARTEFACTS> = ArrayOfMaps::new();
#[btf_map]
pub static MOUNT_SOURCES: ArrayOfMaps<Array<GlobRow, 1, INNER_MAP>, ARTEFACTS> = ArrayOfMaps::new();
#[btf_map]
pub static POINTS: ArrayOfMaps<HashMap<PointKey, Point, 1, NO_PREALLOC>, ARTEFACTS> = ArrayOfMaps::new();

/// Credentials that descend from labelled tasks: address -> 1.
#[btf_map]
pub static CREDENTIALS: HashMap<u64, u32, 262_144, NO_PREALLOC> = HashMap::new();

/// Word 0: 1 while some cgroup may hold tasks that have to be adopted.
#[btf_map]
pub static SETTINGS: Array<u32, { SETTING_WORDS as usize }> = Array::new();

/// `COUNTER_*`, then one per fault reason.
#[map]
pub static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTER_FAULTS + FAULTS, 0);

/// Audit events. 4 MiB hold about 2,000 events.
#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(4 << 20, 0);

/// Adds one to a counter of this CPU.
#[inline(always)]
pub fn count(counter: u32) {
    if let Some(value) = COUNTERS.get_ptr_mut(counter) {
        // SAFETY: the slot belongs to this CPU and the program cannot migrate; a preempting program on the same
        // CPU may lose one count, never corrupt the map.
        unsafe { *value += 1 };
    }
}
