//! The matching engine.
//!
//! `hash` and `step` are `no_std` and run in the kernel programs; everything else builds their tables in user
//! space or checks them. A path is read component by component from the leaf to the root, because that is the
//! order in which the kernel can give the names without building a string.

mod hash;
mod step;

pub use hash::{NameHash, class_symbol, filesystem_symbol, name_hash};
pub use step::{Tables, Verdict, decide, glob_step, merge, next};
