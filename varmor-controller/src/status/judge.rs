//! The status that a policy and its profile should have. No IO.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use varmor_common::policy::{
    ArmorProfileModelStatus, ArmorProfileStatus, NodeCondition, Phase, PolicyCondition, PolicyStatus,
};
use varmor_common::report::ProfileState;

use super::nodes::{Census, Tally};
use crate::object::{Policy, Profile, ProfileKey};
use crate::reasons;
use crate::world::{Outcome, Problem};

/// Nodes that an `ArmorProfile` lists; the rest is counted. Its status has to fit into one object.
const LISTED: usize = 50;

/// Reasons of nodes that hold the profile in part, or not at all.
pub(super) const DEGRADED: &str = "Degraded";
pub(super) const FAILED: &str = "Failed";

/// The status of an `ArmorProfile`. Times of conditions that say the same as before are kept.
#[must_use]
pub fn profile_status(
    profile: &Profile,
    tally: &Tally,
    census: &Census,
    now: Timestamp,
) -> ArmorProfileStatus {
    let old = profile
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let failed = tally.problems.iter().map(|(node, exception)| {
        let reason = match exception.state {
            ProfileState::Degraded => DEGRADED,
            ProfileState::Failed | ProfileState::Pending | ProfileState::Recording => FAILED,
        };
        (node.as_str(), reason, exception.message.clone())
    });
    let lost = census.lost.iter().map(|node| {
        (
            node.as_str(),
            "Lost",
            "the agent of this node does not report; what it enforces is not known".to_owned(),
        )
    });
    let total = tally.problems.len() + census.lost.len();
    let more = (total > LISTED).then(|| ("", "More", format!("and {} more nodes", total - LISTED)));
    let conditions = failed
        .chain(lost)
        .take(LISTED)
        .chain(more)
        .map(|(node, reason, message)| node_condition(node, reason, message, old, now))
        .collect();
    ArmorProfileStatus {
        desired_number_loaded: number(tally.desired),
        current_number_loaded: number(tally.loaded),
        conditions,
        observed_generation: Some(profile.generation),
    }
}

/// The status of a policy. `None` while its present generation has not been looked at: what is there is about an older
/// one, and says so.
#[must_use]
pub fn policy_status(
    policy: &Policy,
    outcome: &Outcome,
    profile: Option<(&Profile, &Tally)>,
    census: &Census,
    now: Timestamp,
) -> Option<PolicyStatus> {
    if (outcome.uid.as_str(), outcome.generation) != (policy.uid.as_str(), policy.generation) {
        return None;
    }
    let ready = readiness(outcome, profile, census);
    let phase = phase(
        policy,
        outcome,
        profile.map(|(_, tally)| tally),
        ready.0 == "True",
    );
    let problem = outcome.problem.as_ref();
    let mut conditions = Vec::new();
    let mut add = |kind: &str, (status, reason, message): Verdict| {
        conditions.push(condition(policy, kind, status, reason, message));
    };
    add("Created", created(outcome, problem));
    let has_updated = policy.status.conditions.iter().any(|one| one.kind == "Updated");
    if outcome.profile.is_some() && (policy.generation > 1 || has_updated || problem.is_some()) {
        add("Updated", updated(problem));
    }
    let is_ready = ready.0 == "True";
    add("Ready", ready);
    for condition in &mut conditions {
        keep_time(condition, &policy.status.conditions, now);
    }
    Some(PolicyStatus {
        profile_name: name(outcome, policy),
        conditions,
        ready: is_ready,
        phase: Some(phase),
        observed_generation: Some(policy.generation),
    })
}

/// The status of the `ArmorProfileModel` that a policy is recorded into.
pub(super) fn model_status(tally: &Tally, is_recorded: bool) -> ArmorProfileModelStatus {
    let completed = tally.loaded.saturating_sub(tally.recording);
    ArmorProfileModelStatus {
        desired_number: number(tally.desired),
        completed_number: number(completed),
        ready: is_recorded,
        conditions: Vec::new(),
    }
}

/// Says of a recording that is complete where it is.
#[must_use]
pub(super) fn with_model(mut status: PolicyStatus, profile: &ProfileKey, is_there: bool) -> PolicyStatus {
    let is_complete = status.phase == Some(Phase::Completed) && status.ready;
    let mut conditions = status.conditions.iter_mut();
    if let Some(ready) = conditions.find(|one| is_complete && one.kind == "Ready") {
        ready.message = Some(if is_there {
            format!("every node has recorded; the ArmorProfileModel {profile} has it")
        } else {
            format!(
                "no node has seen the workloads do anything, so there is no ArmorProfileModel {profile}; delete the policy and apply \
                 it again while they run"
            )
        });
    }
    status
}

/// Status, reason and message.
type Verdict = (&'static str, &'static str, String);

fn created(outcome: &Outcome, problem: Option<&Problem>) -> Verdict {
    match (&outcome.profile, problem) {
        (Some(profile), _) => (
            "True",
            reasons::DONE,
            format!("the ArmorProfile {profile} exists"),
        ),
        (None, Some(problem)) => ("False", problem.reason, problem.message.clone()),
        (None, None) => (
            "Unknown",
            reasons::PROCESSING,
            "the ArmorProfile is about to be written".to_owned(),
        ),
    }
}

fn updated(problem: Option<&Problem>) -> Verdict {
    match problem {
        Some(problem) => ("False", problem.reason, problem.message.clone()),
        None => (
            "True",
            reasons::DONE,
            "the ArmorProfile is as the policy says".to_owned(),
        ),
    }
}

fn readiness(outcome: &Outcome, profile: Option<(&Profile, &Tally)>, census: &Census) -> Verdict {
    if let Some(problem) = &outcome.problem {
        let in_force = match &outcome.profile {
            Some(_) => "the last state that was accepted stays in force",
            None => "nothing is in force",
        };
        return (
            "False",
            problem.reason,
            format!("the policy is not in force as it is written; {in_force}"),
        );
    }
    let Some((profile, tally)) = profile else {
        return (
            "False",
            reasons::PROCESSING,
            "the ArmorProfile is about to be written".to_owned(),
        );
    };
    let key: &ProfileKey = &profile.key;
    if !tally.problems.is_empty() {
        let message =
            format!("nodes cannot hold the profile as it is written; the ArmorProfile {key} names them");
        return ("False", reasons::ERROR, message);
    }
    if tally.is_everywhere() {
        return ("True", reasons::READY, "every node has the profile".to_owned());
    }
    if census.desired == 0 {
        let message =
            "no node has an agent, so nothing is enforced; look at the pods of the agent".to_owned();
        return ("False", reasons::NO_NODES, message);
    }
    if !census.lost.is_empty() {
        let message = format!("agents of nodes do not report; the ArmorProfile {key} names them");
        return ("False", reasons::NODES_LOST, message);
    }
    // Without numbers: they change with each node, and the ArmorProfile has them.
    let message = format!("nodes are loading the profile; the ArmorProfile {key} counts them");
    ("False", reasons::PROCESSING, message)
}

fn phase(policy: &Policy, outcome: &Outcome, tally: Option<&Tally>, is_ready: bool) -> Phase {
    let is_failed = outcome.problem.is_some() || tally.is_some_and(|tally| !tally.problems.is_empty());
    let is_same = policy.status.observed_generation == Some(policy.generation);
    let was_protecting = is_same && policy.status.phase == Some(Phase::Protecting);
    match () {
        () if is_failed => Phase::Error,
        () if is_modeling(policy) && is_recorded(policy, tally) => Phase::Completed,
        () if is_modeling(policy) => Phase::Modeling,
        () if is_ready || was_protecting => Phase::Protecting,
        () => Phase::Pending,
    }
}

/// Whether the policy records what its workloads do.
#[must_use]
pub fn is_modeling(policy: &Policy) -> bool {
    policy.read.as_ref().is_ok_and(|interest| interest.is_modeling)
}

/// Whether every node has recorded for the whole time and its model is here. What is complete stays so: a node that
/// joins later begins anew, and nobody waits for it.
#[must_use]
pub fn is_recorded(policy: &Policy, tally: Option<&Tally>) -> bool {
    let was_recorded = policy.status.observed_generation == Some(policy.generation)
        && policy.status.phase == Some(Phase::Completed);
    was_recorded || tally.is_some_and(|tally| tally.is_everywhere() && tally.recording == 0)
}

fn name(outcome: &Outcome, policy: &Policy) -> String {
    match &outcome.profile {
        Some(profile) => profile.name.clone(),
        None => policy.status.profile_name.clone(),
    }
}

fn condition(policy: &Policy, kind: &str, status: &str, reason: &str, message: String) -> PolicyCondition {
    PolicyCondition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        last_transition_time: None,
        reason: Some(reason.to_owned()),
        message: Some(message),
        observed_generation: Some(policy.generation),
    }
}

/// The time is when the status changed last, not when it was written last.
fn keep_time(condition: &mut PolicyCondition, old: &[PolicyCondition], now: Timestamp) {
    let same = old
        .iter()
        .find(|one| one.kind == condition.kind && one.status == condition.status);
    let time = same.and_then(|one| one.last_transition_time.clone());
    condition.last_transition_time = Some(time.unwrap_or(Time(now)));
}

fn node_condition(
    node: &str,
    reason: &str,
    message: String,
    old: &[NodeCondition],
    now: Timestamp,
) -> NodeCondition {
    let same = old
        .iter()
        .find(|one| one.node_name == node && one.reason.as_deref() == Some(reason));
    let time = same.and_then(|one| one.last_transition_time.clone());
    NodeCondition {
        kind: "Ready".to_owned(),
        status: "False".to_owned(),
        node_name: node.to_owned(),
        last_transition_time: Some(time.unwrap_or(Time(now))),
        reason: Some(reason.to_owned()),
        message: Some(message),
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
