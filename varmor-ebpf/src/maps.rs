//! All maps. User space writes every one of them except the labels, the credentials, the aliases, the
//! counters and the ring.
//!
//! A compiled profile (artefact) is a set of inner maps under one index; a profile slot names the index, so
//! that one write of a slot swaps the whole profile for every task at once.

use aya_ebpf::{
    btf_maps::{Array, ArrayOfMaps, HashMap, LruHashMap},
    macros::{btf_map, map},
    maps::{PerCpuArray, RingBuf},
};
use varmor_common::abi::{
    Binding, COUNTER_FAULTS, Descriptor, FAULTS, GlobRow, HitKey, Hits, MAX_ARTEFACTS, MAX_BINDINGS,
    MAX_HITS, MAX_MANAGED, MAX_OWN, MAX_RECENT, MAX_SLOTS, MAX_WAITING, Managed, NetRow, NetTest, Point,
    PointKey, Recent, SETTINGS as SETTING_WORDS, SlotCounts, State, Transition, Waiting,
};

const NO_PREALLOC: usize = 1;
const INNER_MAP: usize = 1 << 12;
const ARTEFACTS: usize = MAX_ARTEFACTS as usize;

/// Cgroup id -> how its tasks get their label.
#[btf_map]
pub static CGROUPS: HashMap<u64, Managed, { MAX_MANAGED as usize }, NO_PREALLOC> = HashMap::new();

/// Process -> since when it waits at the gate. The agent takes entries out.
#[btf_map]
pub static WAITING: HashMap<u32, Waiting, { MAX_WAITING as usize }, NO_PREALLOC> = HashMap::new();

/// Wakes the agent: somebody waits.
#[map]
pub static STARTS: RingBuf = RingBuf::with_byte_size(1 << 12, 0);

/// Binding -> container and profile slot. An array: read on every hook of a protected task.
#[btf_map]
pub static BINDINGS: Array<Binding, { MAX_BINDINGS as usize }> = Array::new();

/// Profile slot -> artefact; 0 = nothing is loaded: everything is allowed.
#[btf_map]
pub static SLOTS: Array<u32, { MAX_SLOTS as usize }> = Array::new();

// The values of inner maps are declared as words, not as the structures that they hold: for a structure the type
// information of 6.1 notes that it has no timer, for words and for maps without type information it notes nothing,
// and only maps with equal notes may stand in for each other (`bpf_map_meta_equal`).
#[btf_map]
static DESCRIPTORS: ArrayOfMaps<Array<[u64; size_of::<Descriptor>() / 8], 1, INNER_MAP>, ARTEFACTS> =
    ArrayOfMaps::new();
#[btf_map]
static STATES: ArrayOfMaps<Array<[u64; size_of::<State>() / 8], 1, INNER_MAP>, ARTEFACTS> =
    ArrayOfMaps::new();
#[btf_map]
pub static TRANSITIONS: ArrayOfMaps<TransitionTable, ARTEFACTS> = ArrayOfMaps::new();
#[btf_map]
pub static COMPONENT_GLOBS: ArrayOfMaps<GlobTable, ARTEFACTS> = ArrayOfMaps::new();
#[btf_map]
pub static MOUNT_SOURCES: ArrayOfMaps<GlobTable, ARTEFACTS> = ArrayOfMaps::new();
#[btf_map]
pub static POINTS: ArrayOfMaps<PointTable, ARTEFACTS> = ArrayOfMaps::new();

#[btf_map]
static NET_ROWS: ArrayOfMaps<Array<[u64; size_of::<NetRow>() / 8], 1, INNER_MAP>, ARTEFACTS> =
    ArrayOfMaps::new();
#[btf_map]
static NET_TESTS: ArrayOfMaps<Array<[u64; size_of::<NetTest>() / 8], 1, INNER_MAP>, ARTEFACTS> =
    ArrayOfMaps::new();

pub type TransitionTable = HashMap<Transition, u32, 1, NO_PREALLOC>;
pub type GlobTable = Array<[u64; size_of::<GlobRow>() / 8], 1, INNER_MAP>;
/// Value: the verdict in the low half, the site in the high half.
pub type PointTable = HashMap<PointKey, u64, 1, NO_PREALLOC>;

/// The descriptor of an artefact.
#[inline(always)]
pub fn descriptor(artefact: u32) -> Option<&'static Descriptor> {
    let mut key = 0u32;
    // SAFETY: the volatile write keeps the key on the stack. As a constant it would go to `.rodata` and share its
    // place with a fact of equal value, which the loader overwrites.
    unsafe { (&raw mut key).write_volatile(0) };
    // SAFETY: user space fills the map with this type (`Tables::fill` of the agent).
    DESCRIPTORS
        .get_value(artefact, &key)
        .map(|words| unsafe { &*(&raw const *words).cast::<Descriptor>() })
}

/// A state of an artefact.
#[inline(always)]
pub fn state(artefact: u32, number: u32) -> Option<&'static State> {
    // SAFETY: as in `descriptor`.
    STATES
        .get_value(artefact, &number)
        .map(|words| unsafe { &*(&raw const *words).cast::<State>() })
}

/// A row of a byte automaton.
#[inline(always)]
pub fn glob_row(table: &'static GlobTable, number: u32) -> Option<&'static GlobRow> {
    // SAFETY: as in `descriptor`.
    table
        .get(number)
        .map(|words| unsafe { &*(&raw const *words).cast::<GlobRow>() })
}

/// A row of the network rules' diagram.
#[inline(always)]
pub fn net_row(artefact: u32, number: u32) -> Option<&'static NetRow> {
    // SAFETY: as in `descriptor`.
    NET_ROWS
        .get_value(artefact, &number)
        .map(|words| unsafe { &*(&raw const *words).cast::<NetRow>() })
}

/// A test of the network rules' diagram.
#[inline(always)]
pub fn net_test(artefact: u32, number: u32) -> Option<&'static NetTest> {
    // SAFETY: as in `descriptor`.
    NET_TESTS
        .get_value(artefact, &number)
        .map(|words| unsafe { &*(&raw const *words).cast::<NetTest>() })
}

/// A point of an artefact.
#[inline(always)]
pub fn point(table: &'static PointTable, key: &PointKey) -> Option<Point> {
    // SAFETY: entries of a loaded artefact never change, so the reference stays whole.
    unsafe { table.get(key) }.map(|value| Point {
        verdict: *value as u32,
        site: (*value >> 32) as u32,
    })
}

/// The enforcer's own maps, programs and links: `abi::own_key` -> 1.
#[btf_map]
pub static OWN: HashMap<u64, u32, { MAX_OWN as usize }, NO_PREALLOC> = HashMap::new();

/// Binding -> 1 from the time when a task of the container bound one place of the tree to another: objects may have
/// several names there. Beside the bindings and not in them, because programs write it.
#[btf_map]
pub static ALIASED: Array<u32, { MAX_BINDINGS as usize }> = Array::new();

/// Word 0: 1 while some cgroup may hold tasks that have to be adopted.
#[btf_map]
pub static SETTINGS: Array<u32, { SETTING_WORDS as usize }> = Array::new();

/// `COUNTER_*`, then one per fault reason.
#[map]
pub static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTER_FAULTS + FAULTS, 0);

/// Where rules spoke, how often.
#[btf_map]
pub static HITS: HashMap<HitKey, Hits, { MAX_HITS as usize }, NO_PREALLOC> = HashMap::new();

/// Identity of an event -> when it was written. The least recently used is forgotten first.
#[btf_map]
pub static RECENT: LruHashMap<u64, Recent, { MAX_RECENT as usize }> = LruHashMap::new();

/// Numbers of each profile slot.
#[btf_map]
pub static SLOT_COUNTS: Array<SlotCounts, { MAX_SLOTS as usize }> = Array::new();

/// Audit events. 4 MiB hold about 10,000 events with paths of usual length.
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
