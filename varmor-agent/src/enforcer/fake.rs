//! An enforcer without a kernel, for tests of what drives enforcers.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

use varmor_common::abi::RawEvent;
use varmor_common::profile::Profile;

use super::{
    Activity, Adoption, Applied, CgroupId, Counters, Enforcer, EnforcerError, HookState, KernelEvent,
    LoadedProfile, Resolution,
};

#[derive(Default)]
pub(crate) struct FakeEnforcer {
    pub(crate) profiles: BTreeMap<String, Profile>,
    pub(crate) bindings: BTreeMap<CgroupId, Option<String>>,
    /// cgroups that exist, for the two meanings of `release`.
    pub(crate) existing: BTreeSet<CgroupId>,
    /// Profiles that do not fit.
    pub(crate) too_large: BTreeSet<String>,
    /// Every call that changes something.
    pub(crate) calls: Vec<String>,
    pub(crate) events: Vec<KernelEvent>,
}

impl Enforcer for FakeEnforcer {
    fn apply(&mut self, profile: &Profile) -> Result<Applied, EnforcerError> {
        self.calls.push(format!("apply {}", profile.name));
        if self.too_large.contains(&profile.name) {
            return Err(EnforcerError::TooLarge {
                profile: profile.name.clone(),
                reason: "in a test".to_owned(),
            });
        }
        self.profiles.insert(profile.name.clone(), profile.clone());
        Ok(Applied {
            rules: profile.rules.len(),
            ..Applied::default()
        })
    }

    fn remove(&mut self, profile: &str) -> Result<(), EnforcerError> {
        self.calls.push(format!("remove {profile}"));
        let bindings = self
            .bindings
            .values()
            .filter(|bound| bound.as_deref() == Some(profile))
            .count();
        if bindings > 0 {
            return Err(EnforcerError::ProfileInUse {
                profile: profile.to_owned(),
                bindings,
            });
        }
        self.profiles.remove(profile);
        Ok(())
    }

    fn protect(&mut self, cgroup: CgroupId, profile: &str, adoption: Adoption) -> Result<(), EnforcerError> {
        self.calls
            .push(format!("protect {cgroup} {profile} {adoption:?}"));
        if !self.profiles.contains_key(profile) {
            return Err(EnforcerError::UnknownProfile(profile.to_owned()));
        }
        self.bindings.insert(cgroup, Some(profile.to_owned()));
        Ok(())
    }

    fn release(&mut self, cgroup: CgroupId) -> Result<(), EnforcerError> {
        self.calls.push(format!("release {cgroup}"));
        if self.existing.contains(&cgroup) {
            self.bindings.insert(cgroup, None);
        } else {
            self.bindings.remove(&cgroup);
        }
        Ok(())
    }

    fn bindings(&self) -> Result<Vec<(CgroupId, Option<String>)>, EnforcerError> {
        Ok(self.bindings.clone().into_iter().collect())
    }

    fn is_bound(&self, cgroup: CgroupId) -> Result<bool, EnforcerError> {
        Ok(self.bindings.contains_key(&cgroup))
    }

    fn profiles(&self) -> Result<Vec<LoadedProfile>, EnforcerError> {
        Ok(self
            .profiles
            .keys()
            .map(|name| LoadedProfile {
                name: name.clone(),
                ..LoadedProfile::default()
            })
            .collect())
    }

    fn drain(&mut self, sink: &mut dyn FnMut(KernelEvent)) -> Result<(), EnforcerError> {
        self.events.drain(..).for_each(sink);
        Ok(())
    }

    fn repetitions(&mut self, _sink: &mut dyn FnMut(u64, u64)) -> Result<(), EnforcerError> {
        Ok(())
    }

    fn activity(&self) -> Result<Vec<Activity>, EnforcerError> {
        Ok(Vec::new())
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn resolve(&self, _event: &RawEvent) -> Resolution {
        Resolution::default()
    }

    fn counters(&self) -> Result<Counters, EnforcerError> {
        Ok(Counters::default())
    }

    fn hooks(&self) -> Vec<HookState> {
        Vec::new()
    }
}
