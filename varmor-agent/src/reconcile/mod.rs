//! Desired against actual: which container must carry which profile, and the steps to get there.

mod executor;
mod load;
mod plan;
mod select;
mod selections;
mod stores;

pub use executor::{Known, Outcome, Reconciler, is_held};
pub use load::Load;
pub use plan::{Action, Actual, Desired, desired, plan};
pub use select::selects;
pub use stores::{Held, Stores};
