//! The kernel half of varmor: BPF LSM programs that judge what labelled tasks do.
//!
//! A hook knows permissions and objects, never rule names; those are in the tables that the agent compiles.
#![no_std]
#![no_main]
// The masks of `kernel::mask` are inline BPF assembly.
#![feature(asm_experimental_arch)]

mod alias;
#[cfg(feature = "ts")]
mod atomic;
mod audit;
mod credentials;
mod destination;
mod field;
mod gate;
mod hooks;
mod identity;
mod kernel;
mod labels;
mod maps;
mod mount;
mod name;
mod offsets;
mod path;
mod record;
mod step;
mod verdict;

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // The verifier proves that no program can get here: a loop without exit would be refused at load.
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 4] = *b"GPL\0";
