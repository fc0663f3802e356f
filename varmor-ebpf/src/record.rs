//! System calls of recorded workloads, as bytes in a map and not as an event for each.
//!
//! Attached only while something is recorded: it runs at every system call of the machine. It decides nothing.

use aya_ebpf::{
    btf_maps::HashMap,
    macros::{btf_map, btf_tracepoint},
    programs::BtfTracePointContext,
};
use varmor_common::abi::{CALL_FOREIGN, CALL_NUMBERS, Calls, MAX_RECORDINGS};

use crate::{kernel::probe, labels, maps::BINDINGS};

const NO_PREALLOC: usize = 1;

/// Profile slot -> its system calls. User space makes the entry when a recording begins.
#[btf_map]
static CALLS: HashMap<u32, Calls, { MAX_RECORDINGS as usize }, NO_PREALLOC> = HashMap::new();

/// A task of any kind enters the kernel: the registers that it brought, and the number of the call.
///
/// Not a raw tracepoint: kernels before 6.1 warn where such a program comes with a map that allocates as it runs, as labels do on
/// 5.10, and with `panic_on_warn` that is the end of the node (`is_tracing_prog_type` in their `kernel/bpf/verifier.c`).
#[btf_tracepoint(function = "sys_enter")]
pub fn sys_enter(ctx: BtfTracePointContext) -> i32 {
    let Some(label) = labels::current() else { return 0 };
    let Some(binding) = BINDINGS.get(label.binding) else {
        return 0;
    };
    if binding.cgroup != label.cgroup {
        return 0;
    }
    let slot = binding.slot;
    let Some(calls) = CALLS.get_ptr_mut(&slot) else {
        return 0;
    };
    let (registers, number) = (ctx.arg::<u64>(0), ctx.arg::<u64>(1));
    // SAFETY: user space sets it before the entry is there and does not change it.
    let (offset, native) = unsafe { ((*calls).segment_offset, (*calls).native_segment) };
    let is_native = offset == 0
        || probe::<u16>(registers + u64::from(offset)).is_some_and(|segment| u32::from(segment) == native);
    let index = if is_native && number < CALL_NUMBERS as u64 {
        number as usize
    } else {
        CALL_FOREIGN
    };
    // SAFETY: the index is inside of the array; a byte is written whole, and every writer writes the same.
    unsafe { (&raw mut (*calls).seen).cast::<u8>().add(index).write_volatile(1) };
    0
}
