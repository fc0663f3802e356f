//! Atomic operations, which the compiler does not offer for this target. From Linux 5.12 on.

use core::arch::asm;

/// Writes `new` if the word is `old`; returns what it was.
///
/// # Safety
/// `word` points to eight bytes of a map's value: the verifier refuses the program otherwise.
#[inline(always)]
pub unsafe fn compare_exchange(word: *mut u64, old: u64, new: u64) -> u64 {
    let mut found = old;
    // SAFETY: see above.
    unsafe {
        asm!(
            "r0 = cmpxchg_64({word} + 0, r0, {new})",
            word = in(reg) word,
            new = in(reg) new,
            inout("r0") found,
            options(nostack),
        );
    }
    found
}
