//! Field accesses of the hot paths: loads whose offset the loader writes into the instruction, casts, and addresses.
//!
//! A load through a constant of [`crate::offsets`] costs three instructions more than the load itself, which counts
//! where a walk does it for every component. Here the instruction carries a number below -20,000 instead of an
//! offset; no compiler makes such a load, so the loader finds and replaces them (`patch.rs` of the agent), and the verifier
//! refuses a program in which one is left.

use core::arch::asm;

use aya_ebpf::programs::LsmContext;
use varmor_common::abi::patch::CAST;

use crate::{
    kernel::{Typed, probe},
    offsets::HAVE_CAST,
};

macro_rules! loads {
    ($($(#[$meta:meta])* $name:ident: $type:ty = $width:literal),* $(,)?) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// `base` is a BTF pointer of the verifier and `FIELD` one of `abi::patch`: the verifier checks that a field of
        /// this size starts at the offset, and the fault handler of the load covers a dead object.
        #[inline(always)]
        pub unsafe fn $name<const FIELD: i32>(base: Typed) -> $type {
            let value: $type;
            // SAFETY: see above; the verifier refuses the program otherwise.
            unsafe {
                asm!(
                    concat!("{d} = *(", $width, " *)({s} - {f})"),
                    d = out(reg) value,
                    s = in(reg) base,
                    f = const FIELD,
                    options(readonly, nostack),
                );
            }
            value
        }
    )*};
}

loads! {
    /// Loads a pointer field.
    pointer: Typed = "u64",
    /// Loads a 64-bit field that is no pointer.
    word: u64 = "u64",
    /// Loads a 32-bit field.
    half: u64 = "u32",
}

/// A typed pointer to the structure `kind` (a type id of the kernel) at an address; loads through it are checked
/// and survive a bad address. Only where `HAVE_CAST` says so (`bpf_rdonly_cast`, Linux 6.2).
#[inline(always)]
pub fn cast(address: u64, kind: u32) -> Typed {
    // SAFETY: the constant stands for the kernel's function until the loader writes its number over it; where the
    // kernel has none, the verifier removes the call as dead code.
    unsafe {
        let function: unsafe extern "C" fn(u64, u32) -> Typed = core::mem::transmute(CAST as usize);
        function(address, kind)
    }
}

/// The address that a pointer field of `holder` at `offset` holds, which is `value` as the verifier knows it.
///
/// The verifier takes the difference of two pointers for a plain number; one of known value gives the address.
#[cfg(feature = "ts")]
#[inline(always)]
pub fn address(value: Typed, _holder: Typed, _offset: u32) -> Option<u64> {
    use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_get_current_task_btf};
    let (base, known) = if HAVE_CAST.load() != 0 {
        (cast(0, crate::offsets::ID_DENTRY.load()), 0)
    } else {
        // SAFETY: the helpers have no precondition; both give the current task, once as a number.
        unsafe {
            (
                bpf_get_current_task_btf().cast::<u8>().cast_const(),
                bpf_get_current_task(),
            )
        }
    };
    let mut difference = value as u64;
    // SAFETY: one BPF instruction on registers, hidden from the compiler, which would reorder the sum.
    unsafe {
        asm!("{d} -= {s}", d = inout(reg) difference, s = in(reg) base, options(pure, nomem, nostack));
    }
    Some(difference + known)
}

/// As above, for kernels without a typed current task: reads the field again.
#[cfg(not(feature = "ts"))]
#[inline(always)]
pub fn address(_value: Typed, holder: Typed, offset: u32) -> Option<u64> {
    crate::kernel::scalar(holder, offset)
}

/// Hook argument `N`, a pointer that is never NULL, as a plain number.
#[cfg(feature = "ts")]
#[inline(always)]
pub fn argument<const N: usize>(ctx: &LsmContext) -> Option<u64> {
    let value: Typed = ctx.arg(N);
    address(value, value, 0)
}

/// As above, for kernels without a typed current task: reads the argument from memory.
#[cfg(not(feature = "ts"))]
#[inline(always)]
pub fn argument<const N: i32>(ctx: &LsmContext) -> Option<u64> {
    crate::kernel::raw_argument::<N>(ctx)
}

/// The word at `address + offset`, which is the field `FIELD` of a structure `kind`, as a plain number.
#[inline(always)]
pub fn word_of<const FIELD: i32>(address: u64, offset: u32, kind: u32) -> Option<u64> {
    if HAVE_CAST.load() != 0 {
        // SAFETY: the cast makes a pointer that the verifier knows.
        Some(number(unsafe { pointer::<FIELD>(cast(address, kind)) }))
    } else {
        probe(address + u64::from(offset))
    }
}

/// A pointer on kernels with casts as a plain number.
#[inline(always)]
pub fn number(value: Typed) -> u64 {
    let mut difference = value as u64;
    let zero = cast(0, crate::offsets::ID_DENTRY.load());
    // SAFETY: as in `address`.
    unsafe {
        asm!("{d} -= {s}", d = inout(reg) difference, s = in(reg) zero, options(pure, nomem, nostack));
    }
    difference
}
