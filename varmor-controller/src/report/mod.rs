//! What the agents of the nodes say to the controller: who may say it, and where.

mod caller;
mod models;
mod service;

pub use caller::{Caller, Callers, Denied};
pub(crate) use service::agent_pod;
pub use service::router;
