//! Policies become `ArmorProfile`s.

mod apply;
mod desired;
mod existing;
mod reconcile;

pub use desired::{FINALIZER, ROLLED, apply_object, is_current, needs_model, spec};
pub use reconcile::reconcile;
