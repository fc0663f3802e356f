//! What the controller knows of the cluster: one table that watches fill and reconciling reads. No IO.

mod outcome;

pub use outcome::{Needs, Outcome, Problem};

use std::collections::{BTreeMap, BTreeSet, HashMap};

use varmor_common::policy::{
    ArmorProfileStatus, EgressAddresses, EgressPeer, PolicyStatus, Target, WorkloadPods,
};
use varmor_common::profile::profile_name;

use crate::egress::{self, Addresses, Change};
use crate::names::{Claim, Names, NoName};
use crate::object::{CLUSTER_POLICY, Policy, PolicyKey, Profile, ProfileKey, VARMOR_POLICY};
use crate::workload::{self, Workload, WorkloadKey, Workloads};

/// What is known.
#[derive(Debug, Default)]
pub struct World {
    /// Where the `ArmorProfile`s of cluster policies live.
    own_namespace: String,
    policies: BTreeMap<PolicyKey, Policy>,
    /// Policies by the profile name that they would have if they were alone.
    by_first_name: HashMap<String, BTreeSet<PolicyKey>>,
    with_peers: BTreeSet<PolicyKey>,
    profiles: BTreeMap<ProfileKey, Profile>,
    profiles_of: BTreeMap<PolicyKey, BTreeSet<ProfileKey>>,
    by_profile_name: HashMap<String, BTreeSet<ProfileKey>>,
    names: Names,
    pub workloads: Workloads,
    pub addresses: Addresses,
    outcomes: BTreeMap<PolicyKey, Outcome>,
    version: u64,
}

impl World {
    #[must_use]
    pub fn new(own_namespace: &str) -> Self {
        Self {
            own_namespace: own_namespace.to_owned(),
            ..Self::default()
        }
    }

    /// A policy came or changed; whether it has to be reconciled.
    pub fn set_policy(&mut self, policy: Policy) -> bool {
        self.version += 1;
        let key = policy.key.clone();
        self.index_policy(&policy);
        match self.policies.insert(key, policy.clone()) {
            None => true,
            Some(old) => {
                (old.uid, old.generation, old.is_deleting, &old.labels)
                    != (policy.uid, policy.generation, policy.is_deleting, &policy.labels)
            }
        }
    }

    pub fn remove_policy(&mut self, key: &PolicyKey) -> bool {
        self.version += 1;
        self.with_peers.remove(key);
        self.outcomes.remove(key);
        let first = profile_name(key.namespace.as_deref(), &key.name);
        if let Some(keys) = self.by_first_name.get_mut(&first) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_first_name.remove(&first);
            }
        }
        let is_known = self.policies.remove(key).is_some();
        self.release_if_gone(key);
        is_known
    }

    /// An `ArmorProfile` came or changed; the policy that has to look at it. What is older than what is known is left
    /// out: the answers to our own writes come before the watch tells them.
    pub fn set_profile(&mut self, mut profile: Profile) -> Option<PolicyKey> {
        if let Some(old) = self
            .profiles
            .get(&profile.key)
            .filter(|old| old.uid == profile.uid)
        {
            if profile.resource_version < old.resource_version {
                return None;
            }
            if profile.generation == old.generation {
                profile.spec_version = old.spec_version;
            }
        }
        self.version += 1;
        let key = profile.key.clone();
        self.unindex_profile(&key);
        let policy = policy_of(&profile, &self.own_namespace);
        if let Some(policy) = &policy {
            self.profiles_of
                .entry(policy.clone())
                .or_default()
                .insert(key.clone());
        }
        self.by_profile_name
            .entry(key.name.clone())
            .or_default()
            .insert(key.clone());
        self.profiles.insert(key, profile);
        policy
    }

    pub fn remove_profile(&mut self, key: &ProfileKey) -> Option<PolicyKey> {
        self.version += 1;
        let policy = self.unindex_profile(key);
        self.profiles.remove(key);
        if let Some(policy) = &policy {
            self.release_if_gone(policy);
        }
        policy
    }

    /// A workload came, changed or went; the policies that mean it now or meant it before.
    pub fn set_workload(&mut self, key: &WorkloadKey, workload: Option<Workload>) -> Vec<PolicyKey> {
        let versions: Vec<Workload> = self
            .workloads
            .get(key)
            .cloned()
            .into_iter()
            .chain(workload.clone())
            .collect();
        if !self.workloads.set(key.clone(), workload) {
            return Vec::new();
        }
        let is_meant = |policy: &&Policy| {
            let Ok(interest) = &policy.read else { return true };
            let namespace = policy.key.namespace.as_deref();
            versions
                .iter()
                .any(|one| workload::is_for(namespace, &interest.target, key, &one.labels))
        };
        self.policies
            .values()
            .filter(is_meant)
            .map(|policy| policy.key.clone())
            .collect()
    }

    /// The policies that a change of addresses concerns.
    #[must_use]
    pub fn concerned(&self, change: &Change) -> Vec<PolicyKey> {
        let is_concerned = |key: &&PolicyKey| {
            self.policies.get(*key).is_some_and(|policy| match &policy.read {
                Ok(interest) => interest.peers.iter().any(|peer| egress::concerns(change, peer)),
                Err(_) => true,
            })
        };
        self.with_peers.iter().filter(is_concerned).cloned().collect()
    }

    /// The policies whose profile is made from the model of this name.
    #[must_use]
    pub fn asks_for_model(&self, key: &ProfileKey) -> Vec<PolicyKey> {
        let is_meant = |policy: &&Policy| {
            self.names.of(&policy.key) == Some(&key.name)
                && policy.read.as_ref().is_ok_and(|interest| interest.needs_model)
        };
        self.policies
            .values()
            .filter(is_meant)
            .map(|policy| policy.key.clone())
            .collect()
    }

    #[must_use]
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        for policy in self.with_peers.iter().filter_map(|key| self.policies.get(key)) {
            match &policy.read {
                Ok(interest) => {
                    needs.pods |= interest.peers.iter().any(|peer| peer.pods.is_some());
                    needs.services |= interest.peers.iter().any(|peer| peer.pods.is_none());
                }
                // What it says cannot be read, what it said is still in force.
                Err(_) => {
                    needs = Needs {
                        services: true,
                        pods: true,
                    }
                }
            }
        }
        needs
    }

    #[must_use]
    pub fn policy(&self, key: &PolicyKey) -> Option<&Policy> {
        self.policies.get(key)
    }

    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values()
    }

    #[must_use]
    pub fn profile(&self, key: &ProfileKey) -> Option<&Profile> {
        self.profiles.get(key)
    }

    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.values()
    }

    /// The `ArmorProfile`s that were made of this policy or of one that had its name.
    pub fn profiles_of(&self, key: &PolicyKey) -> impl Iterator<Item = &Profile> {
        self.profiles_of
            .get(key)
            .into_iter()
            .flatten()
            .filter_map(|key| self.profiles.get(key))
    }

    /// The policies that exist and those of which only the `ArmorProfile` is left.
    #[must_use]
    pub fn every_key(&self) -> BTreeSet<PolicyKey> {
        self.policies
            .keys()
            .chain(self.profiles_of.keys())
            .cloned()
            .collect()
    }

    /// Where the `ArmorProfile` of a policy lives.
    #[must_use]
    pub fn home(&self, key: &PolicyKey) -> String {
        key.namespace
            .clone()
            .unwrap_or_else(|| self.own_namespace.clone())
    }

    /// The name of the policy's profile; once given it is kept.
    pub fn name(&mut self, key: &PolicyKey) -> Result<String, NoName> {
        let owned = self
            .profiles_of(key)
            .next()
            .map(|profile| profile.key.name.clone());
        let promised = self
            .policies
            .get(key)
            .map(|policy| policy.status.profile_name.clone());
        let claim = Claim {
            owned: owned.as_deref(),
            promised: promised.as_deref().filter(|name| !name.is_empty()),
            is_younger: self.is_younger(key),
        };
        let (by_name, profiles_of) = (&self.by_profile_name, &self.profiles_of);
        self.names.give(key, claim, |name| {
            let mut others = by_name.get(name)?.iter();
            let is_ours = |one: &ProfileKey| profiles_of.get(key).is_some_and(|keys| keys.contains(one));
            others
                .find(|one| !is_ours(one))
                .map(|one| format!("ArmorProfile {one}"))
        })
    }

    /// The present pods of a target.
    #[must_use]
    pub fn workloads_of(&self, key: &PolicyKey, target: &Target) -> Option<Vec<WorkloadPods>> {
        self.workloads.pods_of(key.namespace.as_deref(), target)
    }

    #[must_use]
    pub fn addresses_of(&self, peers: &[EgressPeer]) -> Vec<EgressAddresses> {
        peers.iter().map(|peer| self.addresses.of(peer)).collect()
    }

    pub fn set_outcome(&mut self, key: &PolicyKey, outcome: Outcome) {
        if self.outcomes.get(key) != Some(&outcome) {
            self.version += 1;
            self.outcomes.insert(key.clone(), outcome);
        }
    }

    #[must_use]
    pub fn outcome(&self, key: &PolicyKey) -> Option<&Outcome> {
        self.outcomes.get(key)
    }

    /// Our own write, before the watch tells it.
    pub fn set_policy_status(&mut self, key: &PolicyKey, uid: &str, status: PolicyStatus) {
        if let Some(policy) = self.policies.get_mut(key).filter(|policy| policy.uid == uid) {
            policy.status = status;
        }
    }

    /// Our own write, before the watch tells it.
    pub fn set_profile_status(&mut self, key: &ProfileKey, uid: &str, status: ArmorProfileStatus) {
        if let Some(profile) = self.profiles.get_mut(key).filter(|profile| profile.uid == uid) {
            profile.status = Some(status);
        }
    }

    /// Changes whenever anything here that a status shows has changed.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether an older policy without a name would have the same one.
    fn is_younger(&self, key: &PolicyKey) -> bool {
        let age = |key: &PolicyKey| {
            self.policies
                .get(key)
                .map(|policy| (policy.created, policy.uid.clone()))
        };
        let own = age(key);
        let first = profile_name(key.namespace.as_deref(), &key.name);
        self.by_first_name
            .get(&first)
            .into_iter()
            .flatten()
            .any(|other| other != key && self.names.of(other).is_none() && age(other) < own)
    }

    fn index_policy(&mut self, policy: &Policy) {
        let key = &policy.key;
        let first = profile_name(key.namespace.as_deref(), &key.name);
        self.by_first_name.entry(first).or_default().insert(key.clone());
        // A policy that cannot be read keeps what it had.
        let has_peers = match &policy.read {
            Ok(interest) => !interest.peers.is_empty(),
            Err(_) => self
                .profiles_of(key)
                .any(|profile| profile.spec().is_some_and(|spec| !spec.egress.is_empty())),
        };
        if has_peers {
            self.with_peers.insert(key.clone());
        } else {
            self.with_peers.remove(key);
        }
    }

    fn unindex_profile(&mut self, key: &ProfileKey) -> Option<PolicyKey> {
        let policy = policy_of(self.profiles.get(key)?, &self.own_namespace);
        if let Some(policy) = &policy
            && let Some(keys) = self.profiles_of.get_mut(policy)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.profiles_of.remove(policy);
            }
        }
        if let Some(keys) = self.by_profile_name.get_mut(&key.name) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_profile_name.remove(&key.name);
            }
        }
        policy
    }

    fn release_if_gone(&mut self, key: &PolicyKey) {
        if !self.policies.contains_key(key) && !self.profiles_of.contains_key(key) {
            self.names.release(key);
        }
    }
}

/// The policy that an `ArmorProfile` was made of, if it was made of one and is where that policy's profile belongs.
fn policy_of(profile: &Profile, own_namespace: &str) -> Option<PolicyKey> {
    let spec: serde_json::Value = serde_json::from_str(&profile.spec).ok()?;
    let text = |field: &str| spec["policy"][field].as_str();
    let owner = profile.owner.as_ref();
    let kind = text("kind").or(owner.map(|owner| owner.kind.as_str()))?;
    let name = text("name")
        .or(owner.map(|owner| owner.name.as_str()))?
        .to_owned();
    let namespace = match kind {
        VARMOR_POLICY => Some(profile.key.namespace.clone()),
        CLUSTER_POLICY if profile.key.namespace == own_namespace => None,
        _ => return None,
    };
    (text("namespace").is_none() || text("namespace") == namespace.as_deref())
        .then_some(PolicyKey { namespace, name })
}

#[cfg(test)]
mod tests;
