//! Labels in the kernel's task storage, for tasks that find no slot.

use core::ffi::c_void;

use aya_ebpf::{bindings::task_struct, helpers::generated::bpf_task_storage_get, macros::btf_map};
use varmor_common::abi::{Label, patch};

use crate::{field::pointer, kernel::Typed};

const GET: u64 = 0;
const CREATE: u64 = 1;

/// A task storage map; aya has no type for it, so this is the BTF definition by hand: 29 is
/// `BPF_MAP_TYPE_TASK_STORAGE`, the flag 1 is `BPF_F_NO_PREALLOC`, which the kernel demands.
#[repr(C)]
pub struct TaskStorage {
    r#type: *const [i32; 29],
    key: *const i32,
    value: *const Label,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; 1],
}
// SAFETY: the pointers are never followed; they carry types into the BTF.
unsafe impl Sync for TaskStorage {}

#[btf_map]
static LABELS: TaskStorage = TaskStorage {
    r#type: core::ptr::null(),
    key: core::ptr::null(),
    value: core::ptr::null(),
    max_entries: core::ptr::null(),
    map_flags: core::ptr::null(),
};

/// The label of a task, or NULL. A task without any storage has none: one load tells that of most tasks of a machine, and
/// the helper, which takes a lock on some kernels, is not called.
///
/// # Safety
/// `task` is a BTF task pointer of the verifier.
#[inline(always)]
pub unsafe fn get(task: Typed) -> *mut Label {
    // SAFETY: passed on.
    if unsafe { pointer::<{ patch::TASK_STORAGE }>(task) }.is_null() {
        return core::ptr::null_mut();
    }
    call(task, core::ptr::null_mut(), GET)
}

/// Whether the task has the label now.
///
/// # Safety
/// `task` is a BTF task pointer of the verifier.
#[inline(always)]
pub unsafe fn set(task: Typed, label: Label) -> bool {
    let mut label = label;
    let stored = call(task, &raw mut label, CREATE);
    if stored.is_null() {
        return false;
    }
    // SAFETY: not NULL; a label that existed before keeps its old value until here.
    unsafe { *stored = label };
    true
}

#[inline(always)]
fn call(task: Typed, initial: *mut Label, flags: u64) -> *mut Label {
    // SAFETY: `task` is a BTF task pointer of the verifier; the helper returns NULL or a valid label.
    unsafe {
        bpf_task_storage_get(
            (&raw const LABELS).cast_mut().cast::<c_void>(),
            task.cast_mut().cast::<task_struct>(),
            initial.cast::<c_void>(),
            flags,
        )
        .cast::<Label>()
    }
}
