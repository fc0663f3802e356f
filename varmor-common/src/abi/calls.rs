//! System calls of a recorded profile, as the kernel program notes them.

/// Recordings at a time.
pub const MAX_RECORDINGS: u32 = 64;
/// Numbers of the machine's own system calls are below.
pub const CALL_NUMBERS: usize = 1023;
/// The byte of all other calls: those of another instruction set, of x32, and numbers that do not exist.
pub const CALL_FOREIGN: usize = CALL_NUMBERS;

/// What a profile has called: a byte for each number, so that processors do not overwrite each other's bits. Kernels
/// before 5.12 have no atomic "or".
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    /// Where the saved registers tell the instruction set of the caller; 0 = nowhere.
    pub segment_offset: u32,
    /// What stands there for the machine's own.
    pub native_segment: u32,
    pub seen: [u8; CALL_NUMBERS + 1],
}
const _: () = assert!(size_of::<Calls>() == 8 + 1024);

impl Default for Calls {
    fn default() -> Self {
        Self {
            segment_offset: 0,
            native_segment: 0,
            seen: [0; CALL_NUMBERS + 1],
        }
    }
}
