//! The watches that fill the table of the cluster.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use varmor_common::policy::ArmorProfileModel;

use crate::context::Context;
use crate::egress;
use crate::object::{Policy, PolicyKey, Profile, ProfileKey, policy_key};
use crate::report::agent_pod;
use crate::workload::{self, WorkloadKey, WorkloadObject};
use crate::world::Needs;

/// Objects in one answer of the API server.
const PAGE: u32 = 500;

/// Watches everything that is always needed; never ends. `synced` counts the tables that are complete.
pub async fn run(context: &Context, synced: watch::Sender<u32>) {
    let done = || synced.send_modify(|count| *count += 1);
    let client = || context.client.clone();
    let namespaced = PolicyKey {
        namespace: Some(String::new()),
        name: String::new(),
    }
    .resource();
    let cluster = PolicyKey {
        namespace: None,
        name: String::new(),
    }
    .resource();
    let agents = watcher::Config::default().labels(&context.settings.agent_selector);
    let all = watcher::Config::default;
    let workloads = |kind: &'static str| {
        let api: Api<WorkloadObject> = Api::all_with(client(), &workload::resource(kind));
        follow(context, api, all(), WorkloadTable { context, kind }, done)
    };
    tokio::join!(
        follow(
            context,
            Api::all_with(client(), &namespaced),
            all(),
            PolicyTable {
                context,
                is_cluster: false
            },
            done
        ),
        follow(
            context,
            Api::all_with(client(), &cluster),
            all(),
            PolicyTable {
                context,
                is_cluster: true
            },
            done
        ),
        follow(
            context,
            Api::all_with(client(), &Profile::resource()),
            all(),
            ProfileTable { context },
            done
        ),
        follow(
            context,
            Api::namespaced(client(), &context.settings.namespace),
            agents,
            AgentTable { context },
            done
        ),
        follow(context, Api::all(client()), all(), ModelTable { context }, done),
        workloads("Deployment"),
        workloads("StatefulSet"),
        workloads("DaemonSet"),
        on_demand(
            context,
            |needs| needs.services,
            |known| known.services = false,
            || services(context)
        ),
        on_demand(
            context,
            |needs| needs.pods,
            |known| known.pods = false,
            || pods(context)
        ),
    );
}

/// Tables that [`run`] reports complete.
pub const TABLES: u32 = 8;

/// A part of the table that one watch fills.
trait Table {
    type Object;
    type Key: Ord;

    /// An object came or changed. Its key, if it is one that the table can hold.
    fn set(&mut self, object: Self::Object) -> Option<Self::Key>;
    /// The key of an object that is gone.
    fn key(&self, object: &Self::Object) -> Option<Self::Key>;
    fn remove(&mut self, key: &Self::Key);
    /// Everything that is in the table now.
    fn keys(&self) -> Vec<Self::Key>;
}

/// Keeps a table as the API server has it; never ends.
async fn follow<K, T>(context: &Context, api: Api<K>, config: watcher::Config, mut table: T, done: impl Fn())
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    T: Table<Object = K>,
{
    let name = api.resource_url().to_owned();
    let mut stream = pin!(watcher(api, config.page_size(PAGE)).default_backoff());
    let mut listed = BTreeSet::new();
    let mut is_first = true;
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => listed.extend(table.set(object)),
            Ok(Event::InitDone) => {
                // What went while nobody watched.
                for key in table.keys().into_iter().filter(|key| !listed.contains(key)) {
                    table.remove(&key);
                }
                listed.clear();
                if std::mem::take(&mut is_first) {
                    done();
                }
            }
            Ok(Event::Apply(object)) => {
                table.set(object);
            }
            Ok(Event::Delete(object)) => {
                if let Some(key) = table.key(&object) {
                    table.remove(&key);
                }
            }
            Err(error) => {
                context.metrics.watch_failure();
                tracing::warn!(
                    resource = name,
                    error = crate::told(&error),
                    "a watch broke; it begins anew"
                );
            }
        }
    }
}

/// Runs watches only while some policy needs them.
async fn on_demand<F: Future<Output = ()>>(
    context: &Context,
    is_needed: impl Fn(&Needs) -> bool,
    forget: impl Fn(&mut Needs),
    watches: impl Fn() -> F,
) {
    let mut wanted = context.wanted.subscribe();
    loop {
        if wanted.wait_for(&is_needed).await.is_err() {
            return;
        }
        tokio::select! {
            () = watches() => {}
            _ = wanted.wait_for(|needs| !is_needed(needs)) => {}
        }
        // What is remembered would be old when it is needed again.
        context.known.send_modify(&forget);
    }
}

async fn services(context: &Context) {
    let count = AtomicU32::new(0);
    let done = || {
        if count.fetch_add(1, Ordering::Relaxed) == 1 {
            context.known.send_modify(|known| known.services = true);
        }
    };
    let services = Api::all_with(context.client.clone(), &egress::core_resource("Service"));
    let slices = Api::all(context.client.clone());
    let config = watcher::Config::default;
    tokio::join!(
        follow(context, services, config(), ServiceTable { context }, done),
        follow(context, slices, config(), SliceTable { context }, done),
    );
}

async fn pods(context: &Context) {
    let pods = Api::all_with(context.client.clone(), &egress::core_resource("Pod"));
    let done = || context.known.send_modify(|known| known.pods = true);
    follow(
        context,
        pods,
        watcher::Config::default(),
        PodTable { context },
        done,
    )
    .await;
}

struct PolicyTable<'c> {
    context: &'c Context,
    is_cluster: bool,
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

struct ProfileTable<'c> {
    context: &'c Context,
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
struct ModelTable<'c> {
    context: &'c Context,
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

struct WorkloadTable<'c> {
    context: &'c Context,
    kind: &'static str,
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

struct AgentTable<'c> {
    context: &'c Context,
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

struct ServiceTable<'c> {
    context: &'c Context,
}

impl Table for ServiceTable<'_> {
    type Object = egress::ServiceObject;
    type Key = egress::Name;

    fn set(&mut self, object: Self::Object) -> Option<egress::Name> {
        let (name, service) = egress::read_service(object)?;
        let change = self
            .context
            .world()
            .addresses
            .set_service(name.clone(), Some(service));
        self.context.address_changed(change);
        Some(name)
    }

    fn key(&self, object: &Self::Object) -> Option<egress::Name> {
        Some((object.namespace()?, object.name_any()))
    }

    fn remove(&mut self, key: &egress::Name) {
        let change = self.context.world().addresses.set_service(key.clone(), None);
        self.context.address_changed(change);
    }

    fn keys(&self) -> Vec<egress::Name> {
        self.context.world().addresses.services().cloned().collect()
    }
}

struct SliceTable<'c> {
    context: &'c Context,
}

impl Table for SliceTable<'_> {
    type Object = egress::SliceObject;
    type Key = egress::Name;

    fn set(&mut self, object: Self::Object) -> Option<egress::Name> {
        let name = self.key(&object)?;
        let slice = egress::read_slice(object).map(|(_, slice)| slice);
        let changes = self.context.world().addresses.set_slice(name.clone(), slice);
        self.context.address_changed(changes);
        Some(name)
    }

    fn key(&self, object: &Self::Object) -> Option<egress::Name> {
        Some((object.namespace()?, object.name_any()))
    }

    fn remove(&mut self, key: &egress::Name) {
        let changes = self.context.world().addresses.set_slice(key.clone(), None);
        self.context.address_changed(changes);
    }

    fn keys(&self) -> Vec<egress::Name> {
        self.context.world().addresses.slices().cloned().collect()
    }
}

struct PodTable<'c> {
    context: &'c Context,
}

impl Table for PodTable<'_> {
    type Object = egress::PodObject;
    type Key = egress::Name;

    fn set(&mut self, object: Self::Object) -> Option<egress::Name> {
        let (name, pod) = egress::read_pod(object)?;
        let change = self.context.world().addresses.set_pod(name.clone(), pod);
        self.context.address_changed(change);
        Some(name)
    }

    fn key(&self, object: &Self::Object) -> Option<egress::Name> {
        Some((object.namespace()?, object.name_any()))
    }

    fn remove(&mut self, key: &egress::Name) {
        let change = self.context.world().addresses.set_pod(key.clone(), None);
        self.context.address_changed(change);
    }

    fn keys(&self) -> Vec<egress::Name> {
        self.context.world().addresses.pods().cloned().collect()
    }
}

fn profile_key(meta: &kube::core::ObjectMeta) -> Option<ProfileKey> {
    Some(ProfileKey {
        namespace: meta.namespace.clone()?,
        name: meta.name.clone()?,
    })
}
