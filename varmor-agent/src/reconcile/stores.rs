//! The profiles of enforcers without bindings: loaded for every policy that names the enforcer, taken away with it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use varmor_common::policy::Enforcers;
use varmor_common::profile::Profile;

use super::executor::chain;
use super::load::Load;
use crate::enforcer::{EnforcerError, ProfileStore, Stored};
use crate::source::PolicyObject;

/// A refused profile is tried again after this time: the parser may be installed by then.
const RETRY: Duration = Duration::from_secs(30);

/// What became of a policy's profile at one of its enforcers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// In force.
    Loaded(Stored),
    /// Why it is not.
    Refused(String),
    Pending,
}

/// All stores of this machine.
#[derive(Default)]
pub struct Stores {
    stores: Vec<Entry>,
}

struct Entry {
    enforcer: Enforcers,
    /// The store, or why there is none.
    store: Result<Box<dyn ProfileStore>, String>,
    applied: BTreeMap<String, (Profile, Stored)>,
    refused: BTreeMap<String, (Profile, String, Instant)>,
    /// The error about the whole store that was said last.
    said: String,
    /// Since somebody asked.
    loads: Vec<Load>,
}

impl Stores {
    /// Adds a store, or the reason why policies for this enforcer cannot be held here.
    pub fn add(&mut self, enforcer: Enforcers, store: Result<Box<dyn ProfileStore>, EnforcerError>) {
        self.stores.push(Entry {
            enforcer,
            store: store.map_err(|error| chain(&error)),
            applied: BTreeMap::new(),
            refused: BTreeMap::new(),
            said: String::new(),
            loads: Vec::new(),
        });
    }

    /// Loads and takes away what has changed; `None` for policies that have not been read yet. True if something was
    /// done.
    pub fn reconcile(&mut self, policies: Option<&[PolicyObject]>) -> bool {
        let Some(policies) = policies else { return false };
        let mut changed = false;
        for entry in &mut self.stores {
            let own = policies
                .iter()
                .filter(|policy| policy.profile.enforcers.contains(entry.enforcer));
            let desired: BTreeMap<&str, &Profile> = own
                .map(|policy| (policy.profile.name.as_str(), &policy.profile))
                .collect();
            changed |= entry.reconcile(&desired);
        }
        changed
    }

    /// What was loaded since the last question.
    pub fn take_loads(&mut self) -> impl Iterator<Item = Load> {
        self.stores
            .iter_mut()
            .flat_map(|entry| std::mem::take(&mut entry.loads))
    }

    /// Each enforcer, and why it is not to be had here.
    pub fn unavailable(&self) -> impl Iterator<Item = (Enforcers, Option<String>)> {
        self.stores
            .iter()
            .map(|entry| (entry.enforcer, entry.store.as_ref().err().cloned()))
    }

    /// What became of this profile at each enforcer that it is for and that has a store.
    pub fn held<'s>(&'s self, profile: &'s Profile) -> impl Iterator<Item = (Enforcers, Held)> + 's {
        self.stores
            .iter()
            .filter(|entry| profile.enforcers.contains(entry.enforcer))
            .map(|entry| (entry.enforcer, entry.held(profile)))
    }
}

impl Entry {
    fn held(&self, profile: &Profile) -> Held {
        if let Err(reason) = &self.store {
            return Held::Refused(reason.clone());
        }
        match (self.applied.get(&profile.name), self.refused.get(&profile.name)) {
            (Some((applied, stored)), _) if applied == profile => Held::Loaded(stored.clone()),
            (_, Some((refused, message, _))) if refused == profile => Held::Refused(message.clone()),
            _ => Held::Pending,
        }
    }

    fn reconcile(&mut self, desired: &BTreeMap<&str, &Profile>) -> bool {
        let enforcer = self.enforcer;
        let store = match &mut self.store {
            Ok(store) => store,
            Err(reason) => {
                if !desired.is_empty() && self.said != *reason {
                    error!(%enforcer, %reason, policies = desired.len(), "policies name an enforcer that this machine does not have; that part of them is NOT enforced");
                    self.said.clone_from(reason);
                }
                return false;
            }
        };
        let present = match store.profiles() {
            Ok(present) => present,
            Err(error) => {
                let message = chain(&error);
                if self.said != message {
                    error!(%enforcer, error = %message, "the loaded profiles cannot be read; nothing is changed");
                    self.said = message;
                }
                return false;
            }
        };
        self.said.clear();
        let mut changed = false;
        // Somebody may have unloaded a profile of ours.
        self.applied.retain(|name, _| present.contains(name));
        self.refused.retain(|name, (profile, _, since)| {
            desired.get(name.as_str()) == Some(&&*profile) && since.elapsed() < RETRY
        });
        for (name, profile) in desired {
            let is_applied = self
                .applied
                .get(*name)
                .is_some_and(|(applied, _)| applied == *profile);
            if is_applied || self.refused.contains_key(*name) {
                continue;
            }
            changed = true;
            let start = Instant::now();
            let outcome = store.apply(profile);
            self.loads.push(Load {
                enforcer: word(enforcer),
                is_loaded: outcome.is_ok(),
                took: start.elapsed(),
            });
            match outcome {
                Ok(stored) => {
                    info!(%enforcer, profile = %name, rules = stored.rules, "profile loaded; containers get it when the runtime names it");
                    for (rule, reason) in &stored.unsupported {
                        warn!(%enforcer, profile = %name, %rule, %reason, "rule is not enforced on this machine");
                    }
                    self.applied
                        .insert((*name).to_owned(), ((*profile).clone(), stored));
                }
                Err(error) => {
                    let message = chain(&error);
                    error!(%enforcer, profile = %name, error = %message, "profile was refused; what was in force before stays in force");
                    self.refused
                        .insert((*name).to_owned(), ((*profile).clone(), message, Instant::now()));
                }
            }
        }
        for name in present.iter().filter(|name| !desired.contains_key(name.as_str())) {
            changed = true;
            match store.remove(name) {
                Ok(()) => {
                    info!(%enforcer, profile = %name, "profile unloaded; {}", after_unloading(enforcer));
                    self.applied.remove(name);
                }
                Err(error) => {
                    warn!(%enforcer, profile = %name, error = %chain(&error), "profile cannot be unloaded");
                }
            }
        }
        changed
    }
}

/// The enforcer as a label.
fn word(enforcer: Enforcers) -> &'static str {
    if enforcer == Enforcers::SECCOMP {
        "Seccomp"
    } else {
        "AppArmor"
    }
}

/// What becomes of containers that still run under a profile that is taken away.
fn after_unloading(enforcer: Enforcers) -> &'static str {
    if enforcer == Enforcers::SECCOMP {
        "containers that run under it keep it, new ones that name it do not start"
    } else {
        "containers that still run under it are not confined by it any more"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::reconcile::select::tests::policy;

    #[derive(Clone, Default)]
    struct FakeStore(Arc<Mutex<(BTreeSet<String>, Vec<String>)>>);

    impl ProfileStore for FakeStore {
        fn enforcer(&self) -> Enforcers {
            Enforcers::APPARMOR
        }

        fn apply(&mut self, profile: &Profile) -> Result<Stored, EnforcerError> {
            let mut state = self.0.lock().unwrap();
            state.1.push(format!("apply {}", profile.name));
            if profile.name.ends_with("bad") {
                return Err(EnforcerError::Refused {
                    profile: profile.name.clone(),
                    reason: "in a test".to_owned(),
                });
            }
            state.0.insert(profile.name.clone());
            Ok(Stored::default())
        }

        fn remove(&mut self, name: &str) -> Result<(), EnforcerError> {
            let mut state = self.0.lock().unwrap();
            state.1.push(format!("remove {name}"));
            state.0.remove(name);
            Ok(())
        }

        fn profiles(&self) -> Result<Vec<String>, EnforcerError> {
            Ok(self.0.lock().unwrap().0.iter().cloned().collect())
        }
    }

    fn object(name: &str, enforcers: Enforcers) -> PolicyObject {
        let mut object = policy(
            "VarmorPolicy",
            &format!("{{name: {name}, namespace: demo}}"),
            "{kind: Pod, name: x}",
        );
        object.profile.enforcers = enforcers;
        object
    }

    fn stores() -> (Stores, FakeStore) {
        let fake = FakeStore::default();
        let mut stores = Stores::default();
        stores.add(Enforcers::APPARMOR, Ok(Box::new(fake.clone())));
        (stores, fake)
    }

    fn calls(fake: &FakeStore) -> Vec<String> {
        std::mem::take(&mut fake.0.lock().unwrap().1)
    }

    #[test]
    fn every_policy_for_the_enforcer_is_loaded_once_and_taken_away_with_its_file() {
        let (mut stores, fake) = stores();
        let both = Enforcers::APPARMOR.union(Enforcers::BPF);
        let policies = [object("a", both), object("b", Enforcers::BPF)];
        assert!(!stores.reconcile(None), "nothing is known yet");
        assert!(stores.reconcile(Some(&policies)));
        assert_eq!(calls(&fake), ["apply varmor-demo-a"]);
        assert!(!stores.reconcile(Some(&policies)));
        assert_eq!(calls(&fake), [""; 0]);
        assert_eq!(
            stores.held(&policies[0].profile).collect::<Vec<_>>(),
            [(Enforcers::APPARMOR, Held::Loaded(Stored::default()))]
        );
        assert!(stores.held(&policies[1].profile).next().is_none());
        stores.reconcile(Some(&[]));
        assert_eq!(calls(&fake), ["remove varmor-demo-a"]);
    }

    #[test]
    fn what_somebody_unloaded_is_loaded_again() {
        let (mut stores, fake) = stores();
        let policies = [object("a", Enforcers::APPARMOR)];
        stores.reconcile(Some(&policies));
        fake.0.lock().unwrap().0.clear();
        stores.reconcile(Some(&policies));
        assert_eq!(calls(&fake), ["apply varmor-demo-a", "apply varmor-demo-a"]);
    }

    #[test]
    fn a_refused_profile_is_named_and_not_tried_at_every_turn() {
        let (mut stores, fake) = stores();
        let policies = [object("bad", Enforcers::APPARMOR)];
        stores.reconcile(Some(&policies));
        stores.reconcile(Some(&policies));
        assert_eq!(calls(&fake), ["apply varmor-demo-bad"]);
        let held: Vec<_> = stores.held(&policies[0].profile).collect();
        assert!(
            matches!(&held[..], [(_, Held::Refused(reason))] if reason.contains("in a test")),
            "{held:?}"
        );
    }

    #[test]
    fn a_machine_without_the_enforcer_says_so_for_each_policy() {
        let mut stores = Stores::default();
        stores.add(
            Enforcers::APPARMOR,
            Err(EnforcerError::Missing {
                enforcer: "AppArmor",
                reason: "off".to_owned(),
            }),
        );
        let policies = [object("a", Enforcers::APPARMOR)];
        assert!(!stores.reconcile(Some(&policies)));
        let held: Vec<_> = stores.held(&policies[0].profile).collect();
        assert!(
            matches!(&held[..], [(_, Held::Refused(reason))] if reason.contains("not available")),
            "{held:?}"
        );
    }
}
