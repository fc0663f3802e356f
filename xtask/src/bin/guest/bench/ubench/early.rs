//! What this program does before the Rust runtime: that asks for the bounds of its stack, which opens `/proc/self/maps`. A
//! program in C, as UnixBench's is, opens nothing, and under an enforcer an open is what costs.
#![expect(
    unsafe_code,
    reason = "a constructor of the C library, which calls it before the entry point"
)]

use super::calls;

// SAFETY: glibc calls what stands in this section, after it is ready itself and after Rust has kept the arguments, which it
// does in the same way and with a higher priority (`really_init` in library/std/src/sys/args/unix.rs).
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    if let Some(code) = calls::execl_link() {
        std::process::exit(code);
    }
}
