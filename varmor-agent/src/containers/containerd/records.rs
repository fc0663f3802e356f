//! The records that containerd has of containers: all of them when nobody knows better, one where it has a name.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use containerd_client::tonic::transport::Channel;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::super::Container;
use super::super::oci::{Object, Role};
use super::{Listing, WatchError, all_objects, namespaces, one_object};

/// Records by id.
pub type Records = BTreeMap<String, Arc<Recorded>>;

/// What was read about an id; namespaces of containerd may use it each.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub records: Vec<Record>,
    /// When reading it was begun: what it lacks did not exist then.
    pub read: Instant,
}

/// A container that may not have a task yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Without a process and a cgroup.
    pub container: Container,
    /// The pause container of a pod.
    pub is_sandbox: bool,
    /// It gets a mount namespace of its own.
    pub has_mounts: bool,
    /// Its pod has no record, so nothing is known of the pod's labels.
    pub lacks_pod: bool,
}

/// Which records are to be read again now.
#[derive(Debug, Default)]
pub struct RecordRequests {
    wanted: Mutex<Wanted>,
    wake: Notify,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    all: bool,
    ids: BTreeSet<String>,
}

impl RecordRequests {
    pub fn all(&self) {
        self.change(|wanted| wanted.all = true);
    }

    pub fn one(&self, id: &str) {
        self.change(|wanted| {
            wanted.ids.insert(id.to_owned());
        });
    }

    fn change(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }

    /// Everything that was asked for since the last time; waits for it.
    pub(super) async fn next(&self) -> Wanted {
        self.wake.notified().await;
        std::mem::take(&mut self.wanted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads what is asked for. Nothing here waits for a container whose creation waits for an answer.
pub(super) async fn keep(
    channel: &Channel,
    listing: &watch::Sender<Listing>,
    asked: &RecordRequests,
) -> Result<Infallible, WatchError> {
    // What an earlier connection has read may have changed since.
    let mut is_known = false;
    loop {
        let wanted = asked.next().await;
        let read = Instant::now();
        if wanted.all || !is_known {
            let records = all(channel, read).await?;
            is_known = true;
            listing.send_modify(|listing| {
                listing.records = Arc::new(records);
                listing.recorded = Some(read);
            });
            continue;
        }
        let mut changes = Vec::new();
        for id in wanted.ids {
            let records = one(channel, &id).await?;
            changes.push((id, records));
        }
        listing.send_modify(|listing| {
            let known = Arc::make_mut(&mut listing.records);
            for (id, records) in changes {
                if records.is_empty() {
                    known.remove(&id);
                } else {
                    known.insert(id, Arc::new(Recorded { records, read }));
                }
            }
        });
    }
}

async fn all(channel: &Channel, read: Instant) -> Result<Records, WatchError> {
    let mut found: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for namespace in namespaces(channel).await? {
        let objects = all_objects(channel, &namespace).await?;
        for (id, object) in &objects {
            let sandbox = object.sandbox_id().and_then(|id| objects.get(id));
            found
                .entry(id.clone())
                .or_default()
                .push(record(object, &namespace, sandbox));
        }
    }
    let recorded = |(id, records)| (id, Arc::new(Recorded { records, read }));
    Ok(found.into_iter().map(recorded).collect())
}

async fn one(channel: &Channel, id: &str) -> Result<Vec<Record>, WatchError> {
    let mut records = Vec::new();
    for namespace in namespaces(channel).await? {
        let Some(object) = one_object(channel, &namespace, id).await? else {
            continue;
        };
        let sandbox = match object.sandbox_id().filter(|sandbox| *sandbox != id) {
            Some(sandbox) => one_object(channel, &namespace, sandbox).await?,
            None => None,
        };
        records.push(record(&object, &namespace, sandbox.as_ref()));
    }
    Ok(records)
}

fn record(object: &Object, namespace: &str, sandbox: Option<&Object>) -> Record {
    Record {
        container: object.container(namespace, 0, false, sandbox),
        is_sandbox: object.role() == Role::Sandbox,
        has_mounts: object.has_mounts,
        lacks_pod: object.role() == Role::PodContainer && sandbox.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn requests_that_come_together_are_answered_together_and_none_is_lost() {
        let requests = RecordRequests::default();
        requests.one("a");
        requests.one("b");
        requests.one("a");
        let wanted = requests.next().await;
        assert_eq!(wanted.ids.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(!wanted.all);
        requests.all();
        assert!(requests.next().await.all);
        requests.one("c");
        assert_eq!(
            requests.next().await.ids.len(),
            1,
            "and what was answered is not asked again"
        );
    }
}
