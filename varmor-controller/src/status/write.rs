//! Writes statuses: what differs, in batches, the readiness of policies first and what can wait last.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde_json::{Value, json};
use varmor_common::policy::{ArmorProfileModelStatus, ArmorProfileStatus, Phase, PolicyStatus};

use super::judge::{is_modeling, is_recorded, model_status, policy_status, profile_status, with_model};
use super::news;
use crate::MANAGER;
use crate::context::Context;
use crate::object::{API_VERSION, PolicyKey, Profile, ProfileKey, model_resource};

/// The field manager of statuses; apart from that of the objects, since what a manager stops naming goes.
const STATUS_MANAGER: &str = "varmor-controller/status";

/// Writes in one window.
const AT_ONCE: usize = 200;

/// Writes at the same time.
const PARALLEL: usize = 8;

/// Without any news: silence becomes loss with time alone.
const LOOK_ANYWAY: Duration = Duration::from_secs(10);

/// After a write that failed; doubled each time, to five minutes.
const PAUSE: Duration = Duration::from_secs(2);

/// One status to be written.
enum Job {
    Policy {
        key: PolicyKey,
        uid: String,
        status: Box<PolicyStatus>,
        event: Option<Box<Event>>,
    },
    Profile {
        key: ProfileKey,
        uid: String,
        status: Box<ArmorProfileStatus>,
    },
    /// Of the model that this `ArmorProfile` is recorded into, if there is one.
    Model {
        key: ProfileKey,
        uid: String,
        status: Box<ArmorProfileModelStatus>,
    },
}

/// What is to be written in one window.
struct Plan {
    jobs: Vec<Job>,
    /// There is more than fits into it.
    is_more: bool,
    /// The last profile of those that can wait.
    told: Option<ProfileKey>,
}

/// What was written, or could not be.
#[derive(Default)]
struct Past {
    /// By what the write was about: how often, and when to try again.
    failures: HashMap<String, (u32, Instant)>,
    /// By uid of the `ArmorProfile`: what its model says.
    models: HashMap<String, ArmorProfileModelStatus>,
    /// What the model would have said, had there been one.
    absent_models: HashMap<String, ArmorProfileModelStatus>,
    /// The last profile whose status could wait: the next window goes on behind it.
    told: Option<ProfileKey>,
}

impl Past {
    fn is_waiting(&self, about: &str, now: Instant) -> bool {
        self.failures.get(about).is_some_and(|(_, next)| *next > now)
    }

    /// Whether the model of this `ArmorProfile` may lack this status. A recording without a model is asked for it now and
    /// then, and once more when it is complete.
    fn lacks(&self, uid: &str, status: &ArmorProfileModelStatus, now: Instant) -> bool {
        let is_other = self.absent_models.get(uid).is_some_and(|tried| tried != status);
        self.models.get(uid) != Some(status) && (is_other || !self.is_waiting(&about_model(uid), now))
    }

    /// Whether there is a model; `None` if nobody has asked.
    fn has_model(&self, uid: &str) -> Option<bool> {
        let is_absent = self.absent_models.contains_key(uid);
        (is_absent || self.models.contains_key(uid)).then_some(!is_absent)
    }

    fn forget(&mut self, is_known: impl Fn(&str) -> bool, now: Instant) {
        self.models.retain(|uid, _| is_known(uid));
        self.absent_models.retain(|uid, _| is_known(uid));
        // Objects that went are forgotten with the time of their next try.
        self.failures
            .retain(|_, (_, next)| now.saturating_duration_since(*next) < Duration::from_mins(10));
    }
}

/// Runs until the future is dropped.
pub async fn run(context: &Context) {
    let reporter = Reporter {
        controller: MANAGER.to_owned(),
        instance: Some(context.settings.pod_name.clone()),
    };
    let recorder = Recorder::new(context.client.clone(), reporter);
    let mut past = Past::default();
    let mut seen = (0, 0);
    let mut looked = None::<Instant>;
    loop {
        let pause = window(context.nodes().pods().count());
        tokio::time::sleep(pause).await;
        let versions = (context.world().version(), context.nodes().version());
        context.metrics.pulse("the status writer");
        if versions == seen && looked.is_some_and(|at| at.elapsed() < LOOK_ANYWAY) {
            continue;
        }
        let now = Instant::now();
        let Plan { jobs, is_more, told } = plan(context, &past, now);
        past.told = told.or(past.told);
        let results: Vec<(Job, Result<(), kube::Error>)> = stream::iter(jobs)
            .map(|job| async move {
                let result = write(context, &job).await;
                (job, result)
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let mut is_complete = !is_more;
        for (job, result) in results {
            is_complete &= result.is_ok();
            settle(context, &recorder, &mut past, job, result).await;
        }
        // Our own changes to the table are no news, what came while we wrote is.
        seen = if is_complete { versions } else { (0, 0) };
        looked = Some(now);
        context.nodes().sweep(now);
        let world = context.world();
        let known: HashSet<&str> = world.profiles().map(|profile| profile.uid.as_str()).collect();
        past.forget(|uid| known.contains(uid), now);
    }
}

/// Longer with more nodes: each report may change every number.
fn window(nodes: usize) -> Duration {
    let quick = cfg!(test).then_some(Duration::from_millis(200));
    quick.unwrap_or(Duration::from_secs(match nodes {
        0..100 => 2,
        100..1000 => 3,
        1000..5000 => 5,
        _ => 10,
    }))
}

/// What differs.
fn plan(context: &Context, past: &Past, now: Instant) -> Plan {
    let world = context.world();
    let nodes = context.nodes();
    let census = nodes.census(now);
    let time = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_else(|_| Timestamp::now());
    let is_waiting = |about: &str| past.is_waiting(about, now);
    let mut is_held_back = false;
    let (mut first, mut then) = (Vec::new(), Vec::new());
    let tally =
        |profile: &Profile| nodes.tally(&census, &profile.uid, profile.generation, profile.spec_version);
    for policy in world.policies().filter(|policy| !is_waiting(&policy.uid)) {
        let Some(outcome) = world.outcome(&policy.key) else {
            continue;
        };
        let profile = outcome.profile.as_ref().and_then(|key| world.profile(key));
        let known = profile.map(|profile| (profile, tally(profile)));
        let known = known.as_ref().map(|(profile, tally)| (*profile, tally));
        let mut lacks_model = false;
        if let Some((profile, tally)) = known.filter(|_| is_modeling(policy)) {
            let status = model_status(tally, is_recorded(policy, Some(tally)));
            lacks_model = past.lacks(&profile.uid, &status, now);
            if lacks_model {
                then.push(Job::Model {
                    key: profile.key.clone(),
                    uid: profile.uid.clone(),
                    status: Box::new(status),
                });
            }
        }
        let Some(status) = policy_status(policy, outcome, known, &census, time) else {
            continue;
        };
        if lacks_model && status.phase == Some(Phase::Completed) {
            // Whoever waits for the phase finds a model that is ready.
            is_held_back = true;
            continue;
        }
        let model = profile.and_then(|profile| Some((profile, past.has_model(&profile.uid)?)));
        let status = match model {
            Some((profile, is_there)) => with_model(status, &profile.key, is_there),
            None => status,
        };
        if status != policy.status {
            first.push(Job::Policy {
                key: policy.key.clone(),
                uid: policy.uid.clone(),
                event: event(&policy.status, &status).map(Box::new),
                status: Box::new(status),
            });
        }
    }
    let mut last = Vec::new();
    for profile in world
        .profiles()
        .filter(|profile| profile.owner.is_some() && !is_waiting(&profile.uid))
    {
        let status = profile_status(profile, &tally(profile), &census, time);
        if profile.status.as_ref() == Some(&status) {
            continue;
        }
        let is_news = news::is_news(profile.status.as_ref(), &status);
        let job = Job::Profile {
            key: profile.key.clone(),
            uid: profile.uid.clone(),
            status: Box::new(status),
        };
        if is_news {
            then.push(job);
        } else {
            last.push((profile.key.clone(), job));
        }
    }
    let share = news::share(census.desired, window(census.desired));
    let mut is_more = is_held_back || first.len() + then.len() > AT_ONCE || last.len() > share;
    first.extend(then);
    first.truncate(AT_ONCE);
    let mut told = None;
    for (key, job) in in_turn(last, past.told.as_ref()).into_iter().take(share) {
        if first.len() == AT_ONCE {
            is_more = true;
            break;
        }
        first.push(job);
        told = Some(key);
    }
    Plan {
        jobs: first,
        is_more,
        told,
    }
}

/// From behind the last one on, and around. They come in the order of their keys, as the profiles of the table do.
fn in_turn<T>(mut jobs: Vec<(ProfileKey, T)>, last: Option<&ProfileKey>) -> Vec<(ProfileKey, T)> {
    let behind = jobs.partition_point(|(key, _)| Some(key) <= last);
    jobs.rotate_left(behind);
    jobs
}

async fn write(context: &Context, job: &Job) -> Result<(), kube::Error> {
    let client = context.client.clone();
    let (api, kind, name, uid, status): (Api<DynamicObject>, &str, &str, Option<&String>, Value) = match job {
        Job::Policy { key, uid, status, .. } => {
            let api = match &key.namespace {
                Some(namespace) => Api::namespaced_with(client, namespace, &key.resource()),
                None => Api::all_with(client, &key.resource()),
            };
            (api, key.kind(), &key.name, Some(uid), json!(status))
        }
        Job::Profile { key, uid, status } => {
            let api = Api::namespaced_with(client, &key.namespace, &Profile::resource());
            (api, "ArmorProfile", &key.name, Some(uid), json!(status))
        }
        Job::Model { key, status, .. } => {
            let api = Api::namespaced_with(client, &key.namespace, &model_resource());
            (api, "ArmorProfileModel", &key.name, None, json!(status))
        }
    };
    let mut object = json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "status": status,
    });
    if let Some(uid) = uid {
        object["metadata"]["uid"] = json!(uid);
    }
    let params = PatchParams::apply(STATUS_MANAGER).force();
    let written = api.patch_status(name, &params, &Patch::Apply(object)).await;
    context.metrics.status_write(written.is_ok());
    written.map(|_| ())
}

async fn settle(
    context: &Context,
    recorder: &Recorder,
    past: &mut Past,
    job: Job,
    result: Result<(), kube::Error>,
) {
    let (about, name) = match &job {
        Job::Policy { key, uid, .. } => (uid.clone(), key.to_string()),
        Job::Profile { key, uid, .. } => (uid.clone(), format!("ArmorProfile {key}")),
        Job::Model { key, uid, .. } => (about_model(uid), format!("ArmorProfileModel {key}")),
    };
    if let Err(error) = result {
        // Gone, or another object by now: the watch will tell.
        let is_over =
            matches!(&error, kube::Error::Api(status) if status.is_not_found() || status.is_conflict());
        let (count, next) = past.failures.entry(about).or_insert((0, Instant::now()));
        *count += 1;
        *next = Instant::now() + PAUSE * (1 << (*count).min(7));
        if let (Job::Model { uid, status, .. }, true) = (job, is_over) {
            // The first node that is done makes it.
            *next = Instant::now() + LOOK_ANYWAY;
            past.absent_models.insert(uid, *status);
        }
        if !is_over {
            tracing::warn!(
                object = name,
                error = crate::told(&error),
                "cannot write the status; it is tried again"
            );
        }
        return;
    }
    past.failures.remove(&about);
    match job {
        Job::Policy {
            key,
            uid,
            status,
            event,
        } => {
            context.world().set_policy_status(&key, &uid, *status);
            if let Some(event) = event {
                let reference = reference(&key, &uid, &context.settings.namespace);
                if let Err(error) = recorder.publish(&event, &reference).await {
                    tracing::debug!(policy = %key, error = crate::told(&error), "cannot write an Event");
                }
            }
        }
        Job::Profile { key, uid, status } => context.world().set_profile_status(&key, &uid, *status),
        Job::Model { uid, status, .. } => {
            past.absent_models.remove(&uid);
            past.models.insert(uid, *status);
        }
    }
}

/// The profile and its model are written apart.
fn about_model(uid: &str) -> String {
    format!("model of {uid}")
}

/// What is worth an Event: readiness that came or went, and another problem than before.
fn event(old: &PolicyStatus, new: &PolicyStatus) -> Option<Event> {
    let of = |status: &PolicyStatus, kind: &str| {
        let found = status.conditions.iter().find(|one| one.kind == kind);
        found.map(|one| (one.status.clone(), one.reason.clone(), one.message.clone()))
    };
    let failed = ["Created", "Updated"]
        .into_iter()
        .find(|kind| of(new, kind).is_some_and(|one| one.0 == "False") && of(new, kind) != of(old, kind));
    let (kind, is_good) = match failed {
        Some(kind) => (kind, false),
        None if new.ready && !old.ready => ("Ready", true),
        // The first look at a policy that nodes have yet to load is no event.
        None if of(new, "Ready").map(|one| one.1) != of(old, "Ready").map(|one| one.1)
            && new.phase == Some(Phase::Error)
            || (old.ready && !new.ready) =>
        {
            ("Ready", false)
        }
        None => return None,
    };
    let (_, reason, message) = of(new, kind)?;
    Some(Event {
        type_: if is_good {
            EventType::Normal
        } else {
            EventType::Warning
        },
        reason: reason.unwrap_or_default(),
        note: message.map(|message| message.chars().take(1000).collect()),
        action: "Reconcile".to_owned(),
        secondary: None,
    })
}

/// Events of cluster policies are written into the namespace of the controller, which must be allowed to.
fn reference(key: &PolicyKey, uid: &str, own_namespace: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some(key.kind().to_owned()),
        name: Some(key.name.clone()),
        namespace: Some(key.namespace.clone().unwrap_or_else(|| own_namespace.to_owned())),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use varmor_common::policy::PolicyCondition;

    use super::*;

    fn status(ready: bool, phase: Phase, conditions: &[(&str, &str, &str)]) -> PolicyStatus {
        PolicyStatus {
            ready,
            phase: Some(phase),
            conditions: conditions
                .iter()
                .map(|(kind, status, reason)| PolicyCondition {
                    kind: (*kind).to_owned(),
                    status: (*status).to_owned(),
                    last_transition_time: None,
                    reason: Some((*reason).to_owned()),
                    message: Some("m".to_owned()),
                    observed_generation: None,
                })
                .collect(),
            ..PolicyStatus::default()
        }
    }

    #[test]
    fn events_tell_transitions_only() {
        let pending = status(
            false,
            Phase::Pending,
            &[("Created", "True", "Done"), ("Ready", "False", "Processing")],
        );
        let good = status(
            true,
            Phase::Protecting,
            &[("Created", "True", "Done"), ("Ready", "True", "AllAgentsReady")],
        );
        let refused = status(
            false,
            Phase::Error,
            &[("Updated", "False", "Forbidden"), ("Ready", "False", "Forbidden")],
        );
        let reason = |old: &PolicyStatus, new: &PolicyStatus| event(old, new).map(|event| event.reason);
        assert_eq!(reason(&PolicyStatus::default(), &pending), None);
        assert_eq!(reason(&pending, &good).as_deref(), Some("AllAgentsReady"));
        assert_eq!(reason(&good, &good), None);
        assert_eq!(reason(&good, &refused).as_deref(), Some("Forbidden"));
        assert_eq!(reason(&refused, &refused), None);
        assert_eq!(reason(&good, &pending).as_deref(), Some("Processing"));
    }

    #[test]
    fn what_can_wait_goes_on_behind_the_last_one() {
        let key = |name: &str| ProfileKey {
            namespace: "n".to_owned(),
            name: name.to_owned(),
        };
        let names = |last: Option<&str>| {
            let jobs = ["a", "c", "e"].map(|name| (key(name), ())).into();
            let last = last.map(key);
            let turn = in_turn(jobs, last.as_ref()).into_iter().map(|(key, ())| key.name);
            turn.collect::<Vec<_>>().concat()
        };
        assert_eq!(names(None), "ace");
        assert_eq!(names(Some("a")), "cea");
        assert_eq!(names(Some("b")), "cea");
        assert_eq!(names(Some("e")), "ace");
    }

    #[test]
    fn a_model_that_is_not_there_yet_is_asked_again_when_the_recording_is_complete() {
        let now = Instant::now();
        let recording = ArmorProfileModelStatus::default();
        let complete = ArmorProfileModelStatus {
            ready: true,
            ..ArmorProfileModelStatus::default()
        };
        let mut past = Past::default();
        assert!(past.lacks("u", &recording, now));
        assert_eq!(past.has_model("u"), None);
        past.failures.insert(about_model("u"), (1, now + LOOK_ANYWAY));
        assert!(
            !past.lacks("u", &recording, now),
            "an API server that fails is left alone"
        );
        past.absent_models.insert("u".to_owned(), recording.clone());
        assert!(!past.lacks("u", &recording, now));
        assert!(past.lacks("u", &recording, now + LOOK_ANYWAY));
        assert!(past.lacks("u", &complete, now));
        assert_eq!(past.has_model("u"), Some(false));
        past.absent_models.remove("u");
        past.models.insert("u".to_owned(), complete.clone());
        assert_eq!(past.has_model("u"), Some(true));
        assert!(!past.lacks("u", &complete, now));
        past.forget(|_| false, now);
        assert!(past.models.is_empty() && past.absent_models.is_empty());
    }
}
