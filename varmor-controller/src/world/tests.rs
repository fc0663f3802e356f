//! The table: who concerns whom.

use serde_json::{Value, json};

use super::*;
use crate::object::tests as objects;

fn profile(name: &str, namespace: &str, version: u64, generation: i64, source: &Value) -> Profile {
    let object = json!({"apiVersion": "crd.varmor.org/v1beta1", "kind": "ArmorProfile",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "generation": generation,
            "resourceVersion": version.to_string()},
        "spec": {"policy": source}});
    Profile::read(serde_json::from_value(object).unwrap()).unwrap()
}

fn key(namespace: Option<&str>, name: &str) -> PolicyKey {
    PolicyKey {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

#[test]
fn a_version_counts_from_when_the_generation_was_first_seen() {
    let mut world = World::new("varmor");
    let source = json!({"kind": "VarmorPolicy", "namespace": "a", "name": "web"});
    let at = |world: &World| world.profiles().next().unwrap().spec_version;
    assert_eq!(
        world.set_profile(profile("p", "a", 10, 1, &source)),
        Some(key(Some("a"), "web"))
    );
    world.set_profile(profile("p", "a", 12, 1, &source));
    assert_eq!(at(&world), 10, "a status write is no new profile");
    world.set_profile(profile("p", "a", 15, 2, &source));
    assert_eq!(at(&world), 15);
    assert_eq!(
        world.set_profile(profile("p", "a", 12, 1, &source)),
        None,
        "the watch is behind our own write"
    );
    assert_eq!(at(&world), 15);
}

#[test]
fn a_profile_belongs_to_a_policy_only_where_that_policys_profile_lives() {
    let mut world = World::new("varmor");
    let of_cluster = json!({"kind": "VarmorClusterPolicy", "name": "web"});
    assert_eq!(
        world.set_profile(profile("p", "varmor", 1, 1, &of_cluster)),
        Some(key(None, "web"))
    );
    assert_eq!(world.set_profile(profile("p", "evil", 1, 1, &of_cluster)), None);
    let of_other = json!({"kind": "VarmorPolicy", "namespace": "a", "name": "web"});
    assert_eq!(world.set_profile(profile("q", "evil", 1, 1, &of_other)), None);
    assert_eq!(world.set_profile(profile("r", "a", 1, 1, &json!({}))), None);
}

#[test]
fn a_stranger_has_a_name_as_much_as_a_policy() {
    let mut world = World::new("varmor");
    world.set_profile(profile("varmor-a-web", "elsewhere", 1, 1, &json!({})));
    world.set_policy(objects::policy(Some("a"), "web", "u1", &objects::spec("BPF")));
    let name = world.name(&key(Some("a"), "web")).unwrap();
    assert!(name.starts_with("varmor-a-web-"), "{name}");
}

#[test]
fn a_name_is_free_again_when_policy_and_profile_are_gone() {
    let mut world = World::new("varmor");
    let (one, other) = (key(Some("a"), "b-c"), key(Some("a-b"), "c"));
    world.set_policy(objects::policy(Some("a"), "b-c", "u1", &objects::spec("BPF")));
    world.set_policy(objects::policy(Some("a-b"), "c", "u2", &objects::spec("BPF")));
    let second = world.name(&other).unwrap();
    assert_ne!(
        second, "varmor-a-b-c",
        "both are of the same second; the uid decides"
    );
    assert_eq!(world.name(&one).unwrap(), "varmor-a-b-c");
    let source = json!({"kind": "VarmorPolicy", "namespace": "a", "name": "b-c"});
    world.set_profile(profile("varmor-a-b-c", "a", 1, 1, &source));
    world.remove_policy(&one);
    world.set_policy(objects::policy(Some("a-b"), "c", "u3", &objects::spec("BPF")));
    assert_eq!(
        world.name(&other).unwrap(),
        second,
        "the profile is still there, and a name is kept"
    );
    let profile = ProfileKey {
        namespace: "a".to_owned(),
        name: "varmor-a-b-c".to_owned(),
    };
    assert_eq!(world.remove_profile(&profile), Some(one.clone()));
    assert!(world.names.of(&one).is_none());
}

#[test]
fn a_policy_looks_again_when_what_it_means_changes_and_not_for_its_status() {
    let mut world = World::new("varmor");
    let mut policy = objects::policy(Some("a"), "web", "u1", &objects::spec("BPF"));
    assert!(world.set_policy(policy.clone()));
    policy.status.ready = true;
    assert!(!world.set_policy(policy.clone()));
    policy.generation = 2;
    assert!(world.set_policy(policy));
    let workload = |label: &str| Workload {
        labels: BTreeMap::from([("app".to_owned(), label.to_owned())]),
        selector: serde_json::from_value(json!({"matchLabels": {"pod": "x"}})).unwrap(),
    };
    let of = |namespace: &str, name: &str| WorkloadKey {
        kind: "Deployment",
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    assert_eq!(world.set_workload(&of("a", "web"), Some(workload("x"))).len(), 1);
    assert_eq!(world.set_workload(&of("b", "web"), Some(workload("x"))).len(), 0);
    assert_eq!(world.set_workload(&of("a", "web"), None).len(), 1);
}

#[test]
fn addresses_are_wanted_as_long_as_a_policy_names_them() {
    let mut world = World::new("varmor");
    let mut text = objects::spec("BPF");
    text["policy"]["enhanceProtect"]["bpfRawRules"] = json!({"network": {"egress": {"toServices": [
        {"qualifiers": ["deny"], "namespace": "a", "name": "db"}]}}});
    world.set_policy(objects::policy(None, "web", "u1", &text));
    assert_eq!(
        world.needs(),
        Needs {
            services: true,
            pods: false
        }
    );
    let change = Change::Service {
        name: ("a".to_owned(), "db".to_owned()),
        labels: Vec::new(),
    };
    assert_eq!(world.concerned(&change), [key(None, "web")]);
    world.remove_policy(&key(None, "web"));
    assert_eq!(world.needs(), Needs::default());
}
