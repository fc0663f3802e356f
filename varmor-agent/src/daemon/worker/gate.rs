//! Answers to containers that wait at the start gate for being known.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};
use varmor_common::abi::Waiting;

use super::Worker;
use crate::containers::Container;
use crate::containers::cgroup::{Hierarchy, names_one_of, own_pod};
use crate::enforcer::bpf::{BpfEnforcer, WithoutAgent};
use crate::enforcer::{CgroupId, Enforcer as _};
use crate::events::wake_on;
use crate::reconcile::selects;

/// Between two looks for marked cgroups that are gone.
const MARKS: Duration = Duration::from_secs(30);
/// A start that waits longer than this is said to.
const LONG: Duration = Duration::from_secs(10);

/// What is known about a start.
enum Answer {
    /// Its container has its policy.
    Bound,
    /// No policy is about it.
    Free,
    /// It is the runtime's own, which makes a container that has no task yet.
    Runtime,
    /// Not enough yet, or its policy cannot be put in force.
    Wait,
}

/// From now on this process answers; the result wakes it.
pub(super) fn open(
    enforcer: &mut BpfEnforcer,
    without_agent: WithoutAgent,
) -> anyhow::Result<mpsc::Receiver<()>> {
    enforcer
        .answer_starts(without_agent)
        .context("answer at the start gate")?;
    let fd = enforcer
        .start_fd()
        .try_clone_to_owned()
        .context("copy the descriptor of the start gate")?;
    wake_on(fd).context("watch the start gate")
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
            let is_free = |container: &&Container| !policies.iter().any(|policy| selects(policy, container));
            known.extend(
                containers
                    .iter()
                    .filter(is_free)
                    .filter_map(|container| container.cgroup),
            );
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
    fn own_pod(&self) -> Option<CgroupId> {
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
        let mut is_unknown = false;
        for (process, start) in waiting {
            let noticed = *self.noticed.entry(process).or_insert_with(Instant::now);
            let answer = self.answer(process, start, noticed);
            let outcome = match answer {
                Answer::Wait => {
                    is_unknown = true;
                    if noticed.elapsed() > LONG {
                        self.problem("long start", || {
                            error!(
                                process,
                                cgroup = start.cgroup,
                                "a container waits for its policy and does not run yet"
                            );
                        });
                    }
                    continue;
                }
                Answer::Bound => self.enforcer.let_go(process),
                Answer::Free => self
                    .enforcer
                    .set_free(&[CgroupId(start.cgroup)])
                    .and_then(|()| self.enforcer.let_go(process)),
                Answer::Runtime => self.enforcer.let_pass(process, CgroupId(start.cgroup)),
            };
            match outcome {
                Ok(()) => {
                    self.problems.remove("long start");
                    self.noticed.remove(&process);
                    debug!(process, cgroup = start.cgroup, waited = ?noticed.elapsed(), "start goes on");
                }
                Err(error) => self.problem("let go", || error!(%error, process, "a start waits")),
            }
        }
        if is_unknown {
            self.relist.notify_one();
        }
    }

    fn answer(&self, process: u32, start: Waiting, noticed: Instant) -> Answer {
        let cgroup = CgroupId(start.cgroup);
        let bound = self
            .enforcer
            .bindings()
            .is_ok_and(|bindings| bindings.iter().any(|(known, _)| *known == cgroup));
        if bound {
            return Answer::Bound;
        }
        let (Some(policies), Some(containers)) = (&self.policies, &self.listing.containers) else {
            return Answer::Wait;
        };
        // What an older list lacks may have come since.
        if self.listing.taken.is_none_or(|taken| taken.into_std() < noticed) {
            return Answer::Wait;
        }
        let Ok(named) = names_one_of(process, &self.listing.records) else {
            // It is dead: there is nobody to wait for.
            return Answer::Bound;
        };
        let by_name = || {
            containers
                .iter()
                .find(|container| Some(container.id.as_str()) == named)
        };
        let by_cgroup = containers
            .iter()
            .find(|container| container.cgroup == Some(cgroup));
        let container = by_cgroup.or_else(by_name);
        match (container, named) {
            (Some(container), _) if policies.iter().any(|policy| selects(policy, container)) => Answer::Wait,
            // A record without a task: the entry point runs only after there is one.
            (None, Some(id)) if !self.listing.sandboxes.contains(id) => Answer::Runtime,
            _ => Answer::Free,
        }
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

    /// An agent that is itself a container would wait at its own gate when it comes back as another pod, and so would
    /// everybody: the gate opens while it is away. A service of the machine leaves it closed.
    pub(super) fn leave_gates(&mut self) {
        if self.own_pod().is_none() {
            return;
        }
        match self.enforcer.set_gates(&std::collections::BTreeSet::new()) {
            Ok(()) => info!("the start gate is open until an agent is back"),
            Err(error) => warn!(%error, "the start gate stays closed"),
        }
    }
}
