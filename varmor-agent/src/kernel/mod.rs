//! What the running kernel is and can: its types (BTF), the facts that the kernel programs need, its hooks, and
//! the report of what it can enforce.

mod btf;
mod facts;
mod hooks;
mod support;

pub use btf::{Btf, BtfError};
pub use facts::{FactError, Facts, has_label_slots};
pub use hooks::{HOOKS, Hook, IDENTITY, Presence};
pub use support::{Feature, Support, probe};
