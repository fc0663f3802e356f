//! Labels in an array, found by the random number of the task.
//!
//! The kernel gives every task a number for its stack protector while it is copied, before it asks `task_alloc`
//! (`dup_task_struct` in kernel/fork.c): 56 random bits that neither the task nor anybody else chooses, that no other task
//! has, and that stay until it ends. A slot belongs to the task with its number. Nobody has to clear it when the task ends: the next task at
//! the same address has another number, so a fork that finds no empty slot takes one whose owner is gone.

use aya_ebpf::{
    btf_maps::Array,
    helpers::generated::{bpf_get_current_task, bpf_get_current_task_btf},
    macros::btf_map,
    programs::LsmContext,
};
use varmor_common::abi::{Label, patch};

use super::storage;
use crate::{
    atomic::compare_exchange,
    field::{self, word},
    kernel::{Typed, is_zero, mask, probe},
    offsets::TASK_CANARY,
};

const BUCKETS: usize = 16_384;
/// Labels in a bucket; `place` chooses between two without a branch.
const WAYS: usize = 2;

/// The slot is being written.
const BUSY: u64 = 1 << 62;
/// In the number of every task, so that none is that of an empty slot.
const TAKEN: u64 = 1 << 61;

/// The slots that a task may have.
#[repr(C)]
struct Bucket {
    /// Number of the task; 0 = empty.
    numbers: [u64; WAYS],
    /// Address of the task.
    owners: [u64; WAYS],
    labels: [Label; WAYS],
}

#[btf_map]
static LABEL_SLOTS: Array<Bucket, BUCKETS> = Array::new();

#[inline(always)]
pub fn current() -> Option<Label> {
    // SAFETY: not NULL means a label, which the current task alone changes.
    current_mut().map(|label| unsafe { *label })
}

/// The current task's label, to be changed in place.
#[inline(always)]
pub fn current_mut() -> Option<*mut Label> {
    // SAFETY: the helper has no precondition, and its result is a BTF pointer.
    let label = unsafe { find(bpf_get_current_task_btf().cast::<u8>()) };
    (!label.is_null()).then_some(label)
}

#[inline(always)]
pub fn set_current(label: Label) -> bool {
    // SAFETY: as above.
    unsafe {
        set(
            bpf_get_current_task_btf().cast::<u8>(),
            bpf_get_current_task(),
            label,
        )
    }
}

/// The label of another task, given as a hook argument.
#[inline(always)]
pub fn of(task: Typed, _address: u64) -> Option<Label> {
    // SAFETY: hooks give a BTF task pointer; not NULL means a label.
    unsafe { find(task).as_ref() }.copied()
}

/// Gives a label to the new task that is the hook's first argument.
#[inline(always)]
pub fn set_child(ctx: &LsmContext, label: Label) -> bool {
    let child: Typed = ctx.arg(0);
    let address = field::argument::<0>(ctx).unwrap_or(0);
    // SAFETY: the argument is a BTF task pointer.
    unsafe { set(child, address, label) }
}

/// The label of a task, or NULL.
///
/// # Safety
/// `task` is a BTF task pointer of the verifier.
#[inline(always)]
unsafe fn find(task: Typed) -> *mut Label {
    // SAFETY: passed on.
    let random = unsafe { word::<{ patch::TASK_CANARY }>(task) } >> 8;
    if let Some(bucket) = bucket(random) {
        // SAFETY: `place` is below `WAYS`.
        unsafe {
            let place = place(bucket, random | TAKEN);
            if *(&raw const (*bucket).numbers).cast::<u64>().add(place) == random | TAKEN {
                return (&raw mut (*bucket).labels).cast::<Label>().add(place);
            }
        }
    }
    // SAFETY: passed on.
    unsafe { storage::get(task) }
}

/// Where the number is, if it is in the bucket: 0 or 1.
#[inline(always)]
fn place(bucket: *mut Bucket, number: u64) -> usize {
    // SAFETY: a pointer into the map. Both numbers are below 2^63.
    let first = unsafe { (*bucket).numbers[0] } ^ number;
    mask::<1>(u64::from(1 - is_zero(first))) as usize
}

/// # Safety
/// `task` is a BTF task pointer of the verifier, `address` the same as a number.
#[inline(always)]
unsafe fn set(task: Typed, address: u64, label: Label) -> bool {
    // SAFETY: passed on.
    let random = unsafe { word::<{ patch::TASK_CANARY }>(task) } >> 8;
    if let Some(bucket) = bucket(random)
        && (take(bucket, 0, random | TAKEN, address, label)
            || take(bucket, 1, random | TAKEN, address, label))
    {
        return true;
    }
    // SAFETY: passed on.
    unsafe { storage::set(task, label) }
}

/// Takes a slot that is empty or whose owner has ended.
#[inline(always)]
fn take(bucket: *mut Bucket, place: usize, number: u64, address: u64, label: Label) -> bool {
    // SAFETY: `place` is below `WAYS`. Whoever has exchanged the number for `BUSY` is the only one who writes the slot,
    // and nobody looks for the label of a task that is not yet alive, or at that of the current one.
    unsafe {
        let found = (*bucket).numbers[place];
        if found == BUSY || found != 0 && is_alive((*bucket).owners[place], found) {
            return false;
        }
        if compare_exchange(&raw mut (*bucket).numbers[place], found, BUSY) != found {
            return false;
        }
        (*bucket).owners[place] = address;
        (*bucket).labels[place] = label;
        (&raw mut (*bucket).numbers[place]).write_volatile(number);
    }
    true
}

/// Whether the task at an address has this number. Memory of a task that has ended may keep it for a while, which only
/// keeps the slot.
#[inline(always)]
fn is_alive(task: u64, number: u64) -> bool {
    probe::<u64>(task + u64::from(TASK_CANARY.load())).is_some_and(|random| random >> 8 | TAKEN == number)
}

#[inline(always)]
fn bucket(random: u64) -> Option<*mut Bucket> {
    LABEL_SLOTS.get_ptr_mut(random as u32 & (BUCKETS as u32 - 1))
}
