//! The acting half of the reconciler: carries plans out through the enforcer, remembers what it did, says so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, error, info, warn};
use varmor_common::policy::Enforcers;
use varmor_common::profile::Profile;

use super::load::Load;
use super::plan::{Action, Actual, Desired, desired, plan};
use super::select::selects;
use super::selections::Selections;
use crate::containers::{Container, addresses_of};
use crate::enforcer::{Adoption, CgroupId, Enforcer, EnforcerError};
use crate::source::PolicyObject;

/// A refused profile is tried again after this time: memory may have been short.
const RETRY: Duration = Duration::from_secs(30);
/// Events of a container may arrive after its end.
const REMEMBER: Duration = Duration::from_mins(1);
/// A step can make another one possible (an old union is unloaded after its last container moved on).
const ROUNDS: usize = 3;

/// A container that is or was protected, for events and status.
#[derive(Clone, Debug)]
pub struct Known {
    pub container: Arc<Container>,
    pub profile: Option<String>,
    gone_since: Option<Instant>,
}

/// What one reconciliation came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub actions: usize,
    pub failures: usize,
}

#[derive(Default)]
pub struct Reconciler {
    /// Contents of the profiles that this process loaded.
    applied: BTreeMap<String, Arc<Profile>>,
    refused: BTreeMap<String, Refusal>,
    confirmed: BTreeMap<CgroupId, Adoption>,
    known: BTreeMap<CgroupId, Known>,
    /// Last reported failure per cgroup, so that a retry does not repeat it.
    failures: BTreeMap<CgroupId, String>,
    /// Selected containers without a cgroup, seen once or (true) reported.
    unresolved: BTreeMap<String, bool>,
    /// Since somebody asked.
    loads: Vec<Load>,
    selections: Selections,
}

struct Refusal {
    profile: Arc<Profile>,
    message: String,
    since: Instant,
}

impl Reconciler {
    /// Brings the kernel closer to what should be. `None` for a list that has not succeeded yet; `existing`
    /// lists the cgroup directories and is asked only when it matters.
    pub fn reconcile(
        &mut self,
        enforcer: &mut dyn Enforcer,
        policies: Option<&Arc<[PolicyObject]>>,
        containers: Option<&[Arc<Container>]>,
        existing: &dyn Fn() -> Option<BTreeSet<CgroupId>>,
    ) -> Outcome {
        let desired = desired(&mut self.selections, policies, containers, &addresses);
        self.note_containers(
            policies.map(|list| &**list).unwrap_or_default(),
            containers.unwrap_or_default(),
            &desired,
        );
        self.refused
            .retain(|name, refusal| desired.profiles.contains_key(name) && refusal.since.elapsed() < RETRY);

        let mut outcome = Outcome::default();
        for _ in 0..ROUNDS {
            let actual = match self.actual(enforcer, &desired, existing) {
                Ok(actual) => actual,
                Err(error) => {
                    error!(error = %chain(&error), "the kernel's tables cannot be read; nothing is changed");
                    outcome.failures += 1;
                    break;
                }
            };
            let actions = plan(&desired, &actual);
            if actions.is_empty() {
                break;
            }
            outcome.actions += actions.len();
            let before = outcome.failures;
            for action in actions {
                if self.execute(enforcer, action, &actual).is_err() {
                    outcome.failures += 1;
                }
            }
            if outcome.failures > before {
                break;
            }
        }
        outcome
    }

    /// The container behind a cgroup, for a while also after its end.
    #[must_use]
    pub fn known(&self, cgroup: CgroupId) -> Option<&Known> {
        self.known.get(&cgroup)
    }

    /// Whether a policy is about the container.
    pub fn is_held(&mut self, policies: &Arc<[PolicyObject]>, container: &Arc<Container>) -> bool {
        self.selections.follow(policies);
        match container.cgroup {
            Some(cgroup) => self.selections.of(cgroup, container).is_some(),
            None => is_held(policies, container),
        }
    }

    /// Protected containers.
    pub fn protected(&self) -> impl Iterator<Item = (CgroupId, &Known)> {
        self.known
            .iter()
            .filter(|(cgroup, known)| known.gone_since.is_none() && self.confirmed.contains_key(cgroup))
            .map(|(cgroup, known)| (*cgroup, known))
    }

    /// Why the profile's present contents are not in the kernel, if they were refused.
    #[must_use]
    pub fn refusal(&self, profile: &str) -> Option<&str> {
        self.refused.get(profile).map(|refusal| refusal.message.as_str())
    }

    /// What was loaded since the last question.
    pub fn take_loads(&mut self) -> Vec<Load> {
        std::mem::take(&mut self.loads)
    }

    /// Is what BPF is to hold of this very profile in the kernel?
    #[must_use]
    pub fn is_applied(&self, profile: &Profile) -> bool {
        self.applied.get(&profile.name) == self.selections.part_of(profile).as_ref()
    }

    fn note_containers(
        &mut self,
        policies: &[PolicyObject],
        containers: &[Arc<Container>],
        desired: &Desired,
    ) {
        for container in containers {
            let Some(cgroup) = container.cgroup else { continue };
            let profile = desired.bindings.get(&cgroup).map(|(profile, _)| profile.clone());
            match self.known.get_mut(&cgroup) {
                Some(known) if known.container == *container => known.gone_since = None,
                _ => {
                    let container = Arc::clone(container);
                    self.known.insert(
                        cgroup,
                        Known {
                            container,
                            profile,
                            gone_since: None,
                        },
                    );
                }
            }
        }
        let now = Instant::now();
        for (cgroup, known) in &mut self.known {
            if !desired.containers.contains(cgroup) {
                known.gone_since.get_or_insert(now);
            }
        }
        // A container that cannot be found in the hierarchy at its very start is looked up again; one that
        // stays so is a broken promise.
        let unresolved: BTreeSet<&str> = containers
            .iter()
            .filter(|container| {
                container.cgroup.is_none() && policies.iter().any(|policy| selects(policy, container))
            })
            .map(|container| container.id.as_str())
            .collect();
        self.unresolved.retain(|id, _| unresolved.contains(id.as_str()));
        for id in unresolved {
            match self.unresolved.get_mut(id) {
                None => {
                    self.unresolved.insert(id.to_owned(), false);
                }
                Some(reported) if !*reported => {
                    *reported = true;
                    error!(container = %id, "container is selected by a policy but has no cgroup v2 directory of its own; it is NOT protected");
                }
                Some(_) => {}
            }
        }
    }

    fn actual(
        &mut self,
        enforcer: &dyn Enforcer,
        desired: &Desired,
        existing: &dyn Fn() -> Option<BTreeSet<CgroupId>>,
    ) -> Result<Actual, EnforcerError> {
        let bindings: BTreeMap<_, _> = enforcer.bindings()?.into_iter().collect();
        let loaded = enforcer.profiles()?;
        self.confirmed.retain(|cgroup, _| bindings.contains_key(cgroup));
        self.applied
            .retain(|name, _| loaded.iter().any(|profile| profile.name == *name));
        let is_asked = bindings
            .keys()
            .any(|cgroup| !desired.bindings.contains_key(cgroup));
        let existing = if is_asked { existing() } else { None };
        self.known.retain(|cgroup, known| {
            bindings.contains_key(cgroup) || known.gone_since.is_none_or(|since| since.elapsed() < REMEMBER)
        });
        Ok(Actual {
            profiles: loaded
                .into_iter()
                .map(|profile| (profile.name.clone(), self.applied.get(&profile.name).cloned()))
                .collect(),
            bindings,
            confirmed: self.confirmed.clone(),
            existing,
            refused: self
                .refused
                .iter()
                .map(|(name, refusal)| (name.clone(), refusal.profile.clone()))
                .collect(),
        })
    }

    fn execute(&mut self, enforcer: &mut dyn Enforcer, action: Action, actual: &Actual) -> Result<(), ()> {
        match action {
            Action::Apply(profile) => self.apply(enforcer, profile),
            Action::Protect {
                cgroup,
                profile,
                adoption,
            } => {
                let is_known = actual.bindings.get(&cgroup).and_then(Option::as_ref) == Some(&profile)
                    && self.confirmed.contains_key(&cgroup);
                self.protect(enforcer, cgroup, &profile, adoption, is_known)
            }
            Action::Unbind(cgroup) | Action::Forget(cgroup) => {
                let reason = if matches!(action, Action::Forget(_)) {
                    "container is gone"
                } else {
                    "no policy selects it any more"
                };
                let profile = actual
                    .bindings
                    .get(&cgroup)
                    .and_then(Option::as_deref)
                    .unwrap_or_default();
                self.release(enforcer, cgroup, profile, reason)
            }
            Action::Remove(name) => enforcer
                .remove(&name)
                .map(|()| info!(profile = %name, "profile unloaded"))
                .map_err(
                    |error| warn!(profile = %name, error = %chain(&error), "profile cannot be unloaded"),
                ),
        }
    }

    fn apply(&mut self, enforcer: &mut dyn Enforcer, profile: Arc<Profile>) -> Result<(), ()> {
        let start = Instant::now();
        let outcome = enforcer.apply(&profile);
        self.loads.push(Load {
            enforcer: "BPF",
            is_loaded: outcome.is_ok(),
            took: start.elapsed(),
        });
        match outcome {
            Ok(applied) => {
                info!(
                    profile = %profile.name, rules = applied.rules, slot = applied.slot,
                    generation = applied.generation, "profile loaded"
                );
                for (rule, reason) in &applied.unsupported {
                    warn!(profile = %profile.name, %rule, %reason, "rule is not enforced on this machine");
                }
                self.refused.remove(&profile.name);
                self.applied.insert(profile.name.clone(), profile);
                Ok(())
            }
            Err(error) => {
                let message = chain(&error);
                error!(profile = %profile.name, error = %message, "profile was refused; what was in force before stays in force");
                self.refused.insert(
                    profile.name.clone(),
                    Refusal {
                        profile,
                        message,
                        since: Instant::now(),
                    },
                );
                Err(())
            }
        }
    }

    fn protect(
        &mut self,
        enforcer: &mut dyn Enforcer,
        cgroup: CgroupId,
        profile: &str,
        adoption: Adoption,
        is_known: bool,
    ) -> Result<(), ()> {
        let container = self
            .known
            .get(&cgroup)
            .map(|known| Arc::clone(&known.container))
            .unwrap_or_default();
        let pod = pod_name(&container);
        match enforcer.protect(cgroup, profile, adoption) {
            Ok(()) => {
                if is_known {
                    debug!(container = %container.id, pod, profile, cgroup = cgroup.0, "running tasks adopted");
                } else {
                    info!(container = %container.id, name = %container.name, pod, profile, cgroup = cgroup.0, "protected");
                }
                self.confirmed.insert(cgroup, adoption);
                self.failures.remove(&cgroup);
                if let Some(known) = self.known.get_mut(&cgroup) {
                    known.profile = Some(profile.to_owned());
                }
                Ok(())
            }
            Err(error) => {
                let message = chain(&error);
                if self.failures.get(&cgroup) != Some(&message) {
                    error!(container = %container.id, pod, profile, cgroup = cgroup.0, error = %message, "container is NOT protected as it should be");
                    self.failures.insert(cgroup, message);
                }
                Err(())
            }
        }
    }

    fn release(
        &mut self,
        enforcer: &mut dyn Enforcer,
        cgroup: CgroupId,
        profile: &str,
        reason: &str,
    ) -> Result<(), ()> {
        let container = self
            .known
            .get(&cgroup)
            .map(|known| Arc::clone(&known.container))
            .unwrap_or_default();
        let pod = pod_name(&container);
        match enforcer.release(cgroup) {
            Ok(()) => {
                info!(container = %container.id, name = %container.name, pod, profile, cgroup = cgroup.0, reason, "released");
                self.confirmed.remove(&cgroup);
                self.failures.remove(&cgroup);
                if let Some(known) = self.known.get_mut(&cgroup) {
                    known.profile = None;
                }
                Ok(())
            }
            Err(error) => {
                warn!(container = %container.id, profile, cgroup = cgroup.0, error = %chain(&error), "container cannot be released");
                Err(())
            }
        }
    }
}

/// Whether a policy of the BPF enforcer is about the container.
#[must_use]
pub fn is_held(policies: &[PolicyObject], container: &Container) -> bool {
    policies
        .iter()
        .any(|policy| policy.profile.enforcers.contains(Enforcers::BPF) && selects(policy, container))
}

fn addresses(container: &Container) -> Option<Vec<IpAddr>> {
    addresses_of(container.pid)
        .inspect_err(|error| debug!(container = %container.id, %error, "addresses of the pod"))
        .ok()
}

fn pod_name(container: &Container) -> String {
    container
        .pod
        .as_ref()
        .map(|pod| format!("{}/{}", pod.namespace, pod.name))
        .unwrap_or_default()
}

/// The error and its sources on one line.
pub(super) fn chain(error: &EnforcerError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
