//! The unsafe floor of the tests: system calls by number, in both of the machine's conventions.
#![expect(unsafe_code, reason = "system calls that a filter is asked about")]

use std::io;

/// Carries a system call out; its error number if it fails.
///
/// Callers pass numbers and null pointers only, so that no memory is at stake.
pub(super) fn call(number: u32, arguments: [u64; 6]) -> Result<i64, i32> {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    // SAFETY: the kernel checks every argument; the tests pass null for pointers, so it writes to no memory of ours.
    let result = unsafe { libc::syscall(i64::from(number), first, second, third, fourth, fifth, sixth) };
    if result == -1 {
        Err(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    } else {
        Ok(result)
    }
}

/// The same through the 32-bit gate, with three arguments.
#[cfg(target_arch = "x86_64")]
pub(super) fn call_32(number: u32, [first, second, third]: [u32; 3]) -> Result<i32, i32> {
    let result: i64;
    // SAFETY: int 0x80 keeps the stack and clobbers rax and r8 to r11 only; rbx, which the compiler reserves, is
    // put back. The kernel checks the arguments, and the tests pass null for pointers.
    unsafe {
        core::arch::asm!(
            "push rbx",
            "mov ebx, {first:e}",
            "int 0x80",
            "pop rbx",
            first = in(reg) first,
            inlateout("rax") u64::from(number) => result,
            in("rcx") u64::from(second),
            in("rdx") u64::from(third),
            lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
        );
    }
    // The 32-bit convention returns 32 bits.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half is not part of the result"
    )]
    let result = result as i32;
    if (-4095..0).contains(&result) {
        Err(-result)
    } else {
        Ok(result)
    }
}
