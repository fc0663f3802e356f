//! Policies that are admitted and refused.

use serde_json::{Value, json};

use super::*;

fn policy(enforcer: &str, mode: &str, blocks: &Value) -> Value {
    let mut policy = json!({"enforcer": enforcer, "mode": mode});
    for (key, value) in blocks.as_object().into_iter().flatten() {
        policy[key] = value.clone();
    }
    json!({
        "apiVersion": "crd.varmor.org/v1beta1", "kind": "VarmorPolicy",
        "metadata": {"namespace": "demo", "name": "web", "generation": 1, "managedFields": [{"manager": "kubectl"}]},
        "spec": {"target": {"kind": "Deployment", "name": "web"}, "policy": policy},
    })
}

fn modeling(enforcer: &str) -> Value {
    let mut policy = policy(
        enforcer,
        "BehaviorModeling",
        &json!({"modelingOptions": {"duration": 3}}),
    );
    policy["status"] = json!({"profileName": "varmor-demo-web", "ready": false, "phase": "Modeling"});
    policy
}

#[test]
fn a_valid_policy_is_admitted_without_a_word() {
    for object in [
        policy("BPF", "RuntimeDefault", &json!({})),
        policy(
            "AppArmorBPFSeccomp",
            "EnhanceProtect",
            &json!({"enhanceProtect": {"hardeningRules": ["disallow-umount"]}}),
        ),
        policy(
            "BPF",
            "EnhanceProtect",
            &json!({"enhanceProtect": {"bpfRawRules": {"network": {"egress": {"toServices": [
                {"qualifiers": ["deny"], "namespace": "demo", "name": "db"}]}}}}}),
        ),
    ] {
        assert_eq!(validate(&object, None), Verdict::default(), "{object}");
    }
}

#[test]
fn a_refusal_names_the_field_the_fault_and_the_fix() {
    let object = policy(
        "BPF",
        "EnhanceProtect",
        &json!({"enhanceProtect": {"hardeningRules": ["disallow-umont"]}}),
    );
    let verdict = validate(&object, None);
    assert_eq!(
        verdict.message(),
        "spec.policy.enhanceProtect.hardeningRules[0]: there is no built-in rule `disallow-umont`; did you mean `disallow-umount`?"
    );
}

#[test]
fn undecodable_objects_are_refused() {
    for object in [
        json!({}),
        json!({"kind": "VarmorPolicy"}),
        json!(5),
        policy(
            "BPF",
            "EnhanceProtect",
            &json!({"enhanceProtect": {"bpfRawRules": {"network": {"egress": {"toDestinations": [
            {"qualifiers": ["deny"], "ip": "10.0.0.1", "ports": [{"port": 70000}]}]}}}}}),
        ),
    ] {
        assert!(!validate(&object, None).refusals.is_empty(), "{object}");
    }
}

#[test]
fn the_network_proxy_alone_is_refused_and_beside_others_a_warning() {
    let alone = validate(&policy("NetworkProxy", "AlwaysAllow", &json!({})), None);
    assert!(alone.message().starts_with("spec.policy.enforcer: "), "{alone:?}");
    let beside = validate(&policy("NetworkProxyBPF", "AlwaysAllow", &json!({})), None);
    assert!(
        beside.refusals.is_empty() && beside.warnings.len() == 1,
        "{beside:?}"
    );
}

#[test]
fn a_generated_name_counts_with_its_end() {
    let mut object = policy("BPF", "RuntimeDefault", &json!({}));
    object["metadata"] = json!({"namespace": "demo", "generateName": "web-"});
    assert_eq!(validate(&object, None), Verdict::default());
    object["metadata"]["generateName"] = "w".repeat(48).into();
    assert!(validate(&object, None).message().contains("metadata.name"));
}

#[test]
fn a_profile_from_a_model_that_may_come_later_is_a_warning() {
    let object = policy(
        "BPFSeccomp",
        "DefenseInDepth",
        &json!({"defenseInDepth": {"bpf": {"profileType": "BehaviorModel"}, "seccomp": {"profileType": "BehaviorModel"}}}),
    );
    let verdict = validate(&object, None);
    assert!(
        verdict.refusals.is_empty() && !verdict.warnings.is_empty(),
        "{verdict:?}"
    );
    let custom = policy(
        "BPF",
        "DefenseInDepth",
        &json!({"defenseInDepth": {"bpf": {"profileType": "Custom"}}}),
    );
    assert!(!validate(&custom, None).refusals.is_empty());
}

#[test]
fn the_target_is_immutable() {
    let old = policy("BPF", "RuntimeDefault", &json!({}));
    let mut new = old.clone();
    new["spec"]["target"]["name"] = "other".into();
    assert!(
        validate(&new, Some(&old))
            .message()
            .contains("spec.target: the target of a policy is immutable")
    );
}

#[test]
fn recording_is_not_left_before_it_is_complete() {
    let old = modeling("BPFSeccomp");
    let enforced = policy("BPFSeccomp", "AlwaysAllow", &json!({}));
    assert!(
        validate(&enforced, Some(&old))
            .message()
            .starts_with("spec.policy.mode: ")
    );
    assert!(
        validate(&modeling("AppArmorBPFSeccomp"), Some(&old))
            .message()
            .starts_with("spec.policy.enforcer: ")
    );
    let mut longer = old.clone();
    longer["spec"]["policy"]["modelingOptions"]["duration"] = 9.into();
    assert_eq!(validate(&longer, Some(&old)), Verdict::default());
    let mut done = old.clone();
    done["status"]["phase"] = "Completed".into();
    assert_eq!(validate(&enforced, Some(&done)), Verdict::default());
}

#[test]
fn apparmor_and_seccomp_stay_and_bpf_comes_and_goes() {
    for (before, after, allowed) in [
        ("BPF", "AppArmorBPF", true),
        ("AppArmorBPF", "AppArmor", true),
        ("AppArmorBPF", "BPF", false),
        ("BPFSeccomp", "AppArmorBPF", false),
        ("AppArmorBPFSeccomp", "AppArmorSeccomp", true),
        ("NetworkProxyBPF", "BPF", true),
    ] {
        let (old, new) = (
            policy(before, "RuntimeDefault", &json!({})),
            policy(after, "RuntimeDefault", &json!({})),
        );
        let verdict = validate(&new, Some(&old));
        assert_eq!(
            verdict.refusals.is_empty(),
            allowed,
            "{before} -> {after}: {verdict:?}"
        );
    }
}

#[test]
fn labels_and_finalizers_of_a_policy_that_would_be_refused_today_stay_changeable() {
    let old = policy("BPF", "EnhanceProtect", &json!({}));
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(validate(&new, Some(&old)), Verdict::default());
    let mut going = policy("Nothing", "Nothing", &json!({}));
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(validate(&going, Some(&old)), Verdict::default());
}
