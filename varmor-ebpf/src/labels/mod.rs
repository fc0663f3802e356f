//! Where the labels of tasks are.
//!
//! A fork of a protected task pays for the place of the child's label, and every hook for finding the caller's. Task storage
//! of the kernel allocates and frees twice for each task, which was half of what a fork cost. So labels are in an array
//! here, found by a random number that the kernel gives every task, and in task storage only where the array has no place.

#[cfg(not(feature = "ts"))]
mod hash;
#[cfg(feature = "ts")]
mod slots;
#[cfg(feature = "ts")]
mod storage;

#[cfg(not(feature = "ts"))]
pub use hash::*;
#[cfg(feature = "ts")]
pub use slots::*;
