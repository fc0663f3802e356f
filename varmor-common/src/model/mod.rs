//! Learning: from what a workload did to what it may do.
//!
//! Events of a complaining allow-list are a [`Recording`]; [`generalise`] makes of it a [`Behaviour`], in which patterns
//! stand for names that are others in the next run, and says of each pattern why it is one. A behaviour is written as an
//! `ArmorProfileModel` and read back from it; allow-lists of every enforcer are made from it.

mod allow;
mod behaviour;
mod format;
mod generalise;
mod held_out;
mod merge;
mod names;
mod path;
mod recording;
mod sensitive;
#[cfg(test)]
mod tests;

pub use allow::{app_armor_files, custom_profile};
pub use behaviour::{Behaviour, FileUse, Mounted, Peer};
pub use format::{ModelError, model};
pub use generalise::{Settings, generalise};
pub use held_out::{HeldOutError, held_out};
pub use merge::merge;
pub use recording::{HoldOut, Recording};
