//! Keeps a list of the `ArmorProfile`s of the cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::{Stream, StreamExt as _};
use kube::api::DynamicObject;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use crate::text::{MAX_VALUE, clean};

/// Objects change in bursts (a new address of a Service concerns many); one round takes them in.
const SETTLE: Duration = Duration::from_millis(50);
/// A burst that does not end is taken in piece by piece.
const LONGEST_BURST: Duration = Duration::from_secs(1);
/// A version that nothing but a status has is told this late: were it told at once, the controller's counts of nodes would
/// make every node speak.
const STATUS_LATER: Duration = Duration::from_secs(10);
/// Of a page of the first list: thousands of nodes ask for it at a time.
const PAGE: u32 = 100;

/// How the API server is reached.
#[derive(Clone, Debug)]
pub enum Access {
    /// By the service account of the pod.
    Pod,
    Kubeconfig(PathBuf),
}

/// The objects of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// By namespace and name; `None` until the first list succeeded.
    pub objects: Option<Arc<BTreeMap<String, Object>>>,
    /// The highest resource version among them, those that are gone included.
    pub synced: u64,
    /// Why there is no connection now.
    pub problem: Option<String>,
}

/// An object as the catalog reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub uid: String,
    pub generation: i64,
    /// Without what changes with the status.
    pub json: Arc<[u8]>,
}

/// A client for the API server.
pub async fn connect(access: &Access) -> anyhow::Result<Client> {
    let config = match access {
        Access::Pod => Config::incluster().context("find the API server from within a pod")?,
        Access::Kubeconfig(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("read the kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("use the kubeconfig {}", path.display()))?
        }
    };
    Client::try_from(config).context("make a client for the API server")
}

/// Keeps `listing` up to date for ever, and says each time that there is something to take in.
pub async fn watch(client: Client, listing: watch::Sender<Listing>, rescan: mpsc::Sender<()>) {
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("crd.varmor.org", "v1beta1", "ArmorProfile"),
        "armorprofiles",
    );
    let api: Api<DynamicObject> = Api::all_with(client, &kind);
    let config = watcher::Config::default().page_size(PAGE);
    follow(watcher(api, config).default_backoff(), &listing, &rescan).await;
}

async fn follow(
    events: impl Stream<Item = watcher::Result<Event<DynamicObject>>>,
    listing: &watch::Sender<Listing>,
    rescan: &mpsc::Sender<()>,
) {
    let mut events = pin!(events);
    let mut pending = Pending::default();
    let mut told = Instant::now();
    loop {
        let mut next = if pending.is_behind {
            match timeout_at(told + STATUS_LATER, events.next()).await {
                Ok(None) => return,
                Ok(event) => event,
                Err(_) => None,
            }
        } else {
            let Some(event) = events.next().await else { return };
            Some(event)
        };
        let began = Instant::now();
        while let Some(event) = next {
            match event {
                Ok(event) => pending.take(event),
                Err(error) => pending.problem(&error),
            }
            // What comes at once belongs to the same round.
            next = if began.elapsed() < LONGEST_BURST {
                timeout(SETTLE, events.next()).await.ok().flatten()
            } else {
                None
            };
        }
        pending.is_new |= pending.is_behind && told.elapsed() >= STATUS_LATER;
        if pending.publish(listing) {
            told = Instant::now();
            if rescan.send(()).await.is_err() {
                return;
            }
        }
    }
}

/// What the stream has said so far.
#[derive(Default)]
struct Pending {
    objects: BTreeMap<String, Object>,
    /// A list that is not complete yet.
    next: Option<BTreeMap<String, Object>>,
    synced: u64,
    is_complete: bool,
    problem: Option<String>,
    is_new: bool,
    /// The version alone is new.
    is_behind: bool,
}

impl Pending {
    fn take(&mut self, event: Event<DynamicObject>) {
        if self.problem.take().is_some() {
            info!("connected to the API server");
            self.is_new = true;
        }
        match event {
            Event::Init => self.next = Some(BTreeMap::new()),
            Event::InitApply(object) => {
                let (name, text, version) = read(&object);
                self.synced = self.synced.max(version);
                self.next.get_or_insert_default().insert(name, text);
            }
            Event::InitDone => {
                self.objects = self.next.take().unwrap_or_default();
                self.is_complete = true;
                self.is_new = true;
            }
            Event::Apply(object) => {
                let (name, text, version) = read(&object);
                self.synced = self.synced.max(version);
                if self.objects.get(&name) == Some(&text) {
                    self.is_behind = true;
                } else {
                    self.objects.insert(name, text);
                    self.is_new = true;
                }
            }
            Event::Delete(object) => {
                let (name, _, version) = read(&object);
                self.synced = self.synced.max(version);
                self.objects.remove(&name);
                self.is_new = true;
            }
        }
    }

    fn problem(&mut self, error: &watcher::Error) {
        let text = clean(&error.to_string(), MAX_VALUE);
        if self.problem.as_ref() != Some(&text) {
            warn!(problem = %text, "the API server is not reachable; policies stay as they are, retrying");
            self.problem = Some(text);
            self.is_new = true;
        }
    }

    /// True if there was something new.
    fn publish(&mut self, listing: &watch::Sender<Listing>) -> bool {
        if !std::mem::take(&mut self.is_new) {
            return false;
        }
        self.is_behind = false;
        let objects = self.is_complete.then(|| Arc::new(self.objects.clone()));
        listing.send_replace(Listing {
            objects,
            synced: self.synced,
            problem: self.problem.clone(),
        });
        true
    }
}

/// Name, text and resource version of an object.
fn read(object: &DynamicObject) -> (String, Object, u64) {
    let metadata = &object.metadata;
    let (namespace, name) = (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let text = json!({
        "apiVersion": "crd.varmor.org/v1beta1",
        "kind": "ArmorProfile",
        "metadata": {"name": name, "namespace": namespace},
        "spec": object.data.get("spec"),
    });
    let text = Object {
        uid: metadata.uid.clone().unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        json: text.to_string().into_bytes().into(),
    };
    let version = metadata.resource_version.as_deref().unwrap_or_default();
    // Kubernetes promises that these are numbers which grow (KEP-5504).
    (
        format!("{namespace}/{name}"),
        text,
        version.parse().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::time::sleep;

    use super::*;

    fn object(number: u64) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "crd.varmor.org/v1beta1", "kind": "ArmorProfile", "spec": {}, "status": {"number": number},
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": number.to_string()},
        }))
        .unwrap()
    }

    fn changed(number: u64) -> DynamicObject {
        let mut object = object(number);
        object.data["spec"] = json!({"number": number});
        object
    }

    #[tokio::test(start_paused = true)]
    async fn burst_without_an_end_is_taken_in_all_the_same() {
        let (sender, listing) = watch::channel(Listing::default());
        let (rescan, mut rescans) = mpsc::channel(1);
        let first = stream::iter([Ok(Event::Init), Ok(Event::InitDone)]);
        let changes = stream::unfold(1, |number| async move {
            sleep(SETTLE / 2).await;
            Some((Ok(Event::Apply(changed(number))), number + 1))
        });
        let following = tokio::spawn(async move { follow(first.chain(changes), &sender, &rescan).await });
        let patience = LONGEST_BURST * 2;
        for _ in 0..3 {
            let told = timeout(patience, rescans.recv()).await;
            assert_eq!(told, Ok(Some(())), "nothing was taken in for {patience:?}");
        }
        assert!(listing.borrow().synced > 40, "{}", listing.borrow().synced);
        following.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn version_of_a_status_is_told_later() {
        let (sender, mut listing) = watch::channel(Listing::default());
        let (rescan, mut rescans) = mpsc::channel(8);
        let first = stream::iter([
            Ok(Event::Init),
            Ok(Event::InitApply(object(1))),
            Ok(Event::InitDone),
        ]);
        let later = stream::once(async {
            sleep(LONGEST_BURST).await;
            Ok(Event::Apply(object(2)))
        });
        let all = first.chain(later).chain(stream::pending());
        let following = tokio::spawn(async move { follow(all, &sender, &rescan).await });
        assert_eq!(rescans.recv().await, Some(()));
        assert_eq!(listing.borrow_and_update().synced, 1);
        let soon = timeout(STATUS_LATER / 2, rescans.recv()).await;
        assert!(soon.is_err(), "a status is no news");
        assert_eq!(timeout(STATUS_LATER, rescans.recv()).await, Ok(Some(())));
        assert_eq!(listing.borrow().synced, 2);
        following.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn burst_is_one_round() {
        let (sender, listing) = watch::channel(Listing::default());
        let (rescan, mut rescans) = mpsc::channel(8);
        let all = [
            Ok(Event::Init),
            Ok(Event::InitApply(object(1))),
            Ok(Event::InitDone),
            Ok(Event::Apply(object(2))),
        ];
        follow(stream::iter(all), &sender, &rescan).await;
        drop(rescan);
        assert_eq!(rescans.recv().await, Some(()));
        assert_eq!(rescans.recv().await, None);
        assert_eq!(listing.borrow().synced, 2);
    }
}
