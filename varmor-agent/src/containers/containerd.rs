//! containerd over its gRPC socket: who runs, now and whenever something changes.
//!
//! Level-triggered: an event only says which task or record to ask for again, and all are listed now and then, so a lost or
//! reordered event costs time and nothing else. containerd that is absent or restarts is waited for; what is protected stays
//! protected.

mod live;
mod records;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::namespaces_client::NamespacesClient;
use containerd_client::services::v1::{
    Container as ContainerRecord, GetContainerRequest, ListContainersRequest, ListNamespacesRequest,
};
use containerd_client::tonic::metadata::MetadataValue;
use containerd_client::tonic::transport::Channel;
use containerd_client::tonic::{Code, Request, Status};
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use self::records::RecordRequests;
pub use self::records::{Record, Recorded, Records};
use super::oci::{NERDCTL_NAME_LABEL, Object, SANDBOX_METADATA};
use super::{Container, docker};
use crate::enforcer::CgroupId;
use crate::text::{MAX_NAME, clean};

/// What is known about the containers of this machine.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The last complete list; `None` until the first one succeeded.
    pub containers: Option<Arc<Vec<Arc<Container>>>>,
    /// When the list was begun: what it lacks did not exist then.
    pub taken: Option<Instant>,
    /// What containerd has a record of, by id; also what has no task yet.
    pub records: Arc<Records>,
    /// When all of these were read, which is quicker than the list of tasks: no shim is asked for them.
    pub recorded: Option<Instant>,
    /// Cgroups below which containers appear.
    pub nests: BTreeSet<CgroupId>,
    /// Why there is no connection now.
    pub problem: Option<String>,
}

impl Listing {
    /// Only records have come, which matter at the start gate.
    #[must_use]
    pub fn has_same_containers(&self, other: &Self) -> bool {
        let is_same_list = match (&self.containers, &other.containers) {
            (Some(own), Some(others)) => Arc::ptr_eq(own, others),
            (None, None) => true,
            _ => false,
        };
        is_same_list
            && self.nests == other.nests
            && self.problem == other.problem
            && self.taken == other.taken
    }
}

/// Asks for what is known to be read again now.
#[derive(Debug, Default)]
pub struct Requests {
    pub records: RecordRequests,
    pub tasks: Notify,
}

const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_BACK_OFF: Duration = Duration::from_millis(250);
const LAST_BACK_OFF: Duration = Duration::from_secs(10);
/// Hundreds of containers with large specs fit.
const MAX_MESSAGE: usize = 64 << 20;
#[derive(Debug, Error)]
enum WatchError {
    #[error("connect to containerd")]
    Connect(#[from] containerd_client::tonic::transport::Error),
    #[error("containerd: {call}")]
    Call { call: &'static str, source: Box<Status> },
    #[error("containerd: {0}: no answer in time")]
    Timeout(&'static str),
    #[error("containerd closed the stream of events")]
    Closed,
    #[error("containerd namespace `{0}` is not a legal header value")]
    Namespace(String),
    #[error(transparent)]
    Cgroup(#[from] super::cgroup::CgroupError),
}

/// Keeps `listing` up to date for ever.
pub async fn watch(socket: PathBuf, listing: watch::Sender<Listing>, requests: Arc<Requests>) {
    let mut back_off = FIRST_BACK_OFF;
    let mut reported = String::new();
    loop {
        let started = Instant::now();
        let Err(error) = session(&socket, &listing, &requests).await;
        if started.elapsed() > LAST_BACK_OFF {
            back_off = FIRST_BACK_OFF;
        }
        let problem = describe(&error);
        if problem != reported {
            warn!(socket = %socket.display(), %problem, "containerd is not reachable; containers that run stay as they are, retrying");
            reported.clone_from(&problem);
        }
        listing.send_modify(|listing| listing.problem = Some(problem));
        sleep(back_off).await;
        back_off = (back_off * 2).min(LAST_BACK_OFF);
    }
}

/// One connection: ends with the first error.
async fn session(
    socket: &Path,
    listing: &watch::Sender<Listing>,
    requests: &Requests,
) -> Result<std::convert::Infallible, WatchError> {
    let channel = limited("connect", async { Ok(containerd_client::connect(socket).await) }).await??;
    info!(socket = %socket.display(), "connected to containerd");
    tokio::select! {
        end = records::keep(&channel, listing, &requests.records) => end,
        end = tasks::keep(&channel, listing, requests) => end,
    }
}

async fn namespaces(channel: &Channel) -> Result<BTreeSet<String>, WatchError> {
    let mut client = NamespacesClient::new(channel.clone());
    let answer = limited("list namespaces", client.list(ListNamespacesRequest::default())).await?;
    let namespaces = answer.into_inner().namespaces.into_iter();
    Ok(namespaces.map(|namespace| namespace.name).collect())
}

async fn all_objects(channel: &Channel, namespace: &str) -> Result<BTreeMap<String, Object>, WatchError> {
    let mut client = ContainersClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE);
    let request = in_namespace(ListContainersRequest::default(), namespace)?;
    let mut stream = limited("list containers", client.list_stream(request))
        .await?
        .into_inner();
    let mut objects = BTreeMap::new();
    while let Some(message) = limited("list containers", stream.message()).await? {
        if let Some(record) = message.container {
            objects.insert(record.id.clone(), object(namespace, record));
        }
    }
    Ok(objects)
}

/// A record by its id, if there is one.
async fn one_object(channel: &Channel, namespace: &str, id: &str) -> Result<Option<Object>, WatchError> {
    let mut client = ContainersClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE);
    let request = in_namespace(GetContainerRequest { id: id.to_owned() }, namespace)?;
    match limited("get container", client.get(request)).await {
        Ok(answer) => {
            let record = answer.into_inner().container;
            Ok(record.map(|record| object(namespace, record)))
        }
        Err(WatchError::Call { source, .. }) if source.code() == Code::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A record, with what its owner keeps elsewhere.
fn object(namespace: &str, record: ContainerRecord) -> Object {
    let spec = record.spec.map(|spec| spec.value).unwrap_or_default();
    let (mut image, mut labels) = (record.image, record.labels);
    if namespace == docker::NAMESPACE {
        match docker::describe(Path::new(docker::ROOT), &record.id) {
            Ok(described) => {
                image = described.image;
                labels.extend(described.labels);
                labels.insert(NERDCTL_NAME_LABEL.to_owned(), described.name);
            }
            Err(error) => {
                debug!(container = %clean(&record.id, MAX_NAME), %error, "Docker's file cannot be read");
            }
        }
    }
    let object = Object::new(&record.id, &image, labels, &spec);
    match record.extensions.get(SANDBOX_METADATA) {
        Some(stored) => object.with_sandbox(&stored.value),
        None => object,
    }
}

fn in_namespace<T>(message: T, namespace: &str) -> Result<Request<T>, WatchError> {
    let value =
        MetadataValue::try_from(namespace).map_err(|_| WatchError::Namespace(clean(namespace, MAX_NAME)))?;
    let mut request = Request::new(message);
    request.metadata_mut().insert("containerd-namespace", value);
    Ok(request)
}

async fn limited<T>(
    name: &'static str,
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, WatchError> {
    within(CALL_TIMEOUT, name, answer).await
}

async fn within<T>(
    limit: Duration,
    name: &'static str,
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, WatchError> {
    timeout(limit, answer)
        .await
        .map_err(|_| WatchError::Timeout(name))?
        .map_err(|status| call(name, status))
}

fn call(call: &'static str, status: Status) -> WatchError {
    WatchError::Call {
        call,
        source: Box::new(status),
    }
}

/// The error with its sources on one line.
fn describe(error: &WatchError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    clean(&text, 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn absent_containerd_is_reported_and_never_an_empty_list() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, mut receiver) = watch::channel(Listing::default());
        let task = tokio::spawn(watch(
            folder.path().join("containerd.sock"),
            sender,
            Arc::default(),
        ));
        timeout(Duration::from_secs(5), receiver.changed())
            .await
            .unwrap()
            .unwrap();
        let listing = receiver.borrow().clone();
        task.abort();
        assert!(listing.problem.unwrap().contains("containerd"));
        assert!(listing.containers.is_none());
    }
}
