//! The one task that owns the enforcer: takes in changes, reconciles, records events, reports.

mod audit;
mod gate;
mod leave;
mod node_report;
mod report;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{error, info, warn};
use varmor_common::policy;
use varmor_common::profile::Profile;

use self::audit::AuditTrail;
use super::controller::Outlet;
use super::notify;
use super::options::Options;
use super::state::{POLICIES, Policies, Report, STATUS, Status};
use super::view::View;
use crate::containers::cgroup::Hierarchy;
use crate::containers::{Container, Listing, Requests};
use crate::enforcer::{CgroupId, Resident};
use crate::events::{Recorder, wake_on};
use crate::memory;
use crate::observe::Observations;
use crate::reconcile::{Reconciler, Stores};
use crate::source::{FileState, PolicyObject, Source};

/// Looking again without a message: sums of repeated events, starts that nobody woke for, failures to retry.
const TICK: Duration = Duration::from_secs(1);
/// Comparing everything with the kernel without a message. Its cost grows with profiles and containers.
const ROUND: Duration = Duration::from_secs(10);
/// Events wait in the ring for the first list of containers, which says whose they are, but not longer than this.
const FIRST_EVENTS: Duration = Duration::from_secs(10);
/// A file that is being written is looked at again after this.
const UNSETTLED: Duration = Duration::from_millis(80);

/// Where the worker says what happens.
pub(super) struct Outlets {
    pub(super) recorder: Recorder,
    pub(super) view: Arc<View>,
    /// To the controller of the cluster.
    pub(super) controller: Option<Outlet>,
}

/// What a look at the policies came to.
#[derive(Default)]
struct Scanned {
    /// There may be something to do.
    changed: bool,
    /// A file was being written: look again soon.
    unsettled: bool,
}

pub(super) struct Worker {
    options: Options,
    enforcer: Box<dyn Resident>,
    events: Option<mpsc::Receiver<()>>,
    source: Source,
    /// In force; `None` until the folder was read once.
    policies: Option<Arc<[PolicyObject]>>,
    listing: Listing,
    /// Containers that came to the gate and are in no list of tasks yet.
    arrivals: BTreeMap<CgroupId, Arc<Container>>,
    starts: Option<mpsc::Receiver<()>>,
    /// Starts that wait at the gate: since when that is known here.
    noticed: BTreeMap<u32, Instant>,
    requests: Arc<Requests>,
    marks_checked: Instant,
    last_round: Instant,
    reconciler: Reconciler,
    stores: Stores,
    audit: AuditTrail,
    observations: Observations,
    recorder: Recorder,
    view: Arc<View>,
    /// To the controller of the cluster.
    controller: Option<Outlet>,
    /// Of the last reconciliation.
    failures: usize,
    /// systemd knows that the policies are in the kernel.
    is_announced: bool,
    watchdog: Option<Instant>,
    policies_report: Report<Policies>,
    status_report: Report<Status>,
    problems: BTreeSet<&'static str>,
    /// Per profile, the events above the rate and the lost ones that were reported.
    left_out: BTreeMap<String, (u64, u64)>,
    is_retired: bool,
    started: Instant,
}

impl Worker {
    pub(super) fn new(
        options: &Options,
        mut enforcer: Box<dyn Resident>,
        stores: Stores,
        source: Source,
        outlets: Outlets,
        requests: Arc<Requests>,
    ) -> anyhow::Result<Self> {
        let events = match enforcer.event_fd() {
            None => None,
            Some(fd) => {
                let own = fd
                    .try_clone_to_owned()
                    .context("copy the descriptor of the event ring")?;
                Some(wake_on(own).context("watch the event ring")?)
            }
        };
        let view = Arc::clone(&outlets.view);
        enforcer.set_pulse(Arc::new(move || {
            view.beat();
            notify::send("WATCHDOG=1");
        }));
        let starts = gate::open(&mut *enforcer, options.without_agent)?;
        Ok(Self {
            enforcer,
            events,
            starts,
            noticed: BTreeMap::new(),
            requests,
            arrivals: BTreeMap::new(),
            marks_checked: Instant::now(),
            last_round: Instant::now(),
            source,
            policies: None,
            listing: Listing::default(),
            reconciler: Reconciler::default(),
            stores,
            audit: AuditTrail::open(),
            observations: Observations::new(&options.model_dir),
            recorder: outlets.recorder,
            view: outlets.view,
            controller: outlets.controller,
            failures: 0,
            is_announced: false,
            watchdog: None,
            policies_report: Report::new(&options.state_dir, POLICIES),
            status_report: Report::new(&options.state_dir, STATUS),
            problems: BTreeSet::new(),
            left_out: BTreeMap::new(),
            is_retired: false,
            started: Instant::now(),
            options: options.clone(),
        })
    }

    pub(super) async fn run(
        &mut self,
        mut rescan: mpsc::Receiver<()>,
        mut listing: watch::Receiver<Listing>,
    ) -> anyhow::Result<()> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut unsettled = false;
        loop {
            self.view.beat();
            self.tell_systemd();
            tokio::select! {
                Some(()) = rescan.recv() => unsettled = self.follow_policies(),
                () = sleep(UNSETTLED), if unsettled => unsettled = self.follow_policies(),
                Ok(()) = listing.changed() => {
                    let before = std::mem::replace(&mut self.listing, listing.borrow_and_update().clone());
                    if !self.listing.has_same_containers(&before) {
                        self.place_gates();
                        self.reconcile();
                    }
                    self.answer_starts();
                }
                Some(()) = next(self.starts.as_mut()) => self.answer_starts(),
                Some(()) = next(self.events.as_mut()) => { self.drain(); }
                Some(observed) = self.audit.next() => {
                    self.take_record(&observed);
                    self.take_records();
                }
                _ = tick.tick() => {
                    self.drain();
                    self.repetitions();
                    self.take_records();
                    self.recorder.tick();
                    self.answer_starts();
                    self.round();
                }
            }
        }
    }

    /// Looks whether everything is as it should be, which nothing has said that it is not.
    fn round(&mut self) {
        if self.failures == 0 && self.last_round.elapsed() < ROUND {
            return;
        }
        self.last_round = Instant::now();
        self.restore_pins();
        self.drain();
        self.observe();
        self.reconcile();
        self.forget_marks();
        self.report();
    }

    /// Ready as soon as the policies are in the kernel: container runtimes wait for it, so it cannot wait for them.
    fn tell_systemd(&mut self) {
        if !self.is_announced && self.policies.is_some() {
            self.is_announced = true;
            notify::send("READY=1");
        }
        if self
            .watchdog
            .is_none_or(|last| last.elapsed() >= notify::WATCHDOG)
        {
            self.watchdog = Some(Instant::now());
            notify::send("WATCHDOG=1");
        }
    }

    /// Writes what is still pending.
    pub(super) fn finish(&mut self) {
        self.drain();
        self.repetitions();
        self.take_records();
        self.recorder.finish();
        self.report();
        self.leave();
    }

    /// Takes in the policies and brings the kernel to them; true if that should be done again soon. A folder is looked at
    /// every two seconds, and what has not changed in it costs no more than the look.
    fn follow_policies(&mut self) -> bool {
        let Scanned { changed, unsettled } = self.scan();
        if changed {
            self.reconcile();
        }
        unsettled
    }

    /// Takes in the policies.
    fn scan(&mut self) -> Scanned {
        let scan = match self.source.scan() {
            Ok(scan) => scan,
            Err(error) => {
                let cause = std::error::Error::source(&error)
                    .map(ToString::to_string)
                    .unwrap_or_default();
                self.problem(
                    "folder",
                    || error!(%error, cause, "policies cannot be read; what is in force stays in force"),
                );
                return Scanned::default();
            }
        };
        self.problems.remove("folder");
        for name in &scan.changed {
            let Some(status) = self.source.catalog().status(name) else {
                continue;
            };
            match status.state {
                FileState::Ok => {
                    info!(file = %name, state = "ok", policies = status.objects.len(), "policy file");
                }
                FileState::Removed => info!(file = %name, state = "removed", "policy file"),
                FileState::Invalid => {
                    error!(file = %name, state = "invalid", message = %status.message, enforced = status.objects.len(), "policy file");
                    for diagnostic in status
                        .diagnostics
                        .iter()
                        .filter(|diagnostic| diagnostic.is_error())
                    {
                        error!("{}", policy::render(diagnostic).replace('\n', " "));
                    }
                }
            }
            for diagnostic in status
                .diagnostics
                .iter()
                .filter(|diagnostic| !diagnostic.is_error())
            {
                warn!("{}", policy::render(diagnostic).replace('\n', " "));
            }
        }
        if scan.unread {
            return Scanned::default();
        }
        let is_new = self.policies.is_none() || !scan.changed.is_empty();
        if is_new {
            self.audit.forget_judges();
            self.policies = Some(self.source.catalog().objects().cloned().collect());
        }
        let has_ended = self.observe();
        Scanned {
            // A cluster speaks only when something has changed, and wants to hear that it is in force.
            changed: is_new || has_ended || self.source.cluster().is_some(),
            unsettled: scan.unsettled,
        }
    }

    /// Begins and ends recordings; true if one has ended. A policy whose recording is over refuses nothing and says nothing.
    fn observe(&mut self) -> bool {
        let Some(policies) = &self.policies else {
            return false;
        };
        let now = SystemTime::now();
        self.observations.follow(policies, &mut *self.enforcer, now);
        let has_ended = self.drain() && self.observations.end(&mut *self.enforcer, now);
        self.free_recorded();
        self.hand_over();
        has_ended
    }

    /// Takes the rules out of policies whose recording is over.
    fn free_recorded(&mut self) {
        let Some(policies) = &mut self.policies else {
            return;
        };
        let is_over = |policy: &PolicyObject| self.observations.is_over(&policy.profile.name);
        let freed: BTreeMap<usize, Profile> = policies
            .iter()
            .enumerate()
            .filter(|(_, policy)| is_over(policy))
            .map(|(position, policy)| (position, policy.profile.without_rules()))
            .filter(|(position, profile)| policies[*position].profile != *profile)
            .collect();
        if freed.is_empty() {
            return;
        }
        let mut all = policies.to_vec();
        for (position, profile) in freed {
            all[position].profile = profile;
        }
        *policies = all.into();
    }

    /// The profile that is in force for a policy of the catalog once everything is applied.
    fn enforced<'p>(&self, policy: &'p PolicyObject) -> Cow<'p, Profile> {
        if self.observations.is_over(&policy.profile.name) {
            Cow::Owned(policy.profile.without_rules())
        } else {
            Cow::Borrowed(&policy.profile)
        }
    }

    fn reconcile(&mut self) {
        // Events first: a container that is forgotten below is still known to them.
        self.drain();
        let containers = self.containers();
        let outcome = self.reconciler.reconcile(
            &mut *self.enforcer,
            self.policies.as_ref(),
            containers.as_deref().map(Vec::as_slice),
            &existing_cgroups,
        );
        let stored = self.stores.reconcile(self.policies.as_deref());
        self.failures = outcome.failures;
        self.view.loaded(self.reconciler.take_loads());
        self.view.loaded(self.stores.take_loads());
        let is_complete = self.policies.is_some() && self.listing.containers.is_some();
        if is_complete && outcome.failures == 0 && !self.is_retired {
            self.retire();
        }
        if outcome.actions > 0 || stored {
            self.report();
            memory::give_back();
        } else if self.controller.is_some() {
            // The node may have come to a later state of the cluster without a step.
            self.report_to_controller(&self.policies_state());
        }
    }

    /// Somebody who removes pins wants protection to end with this process.
    fn restore_pins(&mut self) {
        match self.enforcer.restore_pins() {
            Ok(0) => {
                self.problems.remove("pins");
            }
            Ok(pins) => error!(pins, "pins were removed by somebody and are back"),
            Err(error) => self.problem("pins", || error!(%error, "pins")),
        }
    }

    /// Everything is enforced by this version: what earlier versions left is taken down.
    fn retire(&mut self) {
        match self.enforcer.retire_other_versions() {
            Ok(0) => {}
            Ok(versions) => info!(versions, "programs of other versions were taken down"),
            Err(error) => warn!(%error, "programs of other versions stay; they can only deny more"),
        }
        self.is_retired = true;
    }

    /// Takes in what the kernel has written. False if it is too early: an event needs its policy and container.
    fn drain(&mut self) -> bool {
        let is_complete = self.policies.is_some() && self.listing.containers.is_some();
        if !is_complete && self.started.elapsed() < FIRST_EVENTS {
            return false;
        }
        let mut pending = Vec::new();
        let outcome = self.enforcer.drain(&mut |event| pending.push(event));
        for event in &pending {
            let resolution = self.enforcer.resolve(&event.head);
            let known = self.reconciler.known(CgroupId(event.head.cgroup));
            let container = known.map(|known| &*known.container);
            self.recorder.record(event, resolution, container, |violation| {
                self.observations.take(violation)
            });
        }
        match outcome {
            Ok(()) => {
                self.problems.remove("drain");
            }
            Err(error) => self.problem("drain", || error!(%error, "events cannot be read")),
        }
        true
    }

    /// Takes in what the kernel counted instead of writing it.
    fn repetitions(&mut self) {
        let recorder = &mut self.recorder;
        let outcome = self
            .enforcer
            .repetitions(&mut |identity, count| recorder.repeat(identity, count));
        match outcome {
            Ok(()) => {
                self.problems.remove("repetitions");
            }
            Err(error) => self.problem(
                "repetitions",
                || error!(%error, "repetitions of events cannot be read"),
            ),
        }
    }

    /// Says a lasting problem once.
    fn problem(&mut self, name: &'static str, say: impl FnOnce()) {
        if self.problems.insert(name) {
            say();
        }
    }
}

/// `None` at once where the enforcer has no ring; the branch of the loop is off then.
async fn next(wake: Option<&mut mpsc::Receiver<()>>) -> Option<()> {
    wake?.recv().await
}

fn existing_cgroups() -> Option<BTreeSet<CgroupId>> {
    Hierarchy::find()
        .and_then(|hierarchy| hierarchy.existing())
        .inspect_err(|error| warn!(%error, "cgroups"))
        .ok()
}
