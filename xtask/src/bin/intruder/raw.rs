//! The entry point of C, which is what stands before Rust's own.
#![expect(
    unsafe_code,
    reason = "the entry point of a C program; every block says what it relies on"
)]

use std::ffi::{CStr, c_char, c_int};

/// # Safety
/// The C library calls it, once, with the arguments of the process.
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    let arguments: Vec<String> = (1..count)
        .map(|index| {
            // SAFETY: the C library gives `count` pointers to strings that end in a zero byte and live as long as the
            // process.
            let text = unsafe { CStr::from_ptr(*arguments.add(index)) };
            text.to_string_lossy().into_owned()
        })
        .collect();
    super::run(&arguments);
    0
}
