//! The BPF enforcer of a machine whose kernel cannot run it: every profile is refused with the reason. Policies of other
//! enforcers do not need it.

use std::os::fd::BorrowedFd;

use varmor_common::abi::RawEvent;
use varmor_common::profile::Profile;

use super::{
    Activity, Adoption, Applied, CgroupId, Counters, Enforcer, EnforcerError, HookState, KernelEvent,
    LoadedProfile, Resident, Resolution,
};

/// Why this machine has no BPF enforcer.
#[derive(Debug)]
pub struct Absent {
    reason: String,
}

impl Absent {
    #[must_use]
    pub fn new(reason: String) -> Self {
        Self { reason }
    }

    fn refusal(&self) -> EnforcerError {
        EnforcerError::Unsupported {
            reason: self.reason.clone(),
        }
    }
}

impl Enforcer for Absent {
    fn apply(&mut self, _profile: &Profile) -> Result<Applied, EnforcerError> {
        Err(self.refusal())
    }

    fn remove(&mut self, _profile: &str) -> Result<(), EnforcerError> {
        Ok(())
    }

    fn protect(&mut self, _: CgroupId, _profile: &str, _: Adoption) -> Result<(), EnforcerError> {
        Err(self.refusal())
    }

    fn release(&mut self, _: CgroupId) -> Result<(), EnforcerError> {
        Ok(())
    }

    fn bindings(&self) -> Result<Vec<(CgroupId, Option<String>)>, EnforcerError> {
        Ok(Vec::new())
    }

    fn is_bound(&self, _: CgroupId) -> Result<bool, EnforcerError> {
        Ok(false)
    }

    fn profiles(&self) -> Result<Vec<LoadedProfile>, EnforcerError> {
        Ok(Vec::new())
    }

    fn drain(&mut self, _: &mut dyn FnMut(KernelEvent)) -> Result<(), EnforcerError> {
        Ok(())
    }

    fn repetitions(&mut self, _: &mut dyn FnMut(u64, u64)) -> Result<(), EnforcerError> {
        Ok(())
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn resolve(&self, _: &RawEvent) -> Resolution {
        Resolution::default()
    }

    fn counters(&self) -> Result<Counters, EnforcerError> {
        Ok(Counters::default())
    }

    fn activity(&self) -> Result<Vec<Activity>, EnforcerError> {
        Ok(Vec::new())
    }

    fn hooks(&self) -> Vec<HookState> {
        Vec::new()
    }
}

impl Resident for Absent {
    fn unavailable(&self) -> Option<String> {
        Some(self.reason.clone())
    }
}
