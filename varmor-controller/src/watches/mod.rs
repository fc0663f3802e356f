//! The watches that fill the table of the cluster.

mod addresses;
mod objects;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::StreamExt as _;
use kube::Resource;
use kube::api::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use self::addresses::{PodTable, ServiceTable, SliceTable};
use self::objects::{AgentTable, ModelTable, PolicyTable, ProfileTable, WorkloadTable};
use crate::PAGE;
use crate::context::Context;
use crate::egress;
use crate::object::{PolicyKey, Profile};
use crate::workload::{self, WorkloadObject};
use crate::world::Needs;

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
