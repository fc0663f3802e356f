//! A status says what is known about this generation, and nothing more.

use serde_json::json;

use super::super::nodes::Exception;
use super::*;
use crate::object::tests as objects;

fn at(second: i64) -> Timestamp {
    // The API server keeps seconds.
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn policy() -> Policy {
    objects::policy(Some("demo"), "web", "u1", &objects::spec("BPF"))
}

fn profile() -> Profile {
    let object = json!({"apiVersion": "crd.varmor.org/v1beta1", "kind": "ArmorProfile", "metadata": {
        "name": "varmor-demo-web", "namespace": "demo", "uid": "p1", "generation": 3, "resourceVersion": "10"}});
    Profile::read(serde_json::from_value(object).unwrap()).unwrap()
}

fn outcome(problem: Option<Problem>) -> Outcome {
    Outcome {
        uid: "u1".to_owned(),
        generation: 1,
        profile: Some(profile().key),
        problem,
    }
}

fn tally(desired: usize, loaded: usize) -> Tally {
    Tally {
        desired,
        loaded,
        problems: Vec::new(),
        recording: 0,
    }
}

fn census(desired: usize, lost: &[&str]) -> Census {
    Census {
        desired,
        lost: lost.iter().map(|name| (*name).to_owned()).collect(),
        ..Census::default()
    }
}

fn shown(status: &PolicyStatus) -> String {
    let conditions: Vec<String> = status
        .conditions
        .iter()
        .map(|one| {
            format!(
                "{}={}:{}",
                one.kind,
                one.status,
                one.reason.clone().unwrap_or_default()
            )
        })
        .collect();
    format!(
        "{:?} {} {}",
        status.phase.unwrap(),
        status.ready,
        conditions.join(" ")
    )
}

fn judged(policy: &Policy, tally: &Tally, census: &Census, second: i64) -> PolicyStatus {
    policy_status(
        policy,
        &outcome(None),
        Some((&profile(), tally)),
        census,
        at(second),
    )
    .unwrap()
}

#[test]
fn a_policy_is_ready_when_every_node_has_it() {
    let policy = policy();
    let nodes = census(2, &[]);
    assert_eq!(
        shown(&judged(&policy, &tally(2, 1), &nodes, 0)),
        "Pending false Created=True:Done Ready=False:Processing"
    );
    assert_eq!(
        shown(&judged(&policy, &tally(2, 2), &nodes, 0)),
        "Protecting true Created=True:Done Ready=True:AllAgentsReady"
    );
    let none = census(0, &[]);
    assert_eq!(
        shown(&judged(&policy, &tally(0, 0), &none, 0)),
        "Pending false Created=True:Done Ready=False:NoNodes"
    );
}

#[test]
fn a_recording_is_complete_when_every_model_is_here_and_stays_so() {
    let mut rules = objects::spec("BPF");
    rules["policy"] =
        json!({"enforcer": "BPF", "mode": "BehaviorModeling", "modelingOptions": {"duration": 1}});
    let mut policy = objects::policy(Some("demo"), "web", "u1", &rules);
    let nodes = census(2, &[]);
    let mut tally = tally(2, 2);
    let mut phase = |policy: &mut Policy, recording: usize| {
        tally.recording = recording;
        policy.status = judged(policy, &tally, &nodes, 0);
        policy.status.phase.unwrap()
    };
    assert_eq!(phase(&mut policy, 2), Phase::Modeling);
    assert_eq!(phase(&mut policy, 1), Phase::Modeling);
    assert_eq!(phase(&mut policy, 0), Phase::Completed);
    assert_eq!(phase(&mut policy, 1), Phase::Completed, "a node joined later");
    let key = ProfileKey {
        namespace: "demo".to_owned(),
        name: "varmor-demo-web".to_owned(),
    };
    let message = |is_there| {
        let said = with_model(policy.status.clone(), &key, is_there).conditions;
        said.last().and_then(|ready| ready.message.clone()).unwrap()
    };
    assert!(message(true).contains("the ArmorProfileModel demo/varmor-demo-web has it"));
    assert!(message(false).contains("there is no ArmorProfileModel"));
    policy.status.observed_generation = Some(0);
    assert_eq!(phase(&mut policy, 1), Phase::Modeling, "the policy was changed");
    tally.recording = 1;
    let status = model_status(&tally, false);
    assert_eq!(
        (status.desired_number, status.completed_number, status.ready),
        (2, 1, false)
    );
}

#[test]
fn a_node_that_is_lost_later_does_not_undo_the_phase_but_the_readiness() {
    let mut policy = policy();
    policy.status = judged(&policy, &tally(2, 2), &census(2, &[]), 0);
    let lost = judged(&policy, &tally(2, 1), &census(2, &["n2"]), 5);
    assert_eq!(
        shown(&lost),
        "Protecting false Created=True:Done Ready=False:NodesLost"
    );
    let times: Vec<Timestamp> = lost
        .conditions
        .iter()
        .map(|one| one.last_transition_time.clone().unwrap().0)
        .collect();
    assert_eq!(times, [at(0), at(5)], "only what changed has a new time");
    policy.status = lost.clone();
    assert_eq!(
        judged(&policy, &tally(2, 1), &census(2, &["n2"]), 9),
        lost,
        "and nothing is written again"
    );
}

#[test]
fn a_failed_node_is_an_error_that_the_profile_explains() {
    let mut tally = tally(2, 1);
    let exception = Exception {
        generation: 3,
        state: ProfileState::Failed,
        message: "no BPF".to_owned(),
    };
    tally.problems.push(("n2".to_owned(), exception));
    assert_eq!(
        shown(&judged(&policy(), &tally, &census(2, &[]), 0)),
        "Error false Created=True:Done Ready=False:Error"
    );
    let status = profile_status(&profile(), &tally, &census(2, &["n3"]), at(0));
    assert_eq!(
        (status.desired_number_loaded, status.current_number_loaded),
        (2, 1)
    );
    let nodes: Vec<&str> = status
        .conditions
        .iter()
        .map(|one| one.node_name.as_str())
        .collect();
    assert_eq!(nodes, ["n2", "n3"]);
    assert_eq!(status.observed_generation, Some(3));
}

#[test]
fn a_list_of_nodes_ends_with_how_many_more() {
    let names: Vec<String> = (0..60).map(|number| format!("n{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let status = profile_status(&profile(), &tally(60, 0), &census(60, &names), at(0));
    assert_eq!(status.conditions.len(), LISTED + 1);
    assert_eq!(
        status.conditions[LISTED].message.as_deref(),
        Some("and 10 more nodes")
    );
}

#[test]
fn a_refused_change_is_told_and_nothing_is_said_of_a_generation_that_was_not_looked_at() {
    let problem = Problem {
        reason: reasons::FORBIDDEN,
        message: "spec.target: no".to_owned(),
    };
    let mut policy = policy();
    policy.generation = 2;
    let nodes = census(1, &[]);
    let tally = tally(1, 1);
    let profile = profile();
    let known = Some((&profile, &tally));
    assert!(policy_status(&policy, &outcome(Some(problem.clone())), known, &nodes, at(0)).is_none());
    let mut outcome = outcome(Some(problem));
    outcome.generation = 2;
    let status = policy_status(&policy, &outcome, known, &nodes, at(0)).unwrap();
    assert_eq!(
        shown(&status),
        "Error false Created=True:Done Updated=False:Forbidden Ready=False:Forbidden"
    );
    outcome.profile = None;
    let status = policy_status(&policy, &outcome, None, &nodes, at(0)).unwrap();
    assert_eq!(
        shown(&status),
        "Error false Created=False:Forbidden Ready=False:Forbidden"
    );
    outcome.uid = "u0".to_owned();
    assert!(
        policy_status(&policy, &outcome, None, &nodes, at(0)).is_none(),
        "another policy of that name"
    );
}
