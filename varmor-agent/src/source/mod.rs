//! Which policies: where they come from and which version of each is in force.

mod catalog;
pub mod folder;

pub use catalog::{Catalog, FileState, FileStatus, PolicyObject};
