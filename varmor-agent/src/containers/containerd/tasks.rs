//! The tasks of containerd, and the containers behind them: listed now and then, and followed by events in between.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use containerd_client::events::{
    ContainerCreate, ContainerDelete, ContainerUpdate, TaskCreate, TaskDelete, TaskExit, TaskStart,
};
use containerd_client::services::v1::events_client::EventsClient;
use containerd_client::services::v1::tasks_client::TasksClient;
use containerd_client::services::v1::{GetRequest, ListTasksRequest, SubscribeRequest};
use containerd_client::tonic::transport::Channel;
use containerd_client::tonic::{Code, Status, Streaming};
use containerd_client::types::Envelope;
use containerd_client::types::v1::{Process, Status as TaskStatus};
use futures_util::FutureExt as _;
use prost::Message;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tracing::debug;

use super::super::Container;
use super::super::cgroup::Hierarchy;
use super::super::nest::nests;
use super::live::{Namespace, Place, Task};
use super::{
    Listing, MAX_MESSAGE, Requests, WatchError, all_objects, call, in_namespace, namespaces, one_object,
    within,
};
use crate::enforcer::CgroupId;
use crate::text::{MAX_NAME, clean};

/// Listing tasks again without any event, in case one was lost. containerd asks every shim for it.
const RELIST: Duration = Duration::from_mins(1);
/// Reading all records again: they hold whole OCI specs.
const REREAD: Duration = Duration::from_mins(5);
/// So many new records are asked for one by one.
const FEW: usize = 8;
/// Events of one container start come in a burst; one answer serves them all.
const SETTLE: Duration = Duration::from_millis(10);
/// containerd waits two seconds for each shim that is in the middle of a container's creation, one after the other.
const TASKS_TIMEOUT: Duration = Duration::from_mins(5);
const TOPICS: [&str; 7] = [
    "/tasks/create",
    "/tasks/start",
    "/tasks/exit",
    "/tasks/delete",
    "/containers/create",
    "/containers/update",
    "/containers/delete",
];

/// What events have told.
#[derive(Debug, Default)]
struct Told {
    /// Tasks that are not what they were, by namespace and id.
    tasks: BTreeSet<(String, String)>,
    /// Containers whose records changed while they may have a task.
    updated: BTreeSet<(String, String)>,
    /// Ids of records that came, changed or went.
    records: BTreeSet<String>,
    /// One could not be read, so that everything is asked for.
    everything: bool,
}

impl Told {
    fn is_about_tasks(&self) -> bool {
        !self.tasks.is_empty() || !self.updated.is_empty()
    }

    fn take(&mut self, envelope: &Envelope) {
        debug!(topic = %clean(&envelope.topic, MAX_NAME), "containerd event");
        let bytes = envelope.event.as_ref().map_or(&[][..], |event| &event.value);
        let of = |id: String| (envelope.namespace.clone(), id);
        let taken = match envelope.topic.as_str() {
            "/tasks/create" => TaskCreate::decode(bytes).map(|event| {
                self.tasks.insert(of(event.container_id));
            }),
            "/tasks/start" => TaskStart::decode(bytes).map(|event| {
                self.tasks.insert(of(event.container_id));
            }),
            "/tasks/exit" => {
                TaskExit::decode(bytes).map(|event| self.ended(&event.id, of(event.container_id)))
            }
            "/tasks/delete" => {
                TaskDelete::decode(bytes).map(|event| self.ended(&event.id, of(event.container_id)))
            }
            "/containers/create" => ContainerCreate::decode(bytes).map(|event| {
                self.records.insert(event.id);
            }),
            "/containers/update" => ContainerUpdate::decode(bytes).map(|event| {
                self.updated.insert(of(event.id.clone()));
                self.records.insert(event.id);
            }),
            "/containers/delete" => ContainerDelete::decode(bytes).map(|event| {
                self.records.insert(event.id);
            }),
            _ => Ok(()),
        };
        if let Err(error) = taken {
            debug!(topic = %clean(&envelope.topic, MAX_NAME), %error, "event cannot be read, everything is listed");
            self.everything = true;
        }
    }

    /// A process of a task has ended; one that was executed in it changes nothing.
    fn ended(&mut self, process: &str, task: (String, String)) {
        if process.is_empty() || process == task.1 {
            self.tasks.insert(task);
        }
    }
}

/// Ordered by namespace and id, and the cgroups below which more may appear.
type Containers = (Vec<Arc<Container>>, BTreeSet<CgroupId>);

/// Keeps the list of containers up to date. An event names the task that has changed, and only that one is asked for: every
/// other question goes to a process of its own, the shim.
pub(super) async fn keep(
    channel: &Channel,
    listing: &watch::Sender<Listing>,
    requests: &Requests,
) -> Result<Infallible, WatchError> {
    let mut lister = Lister {
        channel: channel.clone(),
        hierarchy: Hierarchy::find()?,
        namespaces: BTreeMap::new(),
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
        let mut told = Told::default();
        tokio::select! {
            answer = &mut subscription, if events.is_none() => {
                events = Some(answer.map_err(|source| call("subscribe", source))?.into_inner());
                // What happened before it is in no event.
                told.everything = true;
            }
            event = next(&mut events), if events.is_some() => {
                let envelope = event.map_err(|source| call("events", source))?.ok_or(WatchError::Closed)?;
                told.take(&envelope);
                sleep(SETTLE).await;
                while let Some(more) = next(&mut events).now_or_never() {
                    let more = more.map_err(|source| call("events", source))?.ok_or(WatchError::Closed)?;
                    told.take(&more);
                }
            }
            () = requests.tasks.notified() => is_asked = true,
            _ = relist.tick() => told.everything = true,
        }
        for id in &told.records {
            requests.records.one(id);
        }
        let mut taken = None;
        let (containers, nests) = if is_asked || told.everything {
            taken = Some(Instant::now());
            lister.list().await?
        } else if told.is_about_tasks() {
            lister.update(&told).await?
        } else {
            continue;
        };
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
                listing.taken = taken.or(listing.taken);
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

struct Lister {
    channel: Channel,
    hierarchy: Hierarchy,
    namespaces: BTreeMap<String, Namespace>,
    /// When all records were read.
    read: Option<Instant>,
}

impl Lister {
    /// All containers with a live task, in all namespaces, and the cgroups below which more may appear.
    async fn list(&mut self) -> Result<Containers, WatchError> {
        let names = namespaces(&self.channel).await?;
        for name in &names {
            let live = self.live_tasks(name).await?;
            self.namespaces.entry(name.clone()).or_default().set_tasks(live);
        }
        self.namespaces.retain(|name, _| names.contains(name));
        self.containers().await
    }

    /// The same, when events have told what changed.
    async fn update(&mut self, told: &Told) -> Result<Containers, WatchError> {
        for (namespace, id) in &told.tasks {
            let task = self.task(namespace, id).await?;
            self.namespaces
                .entry(namespace.clone())
                .or_default()
                .set_task(id, task);
        }
        for (namespace, id) in &told.updated {
            if let Some(namespace) = self.namespaces.get_mut(namespace) {
                namespace.set_unread(id);
            }
        }
        self.containers().await
    }

    /// The containers of the tasks that are known.
    async fn containers(&mut self) -> Result<Containers, WatchError> {
        let is_due = self.read.is_none_or(|read| read.elapsed() >= REREAD);
        let mut containers = Vec::new();
        for (name, namespace) in &mut self.namespaces {
            read(&self.channel, name, namespace, is_due).await?;
            namespace.containers(
                name,
                |container| place(&self.hierarchy, container),
                &mut containers,
            );
        }
        if is_due {
            self.read = Some(Instant::now());
        }
        let nests = nests(
            &self.hierarchy,
            self.namespaces.keys().map(String::as_str),
            self.namespaces.values().flat_map(Namespace::directories),
        );
        Ok((containers, nests))
    }

    /// Asks every shim.
    async fn live_tasks(&self, namespace: &str) -> Result<BTreeMap<String, Task>, WatchError> {
        let mut client = TasksClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE);
        let request = in_namespace(ListTasksRequest::default(), namespace)?;
        let tasks = within(TASKS_TIMEOUT, "list tasks", client.list(request))
            .await?
            .into_inner()
            .tasks;
        let named = |process: Process| {
            let task = live(&process)?;
            let Process { id, container_id, .. } = process;
            Some((if id.is_empty() { container_id } else { id }, task))
        };
        Ok(tasks.into_iter().filter_map(named).collect())
    }

    /// Asks one shim; nothing if the task is not live.
    async fn task(&self, namespace: &str, id: &str) -> Result<Option<Task>, WatchError> {
        let mut client = TasksClient::new(self.channel.clone());
        let message = GetRequest {
            container_id: id.to_owned(),
            exec_id: String::new(),
        };
        let request = in_namespace(message, namespace)?;
        match within(TASKS_TIMEOUT, "get task", client.get(request)).await {
            Ok(answer) => Ok(answer.into_inner().process.as_ref().and_then(live)),
            Err(WatchError::Call { source, .. }) if source.code() == Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reads the records of the namespace's tasks as far as they are not known, or all records.
async fn read(
    channel: &Channel,
    name: &str,
    namespace: &mut Namespace,
    is_due: bool,
) -> Result<(), WatchError> {
    let unread = namespace.take_unread();
    if is_due || unread.len() > FEW {
        namespace.set_objects(all_objects(channel, name).await?);
        return Ok(());
    }
    for id in unread {
        // Nothing if it was removed since its task was listed.
        let object = one_object(channel, name, &id).await?;
        namespace.set_object(&id, object);
    }
    for id in namespace.missing_pods() {
        let object = one_object(channel, name, &id).await?;
        namespace.set_object(&id, object);
    }
    Ok(())
}

fn place(hierarchy: &Hierarchy, container: &Container) -> Option<Place> {
    hierarchy
        .of_container(container.pid, &container.id, &container.runtime_namespace)
        .inspect_err(|error| {
            // Also the ordinary end of a short container; the reconciler says it when a policy needs it.
            debug!(container = %container.display_name(), pid = container.pid, %error, "no cgroup");
        })
        .ok()
}

/// The task behind a process that containerd tells of, if it is live.
fn live(process: &Process) -> Option<Task> {
    let is_live = matches!(
        process.status(),
        TaskStatus::Created | TaskStatus::Running | TaskStatus::Paused | TaskStatus::Pausing
    );
    (is_live && process.pid != 0).then(|| Task {
        pid: process.pid,
        started: process.status() != TaskStatus::Created,
    })
}

#[cfg(test)]
mod tests {
    use prost_types::Any;

    use super::*;

    fn envelope(topic: &str, event: &impl Message) -> Envelope {
        Envelope {
            namespace: "k8s.io".to_owned(),
            topic: topic.to_owned(),
            event: Some(Any {
                type_url: String::new(),
                value: event.encode_to_vec(),
            }),
            ..Envelope::default()
        }
    }

    #[test]
    fn only_tasks_with_a_process_count() {
        let live = |status: TaskStatus, pid| {
            let mut process = Process {
                pid,
                ..Process::default()
            };
            process.set_status(status);
            super::live(&process)
        };
        assert_eq!(
            live(TaskStatus::Created, 7),
            Some(Task {
                pid: 7,
                started: false
            })
        );
        assert_eq!(
            live(TaskStatus::Paused, 7),
            Some(Task {
                pid: 7,
                started: true
            })
        );
        assert_eq!(live(TaskStatus::Running, 0), None);
        assert_eq!(live(TaskStatus::Stopped, 7), None);
        assert_eq!(live(TaskStatus::Unknown, 7), None);
    }

    #[test]
    fn an_event_names_its_task_and_its_record() {
        let mut told = Told::default();
        let exit = |id: &str| TaskExit {
            container_id: "c".to_owned(),
            id: id.to_owned(),
            ..TaskExit::default()
        };
        told.take(&envelope("/tasks/exit", &exit("probe")));
        assert!(!told.is_about_tasks(), "what was executed in it has ended");
        told.take(&envelope("/tasks/exit", &exit("c")));
        assert_eq!(told.tasks, [("k8s.io".to_owned(), "c".to_owned())].into());
        let created = ContainerCreate {
            id: "new".to_owned(),
            ..ContainerCreate::default()
        };
        told.take(&envelope("/containers/create", &created));
        assert_eq!(told.records, ["new".to_owned()].into());
        assert!(!told.everything);
    }

    #[test]
    fn an_event_that_cannot_be_read_asks_for_everything() {
        let mut told = Told::default();
        let mut broken = envelope("/tasks/start", &TaskStart::default());
        broken.event.as_mut().unwrap().value = vec![0xff; 3];
        told.take(&broken);
        assert!(told.everything);
    }
}
