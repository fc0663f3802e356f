//! Policies of the mode `BehaviorModeling`: their workloads are recorded for so many minutes, and what was seen becomes an
//! `ArmorProfileModel`.
//!
//! The time runs from when the kernel holds the profile: on a starved machine that is minutes after the policy came. What was
//! seen is on disk at once, so the time goes on over a restart of the agent and nothing of before it is lost. The model stays
//! when the policy goes.

mod journal;
mod learn;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tracing::{error, info, warn};
use varmor_common::model::Recording;
use varmor_common::policy::Losses;

use self::journal::{Journal, Start};
pub use self::learn::{Learner, yaml};
use crate::enforcer::bpf::{CallRecorder, SeenCalls};
use crate::enforcer::{Activity, Resident};
use crate::events::Violation;
use crate::source::PolicyObject;

/// Everything that is recorded on this machine.
#[derive(Debug)]
pub struct Observations {
    folder: PathBuf,
    /// By name of the profile.
    running: BTreeMap<String, Observation>,
    /// Profiles whose time is over, and until when their model may be made of.
    completed: BTreeMap<String, SystemTime>,
    /// The kernel was told to hand over every event.
    is_unlimited: bool,
}

/// A profile that is recorded.
struct Observation {
    namespace: String,
    /// From its start.
    duration: Duration,
    journal: Journal,
    recording: Recording,
    /// Events that this process has seen go astray, before.
    lost_before: Losses,
    /// Of the kernel, since it counts.
    counted: Losses,
    calls: Option<CallRecorder>,
    said: String,
}

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation")
            .field("until", &self.until())
            .field("operations", &self.recording.len())
            .finish_non_exhaustive()
    }
}

/// How far a policy of the mode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Recording,
    Completed,
}

impl Observations {
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            running: BTreeMap::new(),
            completed: BTreeMap::new(),
            is_unlimited: false,
        }
    }

    /// Begins what the policies say, and drops what they do not say any more.
    pub fn follow(&mut self, policies: &[PolicyObject], enforcer: &mut dyn Resident, now: SystemTime) {
        let wanted: BTreeMap<&str, (&PolicyObject, Duration)> = policies
            .iter()
            .filter_map(|policy| Some((policy.profile.name.as_str(), (policy, policy.recorded_for?))))
            .collect();
        self.running.retain(|name, observation| {
            let is_wanted = wanted.contains_key(name.as_str());
            if !is_wanted {
                info!(profile = %name, "the policy does not record any more; what was recorded is dropped");
                observation.journal.remove();
            }
            is_wanted
        });
        self.completed
            .retain(|name, _| wanted.contains_key(name.as_str()));
        for (name, (policy, duration)) in wanted {
            self.begin(name, policy, duration, now);
        }
        self.start(enforcer, now);
        self.watch_calls(enforcer);
        self.set_limit(enforcer);
    }

    /// What becomes of the policy of a profile; `None` if it is not recorded.
    #[must_use]
    pub fn progress(&self, profile: &str) -> Option<Progress> {
        if self.running.contains_key(profile) {
            return Some(Progress::Recording);
        }
        self.completed
            .contains_key(profile)
            .then_some(Progress::Completed)
    }

    /// The recording is over: until its policy is another one, it refuses nothing.
    #[must_use]
    pub fn is_over(&self, profile: &str) -> bool {
        self.progress(profile) == Some(Progress::Completed)
    }

    /// What [`Self::progress`] says, for people.
    #[must_use]
    pub fn described(&self, profile: &str) -> Option<String> {
        if let Some(observation) = self.running.get(profile) {
            return Some(observation.until().map_or_else(
                || "will be recorded once the kernel holds its profile; nothing is refused".to_owned(),
                |until| {
                    let until = humantime::format_rfc3339_seconds(until);
                    format!("is recorded until {until}; nothing is refused")
                },
            ));
        }
        let model = self.model(profile)?;
        Some(format!(
            "was recorded, nothing is refused; the model is {}",
            model.display()
        ))
    }

    /// The file of the model of a profile whose recording is over.
    #[must_use]
    pub fn model(&self, profile: &str) -> Option<PathBuf> {
        let is_over = self.completed.contains_key(profile);
        is_over.then(|| self.folder.join(profile).join(journal::MODEL))
    }

    /// Takes an event of a profile that is recorded; otherwise it is given back.
    pub fn take(&mut self, violation: Violation) -> Option<Violation> {
        let Some(observation) = self.running.get_mut(&violation.profile_name) else {
            return Some(violation);
        };
        observation.add(&violation);
        None
    }

    fn begin(&mut self, name: &str, policy: &PolicyObject, duration: Duration, now: SystemTime) {
        if let Some(observation) = self.running.get_mut(name) {
            observation.duration = duration;
            return;
        }
        if self.completed.get(name).is_some_and(|until| *until >= now) {
            return;
        }
        match Journal::open(&self.folder, name) {
            Ok(Start::Completed {
                started: Some(started),
            }) if started + duration <= now => {
                self.completed.insert(name.to_owned(), started + duration);
            }
            // The time was made longer after it was over: what was recorded then is in the model only.
            Ok(Start::Completed { .. }) => {
                self.completed
                    .insert(name.to_owned(), now + Duration::from_hours(24 * 365));
                warn!(profile = %name, "the model exists; delete it to record again");
            }
            Ok(Start::Recording { journal, recording }) => {
                info!(profile = %name, minutes = duration.as_secs() / 60, events = recording.events(), "recording");
                let observation = Observation {
                    namespace: policy.namespace.clone().unwrap_or_default(),
                    duration,
                    lost_before: recording.losses,
                    counted: Losses::default(),
                    journal,
                    recording,
                    calls: None,
                    said: String::new(),
                };
                self.running.insert(name.to_owned(), observation);
            }
            Err(error) => {
                error!(profile = %name, %error, "the workload cannot be recorded, it runs without limits; trying again");
            }
        }
    }

    /// Starts the time of what the kernel holds by now; where it can hold nothing there is nothing to wait for.
    fn start(&mut self, enforcer: &dyn Resident, now: SystemTime) {
        let mut waiting = self
            .running
            .iter_mut()
            .filter(|(_, observation)| observation.journal.started().is_none())
            .peekable();
        if waiting.peek().is_none() {
            return;
        }
        let loaded = enforcer.profiles().unwrap_or_default();
        let is_loaded = |name: &str| loaded.iter().any(|profile| profile.name == name);
        let nothing_to_wait_for = enforcer.unavailable().is_some();
        for (name, observation) in waiting.filter(|(name, _)| nothing_to_wait_for || is_loaded(name)) {
            match observation.journal.start(now) {
                Ok(()) => info!(profile = %name, "the time of the recording runs"),
                Err(error) => observation.say(
                    || error!(profile = %name, %error, "the recording cannot be started; trying again"),
                    &error.to_string(),
                ),
            }
        }
    }

    /// Makes models of what is over. To be called when the kernel's events were taken in: those of a time without an agent
    /// belong to the recording as well. True if a policy has another meaning now than before.
    pub fn end(&mut self, enforcer: &mut dyn Resident, now: SystemTime) -> bool {
        if self.running.is_empty() {
            return false;
        }
        let activity = enforcer.activity().unwrap_or_default();
        let mut changed = false;
        self.running.retain(|name, observation| {
            observation.count(activity.iter().find(|one| one.profile == *name));
            let Some(until) = observation.until().filter(|until| *until <= now) else {
                return true;
            };
            match observation.finish(name) {
                Ok(path) => {
                    info!(profile = %name, model = %path.display(), events = observation.recording.events(), "recorded");
                    self.completed.insert(name.clone(), until);
                    changed = true;
                    false
                }
                Err(error) => {
                    observation.say(|| error!(profile = %name, %error, "the model cannot be written; trying again"), &error.to_string());
                    true
                }
            }
        });
        self.set_limit(enforcer);
        changed
    }

    /// While something is recorded the kernel leaves no event out.
    fn set_limit(&mut self, enforcer: &mut dyn Resident) {
        let is_recording = !self.running.is_empty();
        if self.is_unlimited == is_recording {
            return;
        }
        self.is_unlimited = is_recording;
        if let Err(error) = enforcer.record_everything(is_recording) {
            warn!(%error, "the limit of events cannot be set; some may be missing in the recording");
        }
    }

    fn watch_calls(&mut self, enforcer: &dyn Resident) {
        for (name, observation) in &mut self.running {
            if observation.calls.is_some() {
                observation.keep_calls();
                continue;
            }
            // Not before the profile is in the kernel.
            match enforcer.record_calls(name) {
                Ok(calls) => observation.calls = calls,
                Err(error) => {
                    let message = error.to_string();
                    observation.say(
                        || info!(profile = %name, %error, "system calls are not recorded yet"),
                        &message,
                    );
                }
            }
        }
    }
}

impl Observation {
    /// `None` before its start.
    fn until(&self) -> Option<SystemTime> {
        Some(self.journal.started()? + self.duration)
    }

    fn add(&mut self, violation: &Violation) {
        let before = self.recording.len();
        let line = serde_json::to_string(violation).expect("a violation holds only strings and numbers");
        if self.recording.add(&line).is_err() {
            self.recording.losses.unreadable += 1;
            return;
        }
        // What was seen already tells nothing new after a restart.
        if self.recording.len() != before
            && let Err(error) = self.journal.line(&line)
        {
            self.recording.losses.lost += 1;
            self.say(
                || error!(%error, "the recording cannot be kept beyond a restart"),
                "journal",
            );
        }
    }

    /// What the kernel could not hand over.
    fn count(&mut self, activity: Option<&Activity>) {
        let Some(activity) = activity else { return };
        self.counted.lost = self.counted.lost.max(activity.lost);
        self.counted.limited = self.counted.limited.max(activity.limited);
    }

    fn keep_calls(&mut self) {
        let Some(Ok(seen)) = self.calls.as_ref().map(CallRecorder::seen) else {
            return;
        };
        let before = self.recording.syscalls.len();
        take_calls(&mut self.recording, seen);
        if self.recording.syscalls.len() != before
            && let Err(error) = self.journal.calls(&self.recording.syscalls)
        {
            self.say(
                || error!(%error, "system calls cannot be kept beyond a restart"),
                "calls",
            );
        }
    }

    fn finish(&mut self, name: &str) -> anyhow::Result<PathBuf> {
        self.keep_calls();
        self.recording.losses.lost = self.lost_before.lost + self.counted.lost;
        self.recording.losses.limited = self.lost_before.limited + self.counted.limited;
        let model = Learner::default().learn(&self.recording, name, &self.namespace)?;
        self.journal.complete(&yaml(&model)?)
    }

    /// Says a lasting problem once.
    fn say(&mut self, say: impl FnOnce(), problem: &str) {
        if self.said != problem {
            say();
            problem.clone_into(&mut self.said);
        }
    }
}

/// Adds system calls to a recording.
pub fn take_calls(recording: &mut Recording, seen: SeenCalls) {
    recording.syscalls.extend(seen.names);
    for number in seen.unnamed {
        recording.note(
            format!("the system call {number}, which libseccomp has no name for"),
            0,
        );
    }
    if seen.foreign {
        recording.note(
            "system calls of another instruction set, or that do not exist".to_owned(),
            0,
        );
    }
}

#[cfg(test)]
mod tests;
