//! The one task that owns the enforcer: takes in changes, reconciles, records events, reports.

mod gate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{error, info, warn};
use varmor_common::policy::{self, Enforcers};

use super::options::Options;
use super::state::{
    POLICIES, Policies, PolicyFile, PolicyState, ProtectedContainer, Report, RuntimeState, STATUS, Status,
};
use crate::containers::cgroup::Hierarchy;
use crate::containers::{Container, Listing, Requests};
use crate::enforcer::bpf::BpfEnforcer;
use crate::enforcer::{Activity, CgroupId, Enforcer as _};
use crate::events::{Recorder, wake_on};
use crate::reconcile::{Held, Reconciler, Stores};
use crate::source::folder::Folder;
use crate::source::{FileState, PolicyObject};

/// Looking again without a message: sums of repeated events, containers that ended, failures to retry.
const TICK: Duration = Duration::from_secs(1);
/// Events wait in the ring for the first list of containers, which says whose they are, but not longer than this.
const FIRST_EVENTS: Duration = Duration::from_secs(10);
/// A file that is being written is looked at again after this.
const UNSETTLED: Duration = Duration::from_millis(80);

pub(super) struct Worker {
    options: Options,
    enforcer: BpfEnforcer,
    events: Option<mpsc::Receiver<()>>,
    folder: Folder,
    /// In force; `None` until the folder was read once.
    policies: Option<Vec<PolicyObject>>,
    listing: Listing,
    /// Containers that came to the gate and are in no list of tasks yet.
    arrivals: BTreeMap<CgroupId, Container>,
    starts: Option<mpsc::Receiver<()>>,
    /// Starts that wait at the gate: since when that is known here.
    noticed: BTreeMap<u32, Instant>,
    requests: Arc<Requests>,
    marks_checked: Instant,
    reconciler: Reconciler,
    stores: Stores,
    recorder: Recorder,
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
        mut enforcer: BpfEnforcer,
        stores: Stores,
        folder: Folder,
        recorder: Recorder,
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
        let starts = gate::open(&mut enforcer, options.without_agent)?;
        Ok(Self {
            enforcer,
            events,
            starts: Some(starts),
            noticed: BTreeMap::new(),
            requests,
            arrivals: BTreeMap::new(),
            marks_checked: Instant::now(),
            folder,
            policies: None,
            listing: Listing::default(),
            reconciler: Reconciler::default(),
            stores,
            recorder,
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
            tokio::select! {
                Some(()) = rescan.recv() => {
                    unsettled = self.scan();
                    self.reconcile();
                }
                () = sleep(UNSETTLED), if unsettled => {
                    unsettled = self.scan();
                    self.reconcile();
                }
                Ok(()) = listing.changed() => {
                    self.listing = listing.borrow_and_update().clone();
                    self.place_gates();
                    self.reconcile();
                    self.answer_starts();
                }
                Some(()) = next(self.starts.as_mut()) => self.answer_starts(),
                Some(()) = next(self.events.as_mut()) => self.drain(),
                _ = tick.tick() => {
                    self.drain();
                    self.repetitions();
                    self.recorder.tick();
                    self.restore_pins();
                    self.reconcile();
                    self.answer_starts();
                    self.forget_marks();
                    self.report();
                }
            }
        }
    }

    /// Writes what is still pending.
    pub(super) fn finish(&mut self) {
        self.drain();
        self.repetitions();
        self.recorder.finish();
        self.leave_gates();
        self.report();
    }

    /// Reads the policy folder; true if it should be read again soon.
    fn scan(&mut self) -> bool {
        let scan = match self.folder.scan() {
            Ok(scan) => scan,
            Err(error) => {
                let cause = std::error::Error::source(&error)
                    .map(ToString::to_string)
                    .unwrap_or_default();
                self.problem(
                    "folder",
                    || error!(%error, cause, "policies cannot be read; what is in force stays in force"),
                );
                return false;
            }
        };
        self.problems.remove("folder");
        for name in &scan.changed {
            let Some(status) = self.folder.catalog().status(name) else {
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
        if self.policies.is_none() || !scan.changed.is_empty() {
            self.policies = Some(self.folder.catalog().objects().cloned().collect());
        }
        scan.unsettled
    }

    fn reconcile(&mut self) {
        // Events first: a container that is forgotten below is still known to them.
        self.drain();
        let containers = self.containers();
        let outcome = self.reconciler.reconcile(
            &mut self.enforcer,
            self.policies.as_deref(),
            containers.as_deref().map(Vec::as_slice),
            &existing_cgroups,
        );
        let stored = self.stores.reconcile(self.policies.as_deref());
        let is_complete = self.policies.is_some() && self.listing.containers.is_some();
        if is_complete && outcome.failures == 0 && !self.is_retired {
            self.retire();
        }
        if outcome.actions > 0 || stored {
            self.report();
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

    fn drain(&mut self) {
        let is_complete = self.policies.is_some() && self.listing.containers.is_some();
        if !is_complete && self.started.elapsed() < FIRST_EVENTS {
            return;
        }
        let mut pending = Vec::new();
        let outcome = self.enforcer.drain(&mut |event| pending.push(event));
        for event in &pending {
            let resolution = self.enforcer.resolve(&event.head);
            let known = self.reconciler.known(CgroupId(event.head.cgroup));
            self.recorder
                .record(event, resolution, known.map(|known| &*known.container));
        }
        match outcome {
            Ok(()) => {
                self.problems.remove("drain");
            }
            Err(error) => self.problem("drain", || error!(%error, "events cannot be read")),
        }
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

    /// Says how many events are in no log since the last time.
    fn left_out(&mut self, activity: &[Activity]) {
        for profile in activity {
            let now = (profile.limited, profile.lost);
            let before = self
                .left_out
                .insert(profile.profile.clone(), now)
                .unwrap_or_default();
            let (limited, lost) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
            if limited + lost > 0 {
                warn!(profile = %profile.profile, limited, lost, "events of this profile are in no log");
            }
        }
    }

    fn report(&mut self) {
        let policies = self.policies_state();
        if let Err(error) = self.policies_report.write(policies) {
            let path = self.policies_report.path().display().to_string();
            self.problem(
                "policies report",
                || warn!(path, %error, "report cannot be written"),
            );
        }
        let status = self.status();
        self.left_out(&status.activity);
        if let Err(error) = self.status_report.write(status) {
            let path = self.status_report.path().display().to_string();
            self.problem(
                "status report",
                || warn!(path, %error, "report cannot be written"),
            );
        }
    }

    fn policies_state(&self) -> Policies {
        let object = |object: &PolicyObject, file: FileState| {
            let refusal = self.reconciler.refusal(&object.profile.name);
            let enforced = match refusal {
                Some(_) => "refused",
                None if !object.profile.enforcers.contains(Enforcers::BPF) => "not for BPF",
                None if !self.reconciler.is_applied(&object.profile) => "pending",
                None if file == FileState::Ok => "current",
                None => "last-good",
            };
            PolicyState {
                policy: object.identity.clone(),
                profile: object.profile.name.clone(),
                rules: object.profile.rules.len(),
                enforced: enforced.to_owned(),
                message: refusal.unwrap_or_default().to_owned(),
                by_runtime: self
                    .stores
                    .held(&object.profile)
                    .map(|(enforcer, held)| by_runtime(enforcer, &object.profile.name, held))
                    .collect(),
            }
        };
        let files = self.folder.catalog().files().map(|(name, status)| PolicyFile {
            file: name.to_owned(),
            state: status.state.as_str().to_owned(),
            message: status.message.clone(),
            diagnostics: status.diagnostics.iter().map(policy::render).collect(),
            objects: status
                .objects
                .iter()
                .map(|policy| object(policy, status.state))
                .collect(),
        });
        Policies {
            files: files.collect(),
        }
    }

    fn status(&self) -> Status {
        let activity = self.enforcer.activity().unwrap_or_default();
        let containers = self
            .reconciler
            .protected()
            .map(|(cgroup, known)| ProtectedContainer {
                container: known.container.id.clone(),
                name: known.container.display_name(),
                profile: known.profile.clone().unwrap_or_default(),
                cgroup: cgroup.0,
            });
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            policy_dir: self.options.policy_dir.clone(),
            containerd_problem: self.listing.problem.clone().unwrap_or_default(),
            profiles: self.enforcer.profiles().unwrap_or_default(),
            containers: containers.collect(),
            activity,
            counters: self.enforcer.counters().unwrap_or_default(),
            lost_lines: self.recorder.lost().file,
        }
    }

    /// Says a lasting problem once.
    fn problem(&mut self, name: &'static str, say: impl FnOnce()) {
        if self.problems.insert(name) {
            say();
        }
    }
}

fn by_runtime(enforcer: Enforcers, profile: &str, held: Held) -> RuntimeState {
    let (state, rules, message, unsupported) = match held {
        Held::Loaded(stored) => (
            "loaded",
            stored.rules,
            format!(
                "a container gets it only if its settings name {}",
                named(enforcer, profile)
            ),
            stored.unsupported,
        ),
        Held::Refused(message) => ("refused", 0, message, Vec::new()),
        Held::Pending => ("pending", 0, String::new(), Vec::new()),
    };
    RuntimeState {
        enforcer: enforcer.to_string(),
        state: state.to_owned(),
        rules,
        message,
        unsupported,
    }
}

/// How the settings of a container name a profile.
fn named(enforcer: Enforcers, profile: &str) -> String {
    if enforcer == Enforcers::SECCOMP {
        format!("the seccompProfile of type Localhost with localhostProfile `{profile}`")
    } else {
        format!("the profile `localhost/{profile}`")
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
