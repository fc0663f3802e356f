//! What an enforcer does for an agent that stays: it stops starts of containers at a gate and outlives agents.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use varmor_common::abi::Waiting;

use super::bpf::CallRecorder;
use super::{CgroupId, Enforcer, EnforcerError};

/// What happens to a container that starts while no agent runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum WithoutAgent {
    /// Its first program is refused (EPERM).
    #[default]
    Refuse,
    /// It runs, without a policy until an agent comes back; every such start is logged.
    Run,
}

/// Called while something long goes on and is not stuck.
pub type Pulse = Arc<dyn Fn() + Send + Sync>;

/// An enforcer for the agent. One without programs in the kernel has no gate and leaves nothing behind.
pub trait Resident: Enforcer {
    /// Why this machine has no such enforcer.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// To be called after each program that is loaded: on a starved machine all of them take minutes.
    fn set_pulse(&mut self, _pulse: Pulse) {}

    /// Begins to note the system calls of a loaded profile; `None` without programs in the kernel.
    fn record_calls(&self, _profile: &str) -> Result<Option<CallRecorder>, EnforcerError> {
        Ok(None)
    }

    /// Whether every profile may write as many events as it makes, for recording, or no more than the limit.
    fn record_everything(&mut self, _everything: bool) -> Result<(), EnforcerError> {
        Ok(())
    }

    /// From now on this process answers at the gate. What happens to a start while nobody does: it is refused, or it
    /// goes on.
    fn answer_starts(&mut self, _without_agent: WithoutAgent) -> Result<(), EnforcerError> {
        Ok(())
    }

    /// Readable when a start waits.
    fn start_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Processes that wait for their container to be known, by number in the first pid namespace.
    fn waiting(&mut self) -> Result<Vec<(u32, Waiting)>, EnforcerError> {
        Ok(Vec::new())
    }

    /// Lets a process go on that waits: its cgroup is bound or marked now.
    fn let_go(&mut self, _process: u32) -> Result<(), EnforcerError> {
        Ok(())
    }

    /// Lets a process make one exec that waits in a cgroup whose container does not exist yet.
    fn let_pass(&mut self, _process: u32, _cgroup: CgroupId) -> Result<(), EnforcerError> {
        Ok(())
    }

    /// The cgroups below which containers appear, and no others, have a gate.
    fn set_gates(&mut self, _gates: &BTreeSet<CgroupId>) -> Result<(), EnforcerError> {
        Ok(())
    }

    /// Whether this process or an earlier one has put a gate there.
    fn has_gate(&self, _cgroup: CgroupId) -> bool {
        false
    }

    /// No policy is about these cgroups: what starts in them goes on at once.
    fn set_free(&mut self, _cgroups: &[CgroupId]) -> Result<(), EnforcerError> {
        Ok(())
    }

    /// Forgets marks of cgroups that are gone.
    fn forget_marks(&mut self, _existing: &BTreeSet<CgroupId>) -> Result<(), EnforcerError> {
        Ok(())
    }

    /// Puts back pins that somebody removed; how many these were.
    fn restore_pins(&self) -> Result<usize, EnforcerError> {
        Ok(0)
    }

    /// Detaches and removes all programs of this version, which nothing needs any more; an agent that comes later loads
    /// them anew. False if there were none.
    fn take_down(&mut self) -> Result<bool, EnforcerError> {
        Ok(false)
    }

    /// Detaches and removes what agents of other versions left. Called when this version enforces everything, so that
    /// there is no gap. How many versions these were.
    fn retire_other_versions(&self) -> Result<usize, EnforcerError> {
        Ok(0)
    }
}
