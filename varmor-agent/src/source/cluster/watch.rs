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

/// What the stream has said so far. The objects themselves are in the listing alone.
#[derive(Default)]
struct Pending {
    /// Uid and generation of those that are there.
    known: BTreeMap<String, (String, i64)>,
    /// A list that is not complete yet.
    next: Option<BTreeMap<String, Object>>,
    /// A list that is to take the place of the one that was told.
    replaced: Option<BTreeMap<String, Object>>,
    /// What has changed since then; `None` for what is gone.
    changes: BTreeMap<String, Option<Object>>,
    synced: u64,
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
                self.has_seen(&object);
                self.next
                    .get_or_insert_default()
                    .insert(name(&object), read(&object));
            }
            Event::InitDone => {
                let all = self.next.take().unwrap_or_default();
                let known = all.iter().map(|(name, object)| (name.clone(), identity(object)));
                self.known = known.collect();
                self.changes.clear();
                self.replaced = Some(all);
                self.is_new = true;
            }
            Event::Apply(object) => {
                self.has_seen(&object);
                let name = name(&object);
                // The generation counts what has become of the spec, and so what is in `json` (API conventions: Metadata).
                let is_known = self.known.get(&name).is_some_and(|(uid, generation)| {
                    object.metadata.uid.as_ref() == Some(uid)
                        && object.metadata.generation == Some(*generation)
                });
                if is_known {
                    self.is_behind = true;
                } else {
                    let object = read(&object);
                    self.known.insert(name.clone(), identity(&object));
                    self.changes.insert(name, Some(object));
                    self.is_new = true;
                }
            }
            Event::Delete(object) => {
                self.has_seen(&object);
                let name = name(&object);
                self.known.remove(&name);
                self.changes.insert(name, None);
                self.is_new = true;
            }
        }
    }

    /// Kubernetes promises that versions are numbers which grow (KEP-5504).
    fn has_seen(&mut self, object: &DynamicObject) {
        let version = object.metadata.resource_version.as_deref().unwrap_or_default();
        self.synced = self.synced.max(version.parse().unwrap_or_default());
    }

    fn problem(&mut self, error: &watcher::Error) {
        let text = clean(&error.to_string(), MAX_VALUE);
        if self.problem.as_ref() != Some(&text) {
            warn!(problem = %text, "the API server is not reachable; policies stay as they are, retrying");
            self.problem = Some(text);
            self.is_new = true;
        }
    }

    /// True if there was something new. It is put into the listing in its place, which costs what has changed and not what
    /// is there, unless somebody holds on to the objects.
    fn publish(&mut self, listing: &watch::Sender<Listing>) -> bool {
        if !std::mem::take(&mut self.is_new) {
            return false;
        }
        self.is_behind = false;
        listing.send_modify(|listing| {
            if let Some(all) = self.replaced.take() {
                listing.objects = Some(Arc::new(all));
            }
            if let Some(objects) = listing.objects.as_mut().filter(|_| !self.changes.is_empty()) {
                let objects = Arc::make_mut(objects);
                for (name, change) in std::mem::take(&mut self.changes) {
                    match change {
                        Some(object) => objects.insert(name, object),
                        None => objects.remove(&name),
                    };
                }
            }
            listing.synced = self.synced;
            listing.problem.clone_from(&self.problem);
        });
        true
    }
}

fn identity(object: &Object) -> (String, i64) {
    (object.uid.clone(), object.generation)
}

/// Namespace and name.
fn name(object: &DynamicObject) -> String {
    let metadata = &object.metadata;
    format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}

/// What the catalog reads.
fn read(object: &DynamicObject) -> Object {
    let metadata = &object.metadata;
    let json = json!({
        "apiVersion": "crd.varmor.org/v1beta1",
        "kind": "ArmorProfile",
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "spec": object.data.get("spec"),
    });
    Object {
        uid: metadata.uid.clone().unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        json: json.to_string().into_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::time::sleep;

    use super::*;

    fn object(number: u64) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "crd.varmor.org/v1beta1", "kind": "ArmorProfile", "spec": {}, "status": {"number": number},
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 1, "resourceVersion": number.to_string()},
        }))
        .unwrap()
    }

    fn changed(number: u64) -> DynamicObject {
        let mut object = object(number);
        object.data["spec"] = json!({"number": number});
        object.metadata.generation = i64::try_from(number).ok();
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

    fn shown(listing: &watch::Receiver<Listing>) -> String {
        let listing = listing.borrow();
        let objects = listing.objects.iter().flat_map(|objects| objects.iter());
        objects.fold(String::new(), |text, (name, object)| {
            text + &format!(
                "{name}={} {}",
                object.generation,
                String::from_utf8_lossy(&object.json)
            )
        })
    }

    #[test]
    fn listing_is_what_the_events_say_and_stays_for_those_that_hold_it() {
        let (sender, listing) = watch::channel(Listing::default());
        let mut pending = Pending::default();
        let mut after = |events: Vec<Event<DynamicObject>>| {
            for event in events {
                pending.take(event);
            }
            pending.publish(&sender)
        };
        assert!(!after(vec![Event::Init, Event::InitApply(object(1))]));
        assert!(
            listing.borrow().objects.is_none(),
            "half a list is none: what is missing in it would be taken away"
        );
        assert!(after(vec![Event::InitDone]));
        let held = listing.borrow().clone();
        assert!(after(vec![Event::Apply(changed(3))]));
        assert!(
            shown(&listing).contains("n/p=3") && shown(&listing).contains("\"number\":3"),
            "{}",
            shown(&listing)
        );
        assert_eq!(held.objects.unwrap()["n/p"].generation, 1);
        let mut same = changed(3);
        same.metadata.resource_version = Some("4".to_owned());
        assert!(!after(vec![Event::Apply(same)]), "a status alone");
        assert!(after(vec![Event::Delete(changed(5))]));
        assert_eq!((shown(&listing), listing.borrow().synced), (String::new(), 5));
        // Made anew under the same name.
        assert!(after(vec![Event::Apply(changed(6))]));
        assert!(shown(&listing).contains("n/p=6"));
        // The list after a lost connection takes the place of all.
        assert!(after(vec![Event::Init, Event::InitDone]));
        assert_eq!(shown(&listing), "");
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
