//! The interface of an enforcer: the only thing of the agent that writes kernel objects.

mod absent;
mod error;
mod resident;
mod store;

pub mod apparmor;
pub mod bpf;
#[cfg(test)]
pub(crate) mod fake;
pub mod seccomp;

use std::fmt;
use std::os::fd::BorrowedFd;

pub use absent::Absent;
pub use error::EnforcerError;
pub use resident::{Pulse, Resident, WithoutAgent};
use serde::{Deserialize, Serialize};
pub use store::{ProfileStore, Stored};
use varmor_common::abi::{EVENT_ANCESTORS, RawEvent};
use varmor_common::profile::{Origin, Profile};

/// Owner of profiles and bindings in the kernel.
///
/// A binding says which profile a cgroup uses. Its life:
/// `protect` creates it or points it at another profile; `release` ends it. When `release` is called while the
/// cgroup still exists, the tasks of the cgroup keep their label, so the binding stays behind without a profile
/// (`bindings` lists it with `None`) and everything is allowed; once the cgroup is gone, `release` frees it.
pub trait Enforcer: Send {
    /// Compiles, loads and swaps atomically; on an error the old version stays in force.
    fn apply(&mut self, profile: &Profile) -> Result<Applied, EnforcerError>;
    /// Unloads a profile that no binding uses.
    fn remove(&mut self, profile: &str) -> Result<(), EnforcerError>;
    /// Binds the cgroup; `adoption` says whether the tasks that already run in it are the workload's. Idempotent;
    /// re-binds to another profile.
    fn protect(&mut self, cgroup: CgroupId, profile: &str, adoption: Adoption) -> Result<(), EnforcerError>;
    /// Ends a binding; not an error when there is none.
    fn release(&mut self, cgroup: CgroupId) -> Result<(), EnforcerError>;
    /// What the kernel holds; survives restarts of the agent.
    fn bindings(&self) -> Result<Vec<(CgroupId, Option<String>)>, EnforcerError>;
    /// Whether `bindings` has the cgroup.
    fn is_bound(&self, cgroup: CgroupId) -> Result<bool, EnforcerError>;
    fn profiles(&self) -> Result<Vec<LoadedProfile>, EnforcerError>;
    /// Hands over all pending audit events; never blocks.
    fn drain(&mut self, sink: &mut dyn FnMut(KernelEvent)) -> Result<(), EnforcerError>;
    /// Hands over what has been counted as repetition and is written no more: the event's identity and how often it
    /// was repeated since. To be called about once a second.
    fn repetitions(&mut self, sink: &mut dyn FnMut(u64, u64)) -> Result<(), EnforcerError>;
    /// Readable when events are pending.
    fn event_fd(&self) -> Option<BorrowedFd<'_>>;
    /// Which profile and rule stand behind an event.
    fn resolve(&self, event: &RawEvent) -> Resolution;
    fn counters(&self) -> Result<Counters, EnforcerError>;
    /// What happened to each loaded profile.
    fn activity(&self) -> Result<Vec<Activity>, EnforcerError>;
    /// Every program of this kernel, loaded or not.
    fn hooks(&self) -> Vec<HookState>;
}

/// Inode number of a cgroup v2 directory: what `bpf_get_current_cgroup_id` returns for its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CgroupId(pub u64);

impl fmt::Display for CgroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the tasks are that are in a cgroup when it becomes managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// The runtime's own set-up (containerd status CREATED): they are left alone, and the label is given at the next
    /// exec, which is the workload's entry point.
    AtExec,
    /// The workload (status RUNNING): they are labelled at their next hook.
    Running,
}

/// What `apply` put into the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub slot: u32,
    pub generation: u32,
    /// Rules in force.
    pub rules: usize,
    /// Rules that this kernel or this enforcer cannot hold: id and reason.
    pub unsupported: Vec<(String, String)>,
}

/// A profile in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedProfile {
    pub name: String,
    pub slot: u32,
    pub generation: u32,
    pub rules: usize,
    /// Rules that this kernel or this enforcer cannot hold: id and reason.
    pub unsupported: Vec<(String, String)>,
}

/// An event as the kernel wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelEvent {
    pub head: RawEvent,
    pub path: Vec<u8>,
    pub executable: Vec<u8>,
    /// Executables of the ancestors, the parent's first; empty where there is none.
    pub ancestors: [Vec<u8>; EVENT_ANCESTORS],
}

/// What happened to a profile since it was loaded into its slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    pub profile: String,
    pub denied: u64,
    /// Allowed, with an event: audit rules and complain mode.
    pub audited: u64,
    /// Events that found the ring full.
    pub lost: u64,
    /// Events above the rate that a profile may write.
    pub limited: u64,
    /// Events that were folded into an equal one.
    pub repeated: u64,
    /// Rule id and how often it spoke, the most frequent first; of the last versions of the profile.
    pub hits: Vec<(String, u64)>,
}

/// The policy side of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    pub profile: Option<String>,
    pub rule: Option<String>,
    pub origin: Option<Origin>,
}

/// Totals since the programs were loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub denied: u64,
    pub audited: u64,
    /// Events that found the ring buffer full.
    pub lost: u64,
    /// Refusals because an operation could not be judged, by reason.
    pub faults: Vec<(String, u64)>,
    /// `None` where the kernel cannot count them.
    pub labelled_tasks: Option<u64>,
}

/// A program and its hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookState {
    pub hook: String,
    /// The program is in the kernel: it was needed at some time.
    pub loaded: bool,
    /// The program is on its hook: a loaded profile needs it.
    pub attached: bool,
    /// Calls, while `kernel.bpf_stats_enabled` is set.
    pub runs: u64,
    /// Calls that the kernel left out because the program was running already: each was not judged.
    pub recursion_misses: u64,
}
