//! Labels of kernels without task storage or without atomic exchanges: a hash keyed by the task's address.

use aya_ebpf::{
    btf_maps::HashMap, helpers::generated::bpf_get_current_task, macros::btf_map, programs::LsmContext,
};
use varmor_common::abi::Label;

use crate::field::argument;

/// Task address -> label. A full map refuses the fork of a protected task.
#[btf_map]
static LABELS: HashMap<u64, Label, 131_072, 1> = HashMap::new();

#[inline(always)]
pub fn current() -> Option<Label> {
    // SAFETY: the helper has no precondition.
    of(core::ptr::null(), unsafe { bpf_get_current_task() })
}

/// The current task's label, to be changed in place.
#[inline(always)]
pub fn current_mut() -> Option<*mut Label> {
    // SAFETY: the helper has no precondition.
    LABELS.get_ptr_mut(&unsafe { bpf_get_current_task() })
}

#[inline(always)]
pub fn set_current(label: Label) -> bool {
    // SAFETY: the helper has no precondition.
    set(unsafe { bpf_get_current_task() }, label)
}

/// The label of another task, given as a hook argument.
#[inline(always)]
pub fn of(_task: *const u8, address: u64) -> Option<Label> {
    // SAFETY: entries are replaced, never changed in place (no-prealloc hash), so the copy is whole.
    unsafe { LABELS.get(&address) }.copied()
}

/// Gives a label to the new task that is the hook's first argument.
#[inline(always)]
pub fn set_child(ctx: &LsmContext, label: Label) -> bool {
    argument::<0>(ctx).is_some_and(|child| set(child, label))
}

/// Forgets a task that has ended.
#[inline(always)]
pub fn remove(task: u64) {
    let _ = LABELS.remove(&task);
}

#[inline(always)]
fn set(task: u64, label: Label) -> bool {
    LABELS.insert(&task, &label, 0).is_ok()
}
