//! Recordings that go on, end and are dropped.

use varmor_common::abi;
use varmor_common::profile::NodeFacts;

use super::*;
use crate::enforcer::fake::FakeEnforcer;
use crate::enforcer::{Absent, Enforcer as _, Resolution};
use crate::events::{Event, Node, raw_event};
use crate::source::Catalog;

impl Resident for FakeEnforcer {}

const NAME: &str = "varmor-demo-p";

fn recorded(minutes: u64) -> Vec<PolicyObject> {
    let text = format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {{name: p, namespace: demo}}\nspec:\n  target: \
         {{kind: Pod, name: p}}\n  policy: {{enforcer: BPF, mode: BehaviorModeling, modelingOptions: {{duration: {minutes}}}}}\n"
    );
    let mut catalog = Catalog::new(NodeFacts::default());
    catalog.update([("p.yaml".to_owned(), Ok(text.into_bytes()))].into());
    let objects: Vec<PolicyObject> = catalog.objects().cloned().collect();
    assert_eq!(objects[0].recorded_for, Some(Duration::from_mins(minutes)));
    objects
}

fn event(path: &str) -> Violation {
    let mut raw = raw_event(abi::EVENT_FILE, abi::operation::OPEN, path);
    raw.head.action = abi::ACTION_ALLOWED;
    let resolution = Resolution {
        profile: Some(NAME.to_owned()),
        ..Resolution::default()
    };
    let now = SystemTime::now();
    Violation::new(
        Event::try_from(&raw).unwrap(),
        resolution,
        None,
        &Node::default(),
        1,
        now,
    )
}

/// What the agent does each time: policies first, then what the kernel has, then the end.
fn follow(
    observations: &mut Observations,
    policies: &[PolicyObject],
    enforcer: &mut dyn Resident,
    now: SystemTime,
) -> bool {
    observations.follow(policies, enforcer, now);
    observations.end(enforcer, now)
}

fn minutes(number: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_mins(1000 + number)
}

#[test]
fn recording_goes_on_over_a_restart_and_ends_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut enforcer = Absent::new("no kernel".to_owned());
    let mut observations = Observations::new(folder.path());
    assert!(!follow(
        &mut observations,
        &recorded(10),
        &mut enforcer,
        minutes(0)
    ));
    assert_eq!(observations.progress(NAME), Some(Progress::Recording));
    assert!(observations.take(event("/etc/one")).is_none(), "it is not logged");

    let mut observations = Observations::new(folder.path());
    assert!(!follow(
        &mut observations,
        &recorded(10),
        &mut enforcer,
        minutes(6)
    ));
    assert!(observations.take(event("/etc/two")).is_none());
    assert!(!follow(
        &mut observations,
        &recorded(10),
        &mut enforcer,
        minutes(9)
    ));
    assert!(
        follow(&mut observations, &recorded(10), &mut enforcer, minutes(10)),
        "ten minutes after the first start"
    );
    assert_eq!(observations.progress(NAME), Some(Progress::Completed));
    let model = std::fs::read_to_string(folder.path().join(NAME).join("model.yaml")).unwrap();
    assert!(
        model.contains("/etc/one") && model.contains("/etc/two"),
        "{model}"
    );
    assert!(observations.take(event("/etc/three")).is_some(), "it is over");

    let mut observations = Observations::new(folder.path());
    follow(&mut observations, &recorded(10), &mut enforcer, minutes(11));
    assert_eq!(
        observations.progress(NAME),
        Some(Progress::Completed),
        "and stays over"
    );
}

#[test]
fn what_the_kernel_kept_while_no_agent_was_there_is_in_a_model_whose_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut enforcer = Absent::new("no kernel".to_owned());
    let mut observations = Observations::new(folder.path());
    follow(&mut observations, &recorded(10), &mut enforcer, minutes(0));

    let mut observations = Observations::new(folder.path());
    observations.follow(&recorded(10), &mut enforcer, minutes(30));
    assert!(observations.take(event("/etc/late")).is_none());
    assert!(observations.end(&mut enforcer, minutes(30)));
    let model = std::fs::read_to_string(folder.path().join(NAME).join("model.yaml")).unwrap();
    assert!(model.contains("/etc/late"), "{model}");
}

#[test]
fn time_runs_from_when_the_kernel_holds_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let mut enforcer = FakeEnforcer::default();
    let mut observations = Observations::new(folder.path());
    assert!(!follow(
        &mut observations,
        &recorded(1),
        &mut enforcer,
        minutes(0)
    ));
    assert!(
        !follow(&mut observations, &recorded(1), &mut enforcer, minutes(5)),
        "its programs are being loaded"
    );
    assert_eq!(observations.progress(NAME), Some(Progress::Recording));
    let said = observations.described(NAME).unwrap();
    assert!(said.contains("once the kernel holds"), "{said}");

    enforcer.apply(&recorded(1)[0].profile).unwrap();
    assert!(!follow(
        &mut observations,
        &recorded(1),
        &mut enforcer,
        minutes(6)
    ));
    assert!(observations.take(event("/etc/one")).is_none());
    // Another agent does not start it again.
    let mut observations = Observations::new(folder.path());
    assert!(follow(&mut observations, &recorded(1), &mut enforcer, minutes(7)));
    assert_eq!(observations.progress(NAME), Some(Progress::Completed));
}

#[test]
fn removed_policy_drops_the_recording_and_keeps_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let mut enforcer = Absent::new("no kernel".to_owned());
    let mut observations = Observations::new(folder.path());
    follow(&mut observations, &recorded(10), &mut enforcer, minutes(0));
    observations.take(event("/etc/one"));
    follow(&mut observations, &[], &mut enforcer, minutes(1));
    assert_eq!(observations.progress(NAME), None);
    assert!(!folder.path().join(NAME).exists());

    follow(&mut observations, &recorded(1), &mut enforcer, minutes(2));
    observations.take(event("/etc/two"));
    follow(&mut observations, &recorded(1), &mut enforcer, minutes(3));
    follow(&mut observations, &[], &mut enforcer, minutes(4));
    let model = std::fs::read_to_string(folder.path().join(NAME).join("model.yaml")).unwrap();
    assert!(
        model.contains("/etc/two") && !model.contains("/etc/one"),
        "{model}"
    );
}

#[test]
fn shorter_time_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut enforcer = Absent::new("no kernel".to_owned());
    let mut observations = Observations::new(folder.path());
    follow(&mut observations, &recorded(10), &mut enforcer, minutes(0));
    observations.take(event("/etc/one"));
    assert!(follow(&mut observations, &recorded(2), &mut enforcer, minutes(3)));
}

#[test]
fn events_of_other_profiles_are_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut observations = Observations::new(folder.path());
    assert!(observations.take(event("/etc/one")).is_some());
}
