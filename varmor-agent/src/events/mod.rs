//! What the kernel reports: from raw bytes to a line in `violations.log` and in the agent's log.

mod collapse;
mod event;
mod log_file;
pub mod names;
mod recorder;
mod violation;
mod wake;

#[cfg(test)]
pub(crate) use event::tests::raw as raw_event;
pub use event::{Action, Address, Ancestor, Detail, Event, EventError, Network, Process, Socket};
pub use log_file::LogFile;
pub use recorder::{Lost, Recorder, wall_clock};
pub use violation::{Node, Violation};
pub use wake::wake_on;
