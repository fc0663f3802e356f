//! The text form of policies: bytes in, checked documents and diagnostics with positions out.

mod address;
mod bpf_raw;
mod check;
mod cursor;
mod document;
mod envelope;
mod load;
mod network_proxy;
mod node;
mod path;
mod report;
mod scalar;
mod schema;
mod yaml;

#[cfg(test)]
mod tests;

pub use document::{Document, Object};
pub use load::{Loaded, load, load_yaml};
pub(crate) use path::item;
