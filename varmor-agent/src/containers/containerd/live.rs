//! The containers of live tasks, made of what containerd has told, and kept as long as nothing of it changes: an event is
//! about one container, and a node may have a thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::Container;
use super::super::oci::{Object, Role};
use crate::enforcer::CgroupId;

/// The first process of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) pid: u32,
    /// The entry point was started.
    pub(super) started: bool,
}

/// A cgroup and its directory.
pub(super) type Place = (CgroupId, PathBuf);

/// A namespace of containerd.
#[derive(Debug, Default)]
pub(super) struct Namespace {
    /// Live ones by id.
    tasks: BTreeMap<String, Task>,
    /// Records by id. Those that have a task are always there.
    objects: BTreeMap<String, Object>,
    /// Pids of the tasks whose records were read when they were there already: an id can be used again by a new record.
    settled: BTreeMap<String, u32>,
    made: BTreeMap<String, Made>,
}

#[derive(Debug)]
struct Made {
    container: Arc<Container>,
    /// What it was made of.
    task: Task,
    /// A process cannot take its container to another cgroup.
    place: Option<Place>,
    /// Neither record that it was made of was read since.
    is_current: bool,
}

impl Namespace {
    pub(super) fn set_tasks(&mut self, tasks: BTreeMap<String, Task>) {
        self.tasks = tasks;
    }

    pub(super) fn set_task(&mut self, id: &str, task: Option<Task>) {
        match task {
            Some(task) => self.tasks.insert(id.to_owned(), task),
            None => self.tasks.remove(id),
        };
    }

    /// The tasks whose records have to be read; they count as read from now on.
    pub(super) fn take_unread(&mut self) -> Vec<String> {
        let tasks = &self.tasks;
        self.settled
            .retain(|id, pid| tasks.get(id).is_some_and(|task| task.pid == *pid));
        let unread: Vec<String> = tasks
            .keys()
            .filter(|id| !self.settled.contains_key(*id))
            .cloned()
            .collect();
        self.settled
            .extend(unread.iter().map(|id| (id.clone(), self.tasks[id].pid)));
        unread
    }

    /// The pods of the tasks whose records are missing: a list of tasks can lack the pod of one that is in it.
    pub(super) fn missing_pods(&self) -> BTreeSet<String> {
        let of_tasks = self.tasks.keys().filter_map(|id| self.objects.get(id));
        of_tasks
            .filter_map(Object::sandbox_id)
            .filter(|pod| !self.objects.contains_key(*pod))
            .map(str::to_owned)
            .collect()
    }

    /// The record has changed.
    pub(super) fn set_unread(&mut self, id: &str) {
        self.settled.remove(id);
    }

    /// All records.
    pub(super) fn set_objects(&mut self, objects: BTreeMap<String, Object>) {
        self.objects = objects;
        for made in self.made.values_mut() {
            made.is_current = false;
        }
    }

    /// One record; `None` if it is gone.
    pub(super) fn set_object(&mut self, id: &str, object: Option<Object>) {
        let is_sandbox = |object: &Object| object.role() == Role::Sandbox;
        let before = self.objects.remove(id);
        let shares = before.iter().chain(&object).any(is_sandbox);
        for (of, made) in &mut self.made {
            let object = self.objects.get(of);
            if of == id || shares && object.and_then(Object::sandbox_id) == Some(id) {
                made.is_current = false;
            }
        }
        if let Some(object) = object {
            self.objects.insert(id.to_owned(), object);
        }
    }

    /// The containers of the tasks, by id; `find` looks for the cgroup of a new one.
    pub(super) fn containers(
        &mut self,
        name: &str,
        find: impl Fn(&Container) -> Option<Place>,
        found: &mut Vec<Arc<Container>>,
    ) {
        let tasks = &self.tasks;
        self.made.retain(|id, _| tasks.contains_key(id));
        for (id, task) in tasks {
            if let Some(made) = self.made.get(id)
                && made.is_current
                && made.task == *task
            {
                found.push(Arc::clone(&made.container));
                continue;
            }
            let before = self.made.remove(id);
            // A task without container object is in the middle of its removal.
            let Some(object) = self.objects.get(id) else {
                continue;
            };
            if object.role() == Role::Sandbox {
                continue;
            }
            let sandbox = object.sandbox_id().and_then(|id| self.objects.get(id));
            let mut container = object.container(name, task.pid, task.started, sandbox);
            let known = before.as_ref().filter(|made| made.task.pid == task.pid);
            let place = known
                .and_then(|made| made.place.clone())
                .or_else(|| find(&container));
            container.cgroup = place.as_ref().map(|(cgroup, _)| *cgroup);
            let container = match before {
                Some(made) if *made.container == container => made.container,
                _ => Arc::new(container),
            };
            found.push(Arc::clone(&container));
            let made = Made {
                container,
                task: *task,
                // It may be found the next time.
                is_current: place.is_some(),
                place,
            };
            self.made.insert(id.clone(), made);
        }
    }

    /// Of the cgroups of all containers.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        let places = self.made.values().filter_map(|made| made.place.as_ref());
        places.map(|(_, directory)| directory.as_path())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const RUNS: Task = Task {
        pid: 7,
        started: true,
    };

    fn object(kind: &str, image: &str) -> Object {
        let spec = format!(
            r#"{{"annotations":{{"io.kubernetes.cri.container-type":"{kind}","io.kubernetes.cri.sandbox-id":"s",
                "io.kubernetes.cri.container-name":"main","io.kubernetes.cri.sandbox-name":"web",
                "io.kubernetes.cri.sandbox-namespace":"demo"}}}}"#
        );
        let labels = [("app".to_owned(), image.to_owned())];
        Object::new("c", image, labels, spec.as_bytes())
    }

    /// Two containers of one pod, and what is there without their records having been read again.
    fn pod() -> Namespace {
        let mut namespace = Namespace::default();
        namespace.set_tasks(["a", "b", "s"].map(|id| (id.to_owned(), RUNS)).into());
        assert_eq!(namespace.take_unread(), ["a", "b", "s"]);
        let records = [
            ("a", object("container", "a")),
            ("b", object("container", "b")),
            ("s", object("sandbox", "s")),
        ];
        namespace.set_objects(records.map(|(id, object)| (id.to_owned(), object)).into());
        namespace
    }

    fn containers(namespace: &mut Namespace) -> Vec<Arc<Container>> {
        let mut found = Vec::new();
        let place = |_: &Container| Some((CgroupId(9), PathBuf::from("/sys/fs/cgroup/x/y")));
        namespace.containers("k8s.io", place, &mut found);
        found
    }

    fn is_same(a: &[Arc<Container>], b: &[Arc<Container>]) -> Vec<bool> {
        a.iter().zip(b).map(|(a, b)| Arc::ptr_eq(a, b)).collect()
    }

    #[test]
    fn what_does_not_change_is_made_once() {
        let mut namespace = pod();
        let first = containers(&mut namespace);
        assert_eq!(first.len(), 2, "a sandbox runs nothing of the user");
        assert_eq!(is_same(&containers(&mut namespace), &first), [true, true]);
        assert_eq!(namespace.take_unread(), [""; 0]);

        namespace.set_object("a", Some(object("container", "a")));
        assert_eq!(
            is_same(&containers(&mut namespace), &first),
            [true, true],
            "equal"
        );
        namespace.set_object("a", Some(object("container", "new")));
        let second = containers(&mut namespace);
        assert_eq!(is_same(&second, &first), [false, true]);
        assert_eq!(second[0].image, "new");
    }

    #[test]
    fn containers_follow_the_record_of_their_sandbox() {
        let mut namespace = pod();
        let first = containers(&mut namespace);
        namespace.set_object("s", Some(object("sandbox", "new")));
        let second = containers(&mut namespace);
        assert_eq!(is_same(&second, &first), [false, false]);
        assert_eq!(second[1].pod.as_ref().unwrap().labels["app"], "new");
    }

    #[test]
    fn another_task_under_the_same_id_is_another_container() {
        let mut namespace = pod();
        containers(&mut namespace);
        let again = Task {
            pid: 8,
            started: false,
        };
        namespace.set_task("a", Some(again));
        assert_eq!(namespace.take_unread(), ["a"]);
        let found = containers(&mut namespace);
        assert_eq!((found[0].pid, found[0].started), (8, false));
        let started = Task {
            pid: 8,
            started: true,
        };
        namespace.set_task("a", Some(started));
        assert_eq!(namespace.take_unread(), [""; 0]);
        assert!(containers(&mut namespace)[0].started);
        namespace.set_task("a", None);
        assert_eq!(containers(&mut namespace).len(), 1);
        assert_eq!(namespace.directories().count(), 1);
    }

    #[test]
    fn the_pod_of_a_task_is_asked_for_where_no_task_brings_it() {
        let mut namespace = Namespace::default();
        namespace.set_tasks([("a".to_owned(), RUNS)].into());
        assert_eq!(namespace.take_unread(), ["a"]);
        namespace.set_object("a", Some(object("container", "a")));
        assert_eq!(namespace.missing_pods(), ["s".to_owned()].into());
        namespace.set_object("s", Some(object("sandbox", "s")));
        assert_eq!(namespace.missing_pods(), BTreeSet::new());
        let found = containers(&mut namespace);
        assert_eq!(found[0].pod.as_ref().unwrap().labels["app"], "s");
    }

    #[test]
    fn a_cgroup_is_looked_for_until_it_is_found() {
        let mut namespace = pod();
        let asked = Cell::new(0);
        let mut found = Vec::new();
        for _ in 0..2 {
            let never = |_: &Container| {
                asked.set(asked.get() + 1);
                None
            };
            namespace.containers("k8s.io", never, &mut found);
        }
        assert_eq!(asked.get(), 4);
        assert_eq!(containers(&mut namespace)[0].cgroup, Some(CgroupId(9)));
    }

    #[test]
    fn a_changed_record_is_read_again() {
        let mut namespace = pod();
        namespace.set_unread("b");
        assert_eq!(namespace.take_unread(), ["b"]);
        namespace.set_object("b", None);
        assert_eq!(containers(&mut namespace).len(), 1);
    }
}
