//! Reading kernel memory: typed loads that the verifier checks, and probing reads of plain addresses.

use core::{ffi::c_void, mem::MaybeUninit};

use aya_ebpf::{EbpfContext as _, helpers::generated::bpf_probe_read_kernel, programs::LsmContext};

/// A BTF-typed kernel pointer as the verifier sees it.
pub type Typed = *const u8;

/// Loads the pointer field at `offset`.
///
/// # Safety
/// `base` is a BTF pointer of the verifier, `offset` a frozen fact from [`crate::offsets`]: the verifier checks
/// that a pointer field starts there and the fault handler of the load covers a dead object.
#[inline(always)]
pub unsafe fn pointer(base: Typed, offset: u32) -> Typed {
    // SAFETY: see above; the verifier refuses the program otherwise.
    unsafe { *base.add(offset as usize).cast::<Typed>() }
}

/// Loads a 64-bit field; see [`pointer`].
///
/// # Safety
/// As for [`pointer`].
#[inline(always)]
pub unsafe fn u64_at(base: Typed, offset: u32) -> u64 {
    // SAFETY: as in `pointer`.
    unsafe { *base.add(offset as usize).cast::<u64>() }
}

/// Loads a 32-bit field; see [`pointer`].
///
/// # Safety
/// As for [`pointer`].
#[inline(always)]
pub unsafe fn u32_at(base: Typed, offset: u32) -> u32 {
    // SAFETY: as in `pointer`.
    unsafe { *base.add(offset as usize).cast::<u32>() }
}

/// Loads a 16-bit field; see [`pointer`].
///
/// # Safety
/// As for [`pointer`].
#[inline(always)]
pub unsafe fn u16_at(base: Typed, offset: u32) -> u16 {
    // SAFETY: as in `pointer`.
    unsafe { *base.add(offset as usize).cast::<u16>() }
}

/// Reads `T` (integers and arrays of them only) from any kernel address; `None` if the address cannot be read.
#[inline(always)]
pub fn probe<T: Copy>(address: u64) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the helper writes all `size_of::<T>()` bytes of `value`, zeros if the source cannot be read.
    unsafe {
        let failed = bpf_probe_read_kernel(
            value.as_mut_ptr().cast::<c_void>(),
            size_of::<T>() as u32,
            address as *const c_void,
        );
        if failed == 0 {
            Some(value.assume_init())
        } else {
            None
        }
    }
}

/// As [`probe`], with zero for what cannot be read, and without a branch: the helper clears its buffer on failure.
#[inline(always)]
pub fn probe_or_zero(address: u64) -> u16 {
    let mut value = MaybeUninit::<u16>::uninit();
    // SAFETY: as in `probe`.
    unsafe {
        bpf_probe_read_kernel(
            value.as_mut_ptr().cast::<c_void>(),
            size_of::<u16>() as u32,
            address as *const c_void,
        );
        value.assume_init()
    }
}

/// As [`probe_or_zero`], for a word.
#[inline(always)]
pub fn word_or_zero(address: u64) -> u64 {
    let mut value = MaybeUninit::<u64>::uninit();
    // SAFETY: as in `probe`.
    unsafe {
        bpf_probe_read_kernel(
            value.as_mut_ptr().cast::<c_void>(),
            size_of::<u64>() as u32,
            address as *const c_void,
        );
        value.assume_init()
    }
}

/// 1 if `value` (below 2^63) is zero, else 0, computed without a branch: each branch on the way to a walk would
/// double the verifier's work for the walk.
#[inline(always)]
pub fn is_zero(value: u64) -> u32 {
    let mut value = value;
    // SAFETY: two BPF instructions on a register.
    unsafe {
        core::arch::asm!("{x} += -1", "{x} >>= 63", x = inout(reg) value, options(pure, nomem, nostack));
    }
    value as u32
}

/// Reads the word at `base + offset` as a plain number: the way to turn a pointer field into a scalar.
#[inline(always)]
pub fn scalar(base: Typed, offset: u32) -> Option<u64> {
    let mut value = 0u64;
    // SAFETY: as in `probe`; `base` is only an address here.
    let failed = unsafe {
        bpf_probe_read_kernel(
            (&raw mut value).cast::<c_void>(),
            8,
            base.add(offset as usize).cast::<c_void>(),
        )
    };
    (failed == 0).then_some(value)
}

/// A typed pointer as a plain number, on kernels with casts and without: written to the stack, and read from there by the
/// helper. Zero, which is no address, if that fails.
#[inline(always)]
pub fn as_number(pointer: Typed) -> u64 {
    let slot = pointer;
    word_or_zero(&raw const slot as u64)
}

/// Hook argument `N` as a plain number, which the verifier does not assume to be a valid pointer.
///
/// From 6.4 on the verifier takes every pointer argument of an LSM hook as non-NULL and deletes a check of ours
/// (51302c951c8f), although the kernel does pass NULL to some hooks: those arguments are only read this way.
#[inline(always)]
pub fn raw_argument<const N: i32>(ctx: &LsmContext) -> Option<u64> {
    let mut slot = ctx.as_ptr().cast::<u8>();
    // The addition is hidden from the compiler: it would load other arguments through the result, and a load from
    // a moved context pointer is refused ("dereference of modified ctx ptr").
    // SAFETY: one BPF instruction on a register.
    unsafe {
        core::arch::asm!("{x} += {n}", x = inout(reg) slot, n = const N * 8, options(pure, nomem, nostack));
    }
    probe(slot as u64)
}

/// `value & M`, in a form that the compiler cannot move away from its use: the verifiers of 5.10 and 6.1 lose a
/// bound that LLVM has re-associated.
#[inline(always)]
pub fn mask<const M: i32>(value: u64) -> u64 {
    let mut value = value;
    // SAFETY: one BPF instruction on a register.
    unsafe {
        core::arch::asm!("{x} &= {m}", x = inout(reg) value, m = const M, options(pure, nomem, nostack));
    }
    value
}
