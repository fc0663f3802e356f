//! The tables of policies, profiles, models, workloads and agents.

use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::core::{DynamicObject, PartialObjectMeta};
use varmor_common::policy::ArmorProfileModel;

use super::Table;
use crate::context::Context;
use crate::object::{Policy, PolicyKey, Profile, ProfileKey, policy_key};
use crate::report::agent_pod;
use crate::workload::{self, WorkloadKey, WorkloadObject};

pub(super) struct PolicyTable<'c> {
    pub(super) context: &'c Context,
    pub(super) is_cluster: bool,
}

impl Table for PolicyTable<'_> {
    type Object = DynamicObject;
    type Key = PolicyKey;

    fn set(&mut self, object: DynamicObject) -> Option<PolicyKey> {
        // The check is the slow part; nobody waits for it.
        let policy = Policy::read(object)?;
        let key = policy.key.clone();
        if let Err(problem) = &policy.read {
            tracing::debug!(policy = %key, problem, "a policy cannot be followed");
        }
        if self.context.world().set_policy(policy) {
            self.context.tell_needs();
            self.context.queue.add(key.clone());
        }
        Some(key)
    }

    fn key(&self, object: &DynamicObject) -> Option<PolicyKey> {
        policy_key(object)
    }

    fn remove(&mut self, key: &PolicyKey) {
        self.context.world().remove_policy(key);
        self.context.tell_needs();
        self.context.queue.add(key.clone());
    }

    fn keys(&self) -> Vec<PolicyKey> {
        let world = self.context.world();
        let keys = world.policies().map(|policy| policy.key.clone());
        keys.filter(|key| key.namespace.is_none() == self.is_cluster)
            .collect()
    }
}

pub(super) struct ProfileTable<'c> {
    pub(super) context: &'c Context,
}

impl Table for ProfileTable<'_> {
    type Object = DynamicObject;
    type Key = ProfileKey;

    fn set(&mut self, object: DynamicObject) -> Option<ProfileKey> {
        let profile = Profile::read(object)?;
        let key = profile.key.clone();
        let is_new = {
            let world = self.context.world();
            // Our own status writes come back as well; only what may have to be put right is looked at.
            world.profile(&key).is_none_or(|old| {
                (
                    &old.uid,
                    old.generation,
                    old.is_deleting,
                    &old.finalizers,
                    &old.labels,
                    &old.owner,
                ) != (
                    &profile.uid,
                    profile.generation,
                    profile.is_deleting,
                    &profile.finalizers,
                    &profile.labels,
                    &profile.owner,
                )
            })
        };
        let policy = self.context.world().set_profile(profile);
        if let Some(policy) = policy.filter(|_| is_new) {
            self.context.queue.add(policy);
        }
        Some(key)
    }

    fn key(&self, object: &DynamicObject) -> Option<ProfileKey> {
        profile_key(&object.metadata)
    }

    fn remove(&mut self, key: &ProfileKey) {
        let policy = self.context.world().remove_profile(key);
        self.context.queue.extend(policy);
    }

    fn keys(&self) -> Vec<ProfileKey> {
        self.context
            .world()
            .profiles()
            .map(|profile| profile.key.clone())
            .collect()
    }
}

/// Only which models there are: they are large, and read when one is needed.
pub(super) struct ModelTable<'c> {
    pub(super) context: &'c Context,
}

impl Table for ModelTable<'_> {
    type Object = PartialObjectMeta<ArmorProfileModel>;
    type Key = ProfileKey;

    fn set(&mut self, object: Self::Object) -> Option<ProfileKey> {
        let key = self.key(&object)?;
        self.wake(&key);
        Some(key)
    }

    fn key(&self, object: &Self::Object) -> Option<ProfileKey> {
        profile_key(&object.metadata)
    }

    /// A profile keeps the model that it has; the next look says that it is missing.
    fn remove(&mut self, key: &ProfileKey) {
        self.wake(key);
    }

    fn keys(&self) -> Vec<ProfileKey> {
        Vec::new()
    }
}

impl ModelTable<'_> {
    fn wake(&self, key: &ProfileKey) {
        let concerned = self.context.world().asks_for_model(key);
        self.context.queue.extend(concerned);
    }
}

pub(super) struct WorkloadTable<'c> {
    pub(super) context: &'c Context,
    pub(super) kind: &'static str,
}

impl Table for WorkloadTable<'_> {
    type Object = WorkloadObject;
    type Key = WorkloadKey;

    fn set(&mut self, object: WorkloadObject) -> Option<WorkloadKey> {
        let (key, workload) = workload::read(self.kind, object)?;
        let policies = self.context.world().set_workload(&key, Some(workload));
        self.context.queue.extend(policies);
        Some(key)
    }

    fn key(&self, object: &WorkloadObject) -> Option<WorkloadKey> {
        Some(WorkloadKey {
            kind: self.kind,
            namespace: object.namespace()?,
            name: object.name_any(),
        })
    }

    fn remove(&mut self, key: &WorkloadKey) {
        let policies = self.context.world().set_workload(key, None);
        self.context.queue.extend(policies);
    }

    fn keys(&self) -> Vec<WorkloadKey> {
        let world = self.context.world();
        world
            .workloads
            .keys()
            .filter(|key| key.kind == self.kind)
            .cloned()
            .collect()
    }
}

pub(super) struct AgentTable<'c> {
    pub(super) context: &'c Context,
}

impl Table for AgentTable<'_> {
    type Object = Pod;
    type Key = String;

    fn set(&mut self, object: Pod) -> Option<String> {
        let name = object.name_any();
        self.context.nodes().set_pod(
            &name,
            agent_pod(&object, &self.context.settings.agent_service_account),
            Instant::now(),
        );
        Some(name)
    }

    fn key(&self, object: &Pod) -> Option<String> {
        object.metadata.name.clone()
    }

    fn remove(&mut self, key: &String) {
        self.context.nodes().set_pod(key, None, Instant::now());
    }

    fn keys(&self) -> Vec<String> {
        self.context.nodes().pods().cloned().collect()
    }
}

fn profile_key(meta: &kube::core::ObjectMeta) -> Option<ProfileKey> {
    Some(ProfileKey {
        namespace: meta.namespace.clone()?,
        name: meta.name.clone()?,
    })
}
