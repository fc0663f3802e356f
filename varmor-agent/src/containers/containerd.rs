//! containerd over its gRPC socket: who runs, now and whenever something changes.
//!
//! Level-triggered: an event only says that it is time to list again, so a lost or reordered event costs time
//! and nothing else. containerd that is absent or restarts is waited for; what is protected stays protected.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::events_client::EventsClient;
use containerd_client::services::v1::namespaces_client::NamespacesClient;
use containerd_client::services::v1::tasks_client::TasksClient;
use containerd_client::services::v1::{
    Container as ContainerRecord, GetContainerRequest, ListContainersRequest, ListNamespacesRequest,
    ListTasksRequest, SubscribeRequest,
};
use containerd_client::tonic::metadata::MetadataValue;
use containerd_client::tonic::transport::Channel;
use containerd_client::tonic::{Code, Request, Status, Streaming};
use containerd_client::types::Envelope;
use containerd_client::types::v1::Status as TaskStatus;
use futures_util::FutureExt as _;
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, info, warn};

use super::cgroup::Hierarchy;
use super::nest::nests;
use super::oci::{NERDCTL_NAME_LABEL, Object, Role, SANDBOX_METADATA};
use super::{Container, docker};
use crate::enforcer::CgroupId;
use crate::text::{MAX_NAME, clean};

/// What is known about the containers of this machine.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The last complete list; `None` until the first one succeeded.
    pub containers: Option<Arc<Vec<Container>>>,
    /// When the list was begun: what it lacks did not exist then.
    pub taken: Option<Instant>,
    /// What containerd has a record of, by id; also what has no task yet.
    pub records: Arc<Records>,
    /// When these were read, which is quicker than the list of tasks: no shim is asked for them.
    pub recorded: Option<Instant>,
    /// Cgroups below which containers appear.
    pub nests: BTreeSet<CgroupId>,
    /// Why there is no connection now.
    pub problem: Option<String>,
}

/// Records by id; namespaces of containerd may use an id each.
pub type Records = BTreeMap<String, Vec<Record>>;

/// A container that may not have a task yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Without a process and a cgroup.
    pub container: Container,
    /// The pause container of a pod.
    pub is_sandbox: bool,
    /// It gets a mount namespace of its own.
    pub has_mounts: bool,
}

/// Asks for what is known to be read again now.
#[derive(Debug, Default)]
pub struct Requests {
    pub records: Notify,
    pub tasks: Notify,
}

/// Listing tasks again without any event, in case one was lost. containerd asks every shim for it.
const RELIST: Duration = Duration::from_secs(30);
/// Reading all records again: they hold whole OCI specs.
const REREAD: Duration = Duration::from_mins(5);
/// So many new records are asked for one by one.
const FEW: usize = 8;
/// The event that says that a record changed.
const UPDATE: &str = "/containers/update";
/// Events of one container start come in a burst; one list answers them all.
const SETTLE: Duration = Duration::from_millis(10);
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// containerd waits two seconds for each shim that is in the middle of a container's creation, one after the other.
const TASKS_TIMEOUT: Duration = Duration::from_mins(5);
const FIRST_BACK_OFF: Duration = Duration::from_millis(250);
const LAST_BACK_OFF: Duration = Duration::from_secs(10);
/// Hundreds of containers with large specs fit.
const MAX_MESSAGE: usize = 64 << 20;
const TOPICS: [&str; 6] = [
    "/tasks/create",
    "/tasks/start",
    "/tasks/exit",
    "/tasks/delete",
    "/containers/create",
    UPDATE,
];

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
        end = keep_records(&channel, listing, &requests.records) => end,
        end = keep_tasks(&channel, listing, &requests.tasks) => end,
    }
}

/// Reads the records whenever that is asked for. Nothing here waits for a container whose creation waits for an answer.
async fn keep_records(
    channel: &Channel,
    listing: &watch::Sender<Listing>,
    asked: &Notify,
) -> Result<std::convert::Infallible, WatchError> {
    loop {
        asked.notified().await;
        let recorded = Instant::now();
        let mut records = Records::new();
        for namespace in namespaces(channel).await? {
            let objects = all_objects(channel, &namespace).await?;
            for (id, object) in &objects {
                let sandbox = object.sandbox_id().and_then(|id| objects.get(id));
                records.entry(id.clone()).or_default().push(Record {
                    container: object.container(&namespace, 0, false, sandbox),
                    is_sandbox: object.role() == Role::Sandbox,
                    has_mounts: object.has_mounts,
                });
            }
        }
        listing.send_modify(|listing| {
            listing.records = Arc::new(records);
            listing.recorded = Some(recorded);
        });
    }
}

async fn keep_tasks(
    channel: &Channel,
    listing: &watch::Sender<Listing>,
    asked: &Notify,
) -> Result<std::convert::Infallible, WatchError> {
    let mut lister = Lister {
        channel: channel.clone(),
        hierarchy: Hierarchy::find()?,
        cgroups: BTreeMap::new(),
        objects: BTreeMap::new(),
        settled: BTreeSet::new(),
        read: None,
    };
    let filters = TOPICS.iter().map(|topic| format!("topic==\"{topic}\"")).collect();
    let mut client = EventsClient::new(channel.clone());
    // containerd answers a subscription when the first event comes: it is waited for beside the lists, without
    // a limit.
    let mut subscription = std::pin::pin!(client.subscribe(SubscribeRequest { filters }));
    let mut events = None;
    let mut relist = interval(RELIST);
    relist.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut is_asked = false;
        let mut is_updated = false;
        tokio::select! {
            answer = &mut subscription, if events.is_none() => {
                events = Some(answer.map_err(|source| call("subscribe", source))?.into_inner());
            }
            event = next(&mut events), if events.is_some() => {
                let envelope = event.map_err(|source| call("events", source))?.ok_or(WatchError::Closed)?;
                debug!(topic = %clean(&envelope.topic, MAX_NAME), "containerd event");
                is_updated |= envelope.topic == UPDATE;
                sleep(SETTLE).await;
                while let Some(more) = next(&mut events).now_or_never() {
                    let more = more.map_err(|source| call("events", source))?.ok_or(WatchError::Closed)?;
                    is_updated |= more.topic == UPDATE;
                }
            }
            () = asked.notified() => is_asked = true,
            _ = relist.tick() => {}
        }
        let taken = Instant::now();
        if is_updated {
            lister.read = None;
        }
        let (containers, nests) = lister.list().await?;
        listing.send_if_modified(|listing| {
            let same = !is_asked
                && listing.problem.is_none()
                && listing.nests == nests
                && listing
                    .containers
                    .as_deref()
                    .is_some_and(|known| *known == containers);
            if !same {
                listing.containers = Some(Arc::new(containers));
                listing.nests = nests;
                listing.taken = Some(taken);
                listing.problem = None;
            }
            !same
        });
    }
}

/// The next event; waits for ever without a stream.
async fn next(events: &mut Option<Streaming<Envelope>>) -> Result<Option<Envelope>, Status> {
    match events {
        Some(events) => events.message().await,
        None => std::future::pending().await,
    }
}

/// Id, process, and whether the entry point was started.
type Task = (String, u32, bool);

struct Lister {
    channel: Channel,
    hierarchy: Hierarchy,
    /// By namespace, id and pid, which together name one task: its container cannot change its cgroup.
    cgroups: BTreeMap<(String, String, u32), (CgroupId, PathBuf)>,
    /// Records by namespace and id. Those that have a task are always there.
    objects: BTreeMap<String, BTreeMap<String, Object>>,
    /// Tasks whose records were read when they were there already: an id can be used again by a new record.
    settled: BTreeSet<(String, String, u32)>,
    /// When all records were read.
    read: Option<Instant>,
}

impl Lister {
    /// All containers with a live task, in all namespaces, and the cgroups below which more may appear.
    async fn list(&mut self) -> Result<(Vec<Container>, BTreeSet<CgroupId>), WatchError> {
        let namespaces = namespaces(&self.channel).await?;
        let mut containers = Vec::new();
        let is_due = self.read.is_none_or(|read| read.elapsed() >= REREAD);
        for namespace in &namespaces {
            self.list_namespace(namespace, is_due, &mut containers).await?;
        }
        if is_due {
            self.objects.retain(|name, _| namespaces.contains(name));
            self.read = Some(Instant::now());
        }
        let live: BTreeSet<_> = containers.iter().map(key).collect();
        self.cgroups.retain(|key, _| live.contains(key));
        containers.sort_by(|a, b| (&a.runtime_namespace, &a.id).cmp(&(&b.runtime_namespace, &b.id)));
        let nests = nests(
            &self.hierarchy,
            namespaces.iter().map(String::as_str),
            self.cgroups.values().map(|(_, directory)| directory.as_path()),
        );
        Ok((containers, nests))
    }

    async fn list_namespace(
        &mut self,
        namespace: &str,
        is_due: bool,
        found: &mut Vec<Container>,
    ) -> Result<(), WatchError> {
        let mut tasks = TasksClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE);
        let request = in_namespace(ListTasksRequest::default(), namespace)?;
        let tasks = within(TASKS_TIMEOUT, "list tasks", tasks.list(request))
            .await?
            .into_inner()
            .tasks;
        let tasks: Vec<Task> = tasks
            .into_iter()
            .filter(|task| is_live(task.status()) && task.pid != 0)
            .map(|task| {
                let started = task.status() != TaskStatus::Created;
                (
                    if task.id.is_empty() {
                        task.container_id
                    } else {
                        task.id
                    },
                    task.pid,
                    started,
                )
            })
            .collect();
        self.read(namespace, is_due, &tasks).await?;
        let objects = self.objects.remove(namespace).unwrap_or_default();
        for (id, pid, started) in tasks {
            // A task without container object is in the middle of its removal.
            let Some(object) = objects.get(&id) else { continue };
            if object.role() == Role::Sandbox {
                continue;
            }
            let sandbox = object.sandbox_id().and_then(|id| objects.get(id));
            let mut container = object.container(namespace, pid, started, sandbox);
            container.cgroup = self.cgroup(&container);
            found.push(container);
        }
        self.objects.insert(namespace.to_owned(), objects);
        Ok(())
    }

    /// Reads the records of these tasks as far as they are not known, or all records.
    async fn read(&mut self, namespace: &str, is_due: bool, tasks: &[Task]) -> Result<(), WatchError> {
        let known = self.objects.entry(namespace.to_owned()).or_default();
        let key = |(id, pid, _): &Task| (namespace.to_owned(), id.clone(), *pid);
        let live: BTreeSet<_> = tasks.iter().map(key).collect();
        let new: Vec<String> = live
            .difference(&self.settled)
            .map(|(_, id, _)| id.clone())
            .collect();
        self.settled.retain(|(of, _, _)| of != namespace);
        self.settled.extend(live);
        if is_due || new.len() > FEW {
            let all = all_objects(&self.channel, namespace).await?;
            self.objects.insert(namespace.to_owned(), all);
            return Ok(());
        }
        let mut client = ContainersClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE);
        for id in new {
            let request = in_namespace(GetContainerRequest { id: id.clone() }, namespace)?;
            match limited("get container", client.get(request)).await {
                Ok(answer) => known.extend(
                    answer
                        .into_inner()
                        .container
                        .map(|record| (id, object(namespace, record))),
                ),
                // It was removed since its task was listed.
                Err(WatchError::Call { source, .. }) if source.code() == Code::NotFound => {
                    known.remove(&id);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn cgroup(&mut self, container: &Container) -> Option<CgroupId> {
        let key = key(container);
        if let Some((cgroup, _)) = self.cgroups.get(&key) {
            return Some(*cgroup);
        }
        match self
            .hierarchy
            .of_container(container.pid, &container.id, &container.runtime_namespace)
        {
            Ok((cgroup, directory)) => {
                self.cgroups.insert(key, (cgroup, directory));
                Some(cgroup)
            }
            Err(error) => {
                // Also the ordinary end of a short container; the reconciler says it when a policy needs it.
                debug!(container = %container.display_name(), pid = container.pid, %error, "no cgroup");
                None
            }
        }
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

fn key(container: &Container) -> (String, String, u32) {
    (
        container.runtime_namespace.clone(),
        container.id.clone(),
        container.pid,
    )
}

fn is_live(status: TaskStatus) -> bool {
    matches!(
        status,
        TaskStatus::Created | TaskStatus::Running | TaskStatus::Paused | TaskStatus::Pausing
    )
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

    #[test]
    fn only_tasks_with_a_process_count() {
        assert!(is_live(TaskStatus::Created));
        assert!(is_live(TaskStatus::Paused));
        assert!(!is_live(TaskStatus::Stopped));
        assert!(!is_live(TaskStatus::Unknown));
    }
}
