//! Answers to containers that wait at the start gate for being known.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use anyhow::Context as _;
use tokio::sync::mpsc;
use tracing::{debug, error, warn};

use super::{TICK, Worker};
use crate::containers::cgroup::{Hierarchy, names_one_of, own_pod};
use crate::containers::{Container, Record};
use crate::enforcer::{CgroupId, Resident, WithoutAgent};
use crate::events::wake_on;
use crate::reconcile::{is_held, selects};

/// Between two looks for marked cgroups that are gone.
const MARKS: Duration = Duration::from_secs(30);
/// A start that waits longer than this is said to.
const LONG: Duration = Duration::from_secs(10);
/// How long a container waits for a profile that admission has promised it: longer than any news takes to come to this
/// node. A policy that was deleted meanwhile never comes.
const PROMISED: Duration = Duration::from_secs(15);

/// What is known about a start.
enum Answer {
    /// Its container has its policy.
    Bound,
    /// No policy is about it.
    Free,
    /// It is the runtime's own, which makes the container.
    Runtime,
    /// The first program of this container, which a policy is about.
    Arrived(Box<Container>),
    /// Policies or its binding are missing; they come by themselves, unless the policy cannot be put in force.
    Wait,
    /// What is known of this container's record is older than the start.
    AskForRecord(String),
    /// What is known of records is older than the start.
    AskForRecords,
    /// And what is known of tasks.
    AskForTasks,
}

impl fmt::Display for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Bound => "bound",
            Self::Free => "free",
            Self::Runtime => "runtime",
            Self::Arrived(_) => "arrived",
            Self::Wait => "wait",
            Self::AskForRecord(_) => "ask for the record",
            Self::AskForRecords => "ask for all records",
            Self::AskForTasks => "ask for tasks",
        })
    }
}

/// From now on this process answers; the result wakes it.
pub(super) fn open(
    enforcer: &mut dyn Resident,
    without_agent: WithoutAgent,
) -> anyhow::Result<Option<mpsc::Receiver<()>>> {
    enforcer
        .answer_starts(without_agent)
        .context("answer at the start gate")?;
    let Some(fd) = enforcer.start_fd() else {
        return Ok(None);
    };
    let own = fd
        .try_clone_to_owned()
        .context("copy the descriptor of the start gate")?;
    wake_on(own).map(Some).context("watch the start gate")
}

impl Worker {
    /// Puts a gate where containers appear. Only what comes later is asked for: whoever runs there already, and the pod of
    /// this agent, which must be able to come back, goes on with or without an agent.
    pub(super) fn place_gates(&mut self) {
        let Some(containers) = self.listing.containers.clone() else {
            return;
        };
        let mut known: Vec<CgroupId> = self.own_pod().into_iter().collect();
        known.extend(self.already_there());
        if let Some(policies) = &self.policies {
            // What is made but has not started will be asked for at the gate, with what is known then.
            let free = containers
                .iter()
                .filter(|container| container.started && !self.reconciler.is_held(policies, container));
            known.extend(free.filter_map(|container| container.cgroup));
            debug!(cgroups = ?known, "what runs without a policy goes on");
        }
        let outcome = self
            .enforcer
            .set_gates(&self.listing.nests)
            .and_then(|()| self.enforcer.set_free(&known));
        match outcome {
            Ok(()) => {
                self.problems.remove("gates");
            }
            Err(error) => self.problem(
                "gates",
                || error!(%error, "the start gate cannot be placed; a container may run before it is protected"),
            ),
        }
    }

    /// The cgroups with processes where a gate is about to come.
    fn already_there(&self) -> Vec<CgroupId> {
        let found = Hierarchy::find().and_then(|hierarchy| {
            let new = self
                .listing
                .nests
                .iter()
                .filter(|nest| !self.enforcer.has_gate(**nest));
            new.map(|nest| hierarchy.populated(*nest))
                .collect::<Result<Vec<_>, _>>()
        });
        found
            .inspect_err(|error| warn!(%error, "cgroups below a new start gate"))
            .unwrap_or_default()
            .concat()
    }

    /// The cgroup of this agent's own pod, where it is one.
    pub(super) fn own_pod(&self) -> Option<CgroupId> {
        Hierarchy::find()
            .and_then(|hierarchy| own_pod(&hierarchy, &self.listing.nests))
            .inspect_err(|error| warn!(%error, "own cgroup"))
            .ok()
            .flatten()
    }

    /// Tells every start that waits what its container is, if that is known.
    pub(super) fn answer_starts(&mut self) {
        let waiting = match self.enforcer.waiting() {
            Ok(waiting) => waiting,
            Err(error) => {
                self.problem(
                    "starts",
                    || error!(%error, "the start gate cannot be read; starts wait"),
                );
                return;
            }
        };
        self.problems.remove("starts");
        self.noticed
            .retain(|process, _| waiting.iter().any(|(waits, _)| waits == process));
        let mut arrived = Vec::new();
        for (process, start) in waiting {
            let cgroup = CgroupId(start.cgroup);
            let noticed = *self.noticed.entry(process).or_insert_with(Instant::now);
            match self.answer(process, cgroup, noticed) {
                Answer::Arrived(container) => {
                    self.arrivals.insert(cgroup, Arc::new(*container));
                    arrived.push((process, cgroup));
                }
                // Its network may have been made after it was bound.
                Answer::Bound if self.is_about_pod(cgroup) => arrived.push((process, cgroup)),
                answer => self.give(process, cgroup, &answer),
            }
        }
        if arrived.is_empty() {
            return;
        }
        // All of them at once.
        self.reconcile();
        for (process, cgroup) in arrived {
            let answer = if self.is_bound(cgroup) {
                Answer::Bound
            } else {
                Answer::Wait
            };
            self.give(process, cgroup, &answer);
        }
    }

    fn give(&mut self, process: u32, cgroup: CgroupId, answer: &Answer) {
        let waited = self
            .noticed
            .get(&process)
            .map_or(Duration::ZERO, Instant::elapsed);
        match answer {
            Answer::AskForRecord(id) => self.requests.records.one(id),
            Answer::AskForRecords => self.requests.records.all(),
            Answer::AskForTasks => self.requests.tasks.notify_one(),
            _ => {}
        }
        let outcome = match answer {
            Answer::Wait
            | Answer::Arrived(_)
            | Answer::AskForRecord(_)
            | Answer::AskForRecords
            | Answer::AskForTasks => {
                if waited > LONG {
                    self.problem("long start", || {
                        error!(
                            process,
                            cgroup = cgroup.0,
                            "a container waits for its policy and does not run yet"
                        );
                    });
                }
                return;
            }
            Answer::Bound => self.enforcer.let_go(process),
            Answer::Free => self
                .enforcer
                .set_free(&[cgroup])
                .and_then(|()| self.enforcer.let_go(process)),
            Answer::Runtime => self.enforcer.let_pass(process, cgroup),
        };
        match outcome {
            Ok(()) => {
                self.problems.remove("long start");
                self.noticed.remove(&process);
                debug!(process, cgroup = cgroup.0, %answer, ?waited, "start goes on");
            }
            Err(error) => self.problem("let go", || error!(%error, process, "a start waits")),
        }
    }

    /// Whether rules for the container need the addresses of its pod.
    fn is_about_pod(&self, cgroup: CgroupId) -> bool {
        let (Some(policies), Some(known)) = (&self.policies, self.reconciler.known(cgroup)) else {
            return false;
        };
        policies
            .iter()
            .any(|policy| policy.profile.is_about_pod() && selects(policy, &known.container))
    }

    fn is_bound(&self, cgroup: CgroupId) -> bool {
        self.enforcer.is_bound(cgroup).unwrap_or(false)
    }

    fn answer(&self, process: u32, cgroup: CgroupId, noticed: Instant) -> Answer {
        if self.is_bound(cgroup) {
            return Answer::Bound;
        }
        let Some(policies) = &self.policies else {
            return Answer::Wait;
        };
        let is_new =
            |taken: Option<tokio::time::Instant>| taken.is_some_and(|taken| taken.into_std() >= noticed);
        // Who is dead waits for nobody.
        let Ok(named) = names_one_of(process, &self.listing.records.keys().map(String::as_str)) else {
            return Answer::Bound;
        };
        let records = match named {
            // Whatever else there is, no name can be closer: this record alone has to be a new one.
            Some((id, true)) => {
                let recorded = self.listing.records.get(id);
                if !is_new(recorded.map(|recorded| recorded.read)) {
                    return Answer::AskForRecord(id.to_owned());
                }
                recorded
            }
            // What older records lack may have come since.
            _ if !is_new(self.listing.recorded) => return Answer::AskForRecords,
            Some((id, false)) => self.listing.records.get(id),
            None => None,
        };
        let Ok(is_runtime) = is_runtime(process) else {
            return Answer::Bound;
        };
        let Some(records) = records else {
            // Its cgroup has a name of its own: only the process of a task tells whose it is.
            if is_runtime {
                return Answer::Runtime;
            }
            if !is_new(self.listing.taken) {
                return Answer::AskForTasks;
            }
            let containers = self
                .listing
                .containers
                .iter()
                .flat_map(|containers| containers.iter());
            let mut of_cgroup = containers.filter(|container| container.cgroup == Some(cgroup));
            return if of_cgroup.any(|container| is_held(policies, container)) {
                Answer::Wait
            } else {
                Answer::Free
            };
        };
        let selected = records
            .records
            .iter()
            .filter(|record| !record.is_sandbox)
            .find(|record| is_held(policies, &record.container));
        match selected {
            None => unselected(&records.records, records.read.elapsed(), noticed.elapsed()),
            // Where the mounts stay those of the runtime they tell nothing.
            Some(record) if is_runtime && record.has_mounts => Answer::Runtime,
            Some(record) => Answer::Arrived(Box::new(Container {
                pid: process,
                cgroup: Some(cgroup),
                ..record.container.clone()
            })),
        }
    }

    /// The containers of the list, and those that it will have.
    pub(super) fn containers(&mut self) -> Option<Arc<Vec<Arc<Container>>>> {
        let listed = self.listing.containers.clone()?;
        if self.arrivals.is_empty() {
            return Some(listed);
        }
        let known: BTreeSet<CgroupId> = listed.iter().filter_map(|container| container.cgroup).collect();
        let existing = super::existing_cgroups();
        self.arrivals.retain(|cgroup, _| {
            let is_there = existing.as_ref().is_none_or(|existing| existing.contains(cgroup));
            is_there && !known.contains(cgroup)
        });
        let mut all = listed.to_vec();
        all.extend(self.arrivals.values().cloned());
        Some(Arc::new(all))
    }

    /// Cgroups that are gone need no mark; their numbers come back.
    pub(super) fn forget_marks(&mut self) {
        if self.marks_checked.elapsed() < MARKS {
            return;
        }
        self.marks_checked = Instant::now();
        let Some(existing) = super::existing_cgroups() else {
            return;
        };
        if let Err(error) = self.enforcer.forget_marks(&existing) {
            warn!(%error, "marks of cgroups that are gone stay");
        }
    }
}

/// The answer to a start that no policy selects, by what is known of it: records that were read `age` ago.
fn unselected(records: &[Record], age: Duration, waited: Duration) -> Answer {
    if let Some(record) = records.iter().find(|record| record.lacks_pod) {
        // Every answer of containerd leads here again: without a pause this would ask without end.
        return if age < TICK {
            Answer::Wait
        } else {
            Answer::AskForRecord(record.container.id.clone())
        };
    }
    let promised = records.iter().find_map(|record| {
        let pod = record.container.pod.as_ref()?;
        let profile = pod.promised.get(&record.container.name)?;
        Some((&record.container, profile))
    });
    match promised {
        Some(_) if waited < PROMISED => Answer::Wait,
        Some((container, profile)) => {
            warn!(
                container = %container.display_name(), %profile,
                "admission has given the container a profile that this node does not have; it runs without it"
            );
            Answer::Free
        }
        None => Answer::Free,
    }
}

/// Whether the runtime has yet to give the process the mounts of its container: until then it sees those of the runtime
/// that started it. What executes then is the runtime itself, which makes a copy of itself.
fn is_runtime(process: u32) -> io::Result<bool> {
    let mounts = |process: u32| fs::read_link(format!("/proc/{process}/ns/mnt"));
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))
        .and_then(|word| word.trim().parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no parent"))?;
    let own = mounts(process)?;
    Ok(match mounts(parent) {
        Ok(of_parent) => own == of_parent,
        // The parent is another container's or gone: the process is nobody's preparation.
        Err(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::Pod;

    fn record(lacks_pod: bool, promised: &[&str]) -> Record {
        let pod = Pod {
            promised: promised
                .iter()
                .map(|name| ((*name).to_owned(), "varmor-demo-p".to_owned()))
                .collect(),
            ..Pod::default()
        };
        Record {
            container: Container {
                id: "c".to_owned(),
                name: "main".to_owned(),
                pod: Some(pod),
                ..Container::default()
            },
            is_sandbox: false,
            has_mounts: true,
            lacks_pod,
        }
    }

    #[test]
    fn a_start_that_no_policy_selects_waits_for_its_pod_and_for_what_was_promised() {
        let answer = |record: Record, seconds| {
            let time = Duration::from_secs(seconds);
            unselected(&[record], time, time).to_string()
        };
        assert_eq!(answer(record(false, &[]), 0), "free");
        assert_eq!(answer(record(false, &["other"]), 0), "free");
        assert_eq!(answer(record(false, &["main"]), 0), "wait");
        assert_eq!(
            answer(record(false, &["main"]), 60),
            "free",
            "its policy was deleted"
        );
        assert_eq!(answer(record(true, &[]), 60), "ask for the record");
        assert_eq!(answer(record(true, &[]), 0), "wait", "it was read just now");
    }

    #[test]
    fn a_process_with_the_mounts_of_its_parent_is_the_runtimes() {
        assert!(is_runtime(std::process::id()).unwrap());
        assert!(is_runtime(u32::MAX).is_err());
    }
}
