//! What the nodes say becomes the status of policies and profiles.

mod judge;
mod news;
mod nodes;
mod write;

pub use judge::{is_modeling, is_recorded, policy_status, profile_status};
pub use nodes::{AgentPod, Census, Exception, Nodes, Tally};
pub use write::run;
