//! What the kernel reports: from raw bytes to a line in `violations.log` and in the agent's log.

pub mod audit;
mod collapse;
mod event;
mod log_file;
pub mod names;
pub mod otlp;
mod outbox;
mod recorder;
mod tally;
mod violation;
mod wake;

#[cfg(test)]
pub(crate) use event::tests::raw as raw_event;
pub use event::{Action, Address, Ancestor, Detail, Event, EventError, Network, Process, Socket};
pub use log_file::{LogFile, Rotation};
pub use outbox::{Outbox, standard_output};
pub use recorder::{Lost, Recorder, wall_clock};
pub use tally::{Series, Tally};
pub use violation::{Node, Violation};
pub use wake::wake_on;
