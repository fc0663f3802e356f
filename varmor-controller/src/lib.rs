//! The controller of a cluster: policies become `ArmorProfile`s for the nodes, and what the nodes report becomes the
//! status of the policies.
#![forbid(unsafe_code)]

pub mod admission;
pub mod certificate;
pub mod context;
pub mod crds;
pub mod egress;
pub mod https;
pub mod leader;
pub mod metrics;
pub mod names;
pub mod object;
pub mod options;
pub mod policy;
pub mod queue;
pub mod reasons;
pub mod report;
pub mod run;
pub mod selector;
pub mod status;
pub mod watches;
pub mod workload;
pub mod world;

pub use context::told;
pub use https::TlsWatch;

/// The name under which the controller writes.
pub const MANAGER: &str = "varmor-controller";

/// Objects in one answer of the API server. An answer is in memory as text and as objects, several watches may begin anew at a
/// time, and a Pod or an `ArmorProfile` takes ten kilobytes of each.
const PAGE: u32 = 100;
