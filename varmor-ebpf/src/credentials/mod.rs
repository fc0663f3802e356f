//! The set of credentials that descend from labelled tasks.
//!
//! Every fork and exec of a protected task puts one in, and every one that dies, of whatever task, is looked for. A hash of
//! the kernel allocates for each, so the set is an array, with the hash for what finds no place there.

#[cfg(not(feature = "ts"))]
mod hash;
#[cfg(feature = "ts")]
mod slots;

#[cfg(not(feature = "ts"))]
pub use hash::*;
#[cfg(feature = "ts")]
pub use slots::*;
