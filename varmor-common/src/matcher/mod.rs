//! The matching engine.
//!
//! `filter`, `hash`, `network` and `step` are `no_std` and run in the kernel programs; everything else builds their tables
//! in user space or checks them. A path is read component by component from the leaf to the root, because that is
//! the order in which the kernel can give the names without building a string.

#[cfg(feature = "std")]
pub mod automaton;
pub mod filter;
#[cfg(feature = "std")]
pub mod glob;
mod hash;
mod network;
#[cfg(feature = "std")]
mod pattern;
#[cfg(feature = "std")]
pub mod reference;
mod step;
#[cfg(feature = "std")]
mod walk;

pub use hash::{NameHash, class_symbol, filesystem_symbol, name_hash};
pub use network::{
    MAPPED, Network, V4_MAPPED, embedded, first_byte, halves, is_leaf, is_v4, join, leaf, protocol_bit,
    real_protocol, resolve, socket_address,
};
#[cfg(feature = "std")]
pub use pattern::{Component, Pattern, PatternError};
pub use step::{Tables, Verdict, decide, filesystem_step, gained, glob_step, merge, next};
#[cfg(feature = "std")]
pub use walk::{FilesystemRoot, MountCall, MountSource, PathView, Walk};
