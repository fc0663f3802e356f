//! Objects as the controller writes them.

use serde_json::{Value, json};

use super::*;

fn armor_profile(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut object = json!({
        "apiVersion": "crd.varmor.org/v1beta1",
        "kind": "ArmorProfile",
        "metadata": {"name": "varmor-demo-web-0badcafe", "namespace": "demo"},
        "spec": {
            "target": {"kind": "Deployment", "name": "web"},
            "profile": {"name": "varmor-demo-web-0badcafe", "enforcer": "BPF", "mode": "enforce"},
            "updateExistingWorkloads": false,
            "workloads": [{"namespace": "demo", "name": "web", "selector": {"matchLabels": {"app": "web"}}}],
            "egress": [{
                "peer": {"service": {"namespace": "default", "name": "kubernetes"}},
                "destinations": [{"ip": "10.0.0.1"}, {"ip": "192.168.0.2", "ports": [{"port": 6443}]}],
            }],
            "policy": {
                "kind": "VarmorPolicy", "namespace": "demo", "name": "web", "generation": 3,
                "spec": {
                    "target": {"kind": "Deployment", "name": "web"},
                    "policy": {
                        "enforcer": "BPF",
                        "mode": "EnhanceProtect",
                        "enhanceProtect": {
                            "attackProtectionRules": [{"rules": ["block-access-to-kube-apiserver"]}],
                        },
                    },
                },
            },
        },
    });
    change(&mut object);
    object.to_string().into_bytes()
}

fn message(text: &[u8]) -> String {
    let reading = of_armor_profile("demo/x", text, &NodeFacts::default());
    reading.checked().unwrap_err().message
}

#[test]
fn armor_profile_is_read_with_what_the_cluster_knows() {
    let reading = of_armor_profile("demo/x", &armor_profile(|_| {}), &NodeFacts::default());
    let reading = reading.checked().unwrap();
    let [policy] = reading.objects.as_slice() else {
        panic!("{reading:?}");
    };
    assert_eq!(policy.identity, "VarmorPolicy demo/web");
    assert_eq!(policy.profile.name, "varmor-demo-web-0badcafe");
    assert_eq!(policy.workloads.as_ref().unwrap()[0].name, "web");
    let egress = policy
        .profile
        .rules
        .iter()
        .filter(|rule| matches!(rule.object, profile::Object::Egress(_)));
    assert_eq!(egress.count(), 2, "one rule per address");
}

#[test]
fn object_of_varmor_is_refused_with_the_way_out() {
    let text = armor_profile(|object| {
        object["spec"].as_object_mut().unwrap().remove("policy");
    });
    assert!(message(&text).contains("carries no policy"), "{}", message(&text));
}

#[test]
fn policy_within_is_checked_like_any_other() {
    let text = armor_profile(|object| {
        object["spec"]["policy"]["spec"]["policy"]["enhanceProtect"]["attackProtectionRules"][0]["rules"]
            [0] = json!("block-access-to-kube-apisever");
    });
    assert!(
        message(&text).contains("there is no built-in rule"),
        "{}",
        message(&text)
    );
}

#[test]
fn service_without_an_address_has_no_rule_and_is_no_error() {
    let text = armor_profile(|object| object["spec"]["egress"] = json!([]));
    let reading = of_armor_profile("demo/x", &text, &NodeFacts::default())
        .checked()
        .unwrap();
    assert!(
        !reading.objects[0]
            .profile
            .rules
            .iter()
            .any(|rule| matches!(rule.object, profile::Object::Egress(_)))
    );
}

#[test]
fn recording_in_the_same_file_is_found_by_its_name() {
    let text = "apiVersion: crd.varmor.org/v1beta1
kind: ArmorProfileModel
metadata: {name: varmor-demo-web, namespace: demo}
data: {dynamicResult: {seccomp: {syscalls: [openat, read]}}}
---
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: web, namespace: demo}
spec:
  target: {kind: Pod, name: web}
  policy:
    enforcer: Seccomp
    mode: DefenseInDepth
    defenseInDepth: {seccomp: {profileType: BehaviorModel}}
";
    let reading = of_file("f", text.as_bytes(), &NodeFacts::default())
        .checked()
        .unwrap();
    assert_eq!(reading.objects.len(), 1);
}
