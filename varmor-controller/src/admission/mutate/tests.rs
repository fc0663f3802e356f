//! Objects before and after admission.

use serde_json::{Value, json};
use varmor_common::policy::{Enforcers, PolicyMode};

use super::keys::MUTATED_AT;
use super::*;
use crate::admission::policies::Known;

const NOW: &str = "2026-01-02T03:04:05Z";

fn known(name: &str, enforcers: &str, target: &Value) -> Known {
    Known {
        namespace: Some("demo".to_owned()),
        name: name.to_owned(),
        created: 0,
        target: serde_json::from_value(target.clone()).expect("a target"),
        enforcers: enforcers.parse().unwrap_or(Enforcers::NONE),
        mode: PolicyMode::EnhanceProtect,
        profile: Some(format!("varmor-demo-{name}")),
    }
}

fn web(enforcers: &str) -> Known {
    known("p", enforcers, &json!({"kind": "Deployment", "name": "web"}))
}

fn facts(app_armor_field: bool) -> Facts {
    Facts {
        app_armor_field,
        opt_in: BTreeMap::new(),
    }
}

fn deployment(pod: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "demo", "labels": {"app": "web"}},
        "spec": {"template": pod},
    })
}

fn one_container() -> Value {
    deployment(&json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web"}]}}))
}

/// The object after admission, and the warnings; the patch must lead to exactly that object.
fn admit(kind: TargetKind, object: &Value, policies: &[Known], facts: &Facts) -> (Value, Vec<String>) {
    let candidates: Vec<Candidate<'_>> = policies
        .iter()
        .map(|policy| Candidate {
            policy,
            profile: policy.profile.as_deref().expect("a profile"),
        })
        .collect();
    let subject = Subject {
        kind,
        namespace: "demo",
        object,
    };
    let mutation = mutate(subject, &candidates, facts, NOW).expect("a complete object");
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &mutation.patch).expect("the patch fits");
    (patched, mutation.warnings)
}

fn admit_deployment(object: &Value, policies: &[Known]) -> (Value, Vec<String>) {
    admit(TargetKind::Deployment, object, policies, &facts(true))
}

fn annotation<'v>(object: &'v Value, key: &str) -> &'v Value {
    &object["spec"]["template"]["metadata"]["annotations"][key]
}

fn context(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]["containers"][0]["securityContext"]
}

#[test]
fn every_enforcer_leaves_its_settings() {
    let (object, warnings) = admit_deployment(&one_container(), &[web("AppArmorBPFSeccomp")]);
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(
        *context(&object),
        json!({
            "appArmorProfile": {"type": "Localhost", "localhostProfile": "varmor-demo-p"},
            "seccompProfile": {"type": "Localhost", "localhostProfile": "varmor-demo-p"},
        })
    );
    for enforcer in ["apparmor", "bpf", "seccomp"] {
        let key = format!("container.{enforcer}.security.beta.varmor.org/web");
        assert_eq!(annotation(&object, &key), "localhost/varmor-demo-p");
    }
    assert_eq!(object["metadata"]["annotations"][MUTATED_AT], NOW);
}

#[test]
fn before_kubernetes_1_30_apparmor_is_an_annotation() {
    let (object, _) = admit(
        TargetKind::Deployment,
        &one_container(),
        &[web("AppArmor")],
        &facts(false),
    );
    let key = "container.apparmor.security.beta.kubernetes.io/web";
    assert_eq!(annotation(&object, key), "localhost/varmor-demo-p");
    assert!(context(&object).is_null());
}

#[test]
fn runtime_default_uses_the_filter_of_the_runtime() {
    let mut policy = web("Seccomp");
    policy.mode = PolicyMode::RuntimeDefault;
    let (object, _) = admit_deployment(&one_container(), &[policy]);
    assert_eq!(
        context(&object)["seccompProfile"],
        json!({"type": "RuntimeDefault"})
    );
    let key = "container.seccomp.security.beta.varmor.org/web";
    assert_eq!(annotation(&object, key), "localhost/varmor-demo-p");
}

/// Objects whose owners have written all kinds of things.
fn originals() -> Vec<Value> {
    let containers = |context: Value| json!([{"name": "side"}, {"name": "web", "securityContext": context}]);
    vec![
        one_container(),
        deployment(&json!({"spec": {"containers": containers(json!({}))}})),
        deployment(
            &json!({"metadata": {}, "spec": {"containers": containers(json!({"privileged": false}))}}),
        ),
        deployment(
            &json!({"metadata": {"annotations": {}}, "spec": {"containers": containers(json!({"runAsUser": 1}))}}),
        ),
        deployment(&json!({
            "metadata": {"annotations": {
                "container.apparmor.security.beta.kubernetes.io/web": "runtime/default", "mine": "x",
                "container.bpf.security.beta.varmor.org/side": "localhost/of-somebody-else",
            }},
            "spec": {
                "initContainers": [{"name": "init"}],
                "containers": containers(json!({
                    "appArmorProfile": {"type": "RuntimeDefault"},
                    "seccompProfile": {"type": "Localhost", "localhostProfile": "own.json"},
                })),
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            },
        })),
    ]
}

#[test]
fn mutating_twice_changes_nothing_more() {
    for original in originals() {
        for field in [true, false] {
            for enforcers in ["AppArmor", "BPF", "Seccomp", "AppArmorBPFSeccomp"] {
                let policies = [web(enforcers)];
                let (once, _) = admit(TargetKind::Deployment, &original, &policies, &facts(field));
                assert_ne!(once, original, "{enforcers}");
                let (twice, _) = admit(TargetKind::Deployment, &once, &policies, &facts(field));
                assert_eq!(twice, once, "{enforcers}");
            }
        }
    }
}

/// H23: whatever the owner had written is there again.
#[test]
fn without_a_policy_the_original_is_restored_exactly() {
    for original in originals() {
        for field in [true, false] {
            let policies = [web("AppArmorBPFSeccomp")];
            let (mutated, _) = admit(TargetKind::Deployment, &original, &policies, &facts(field));
            let (restored, warnings) = admit(TargetKind::Deployment, &mutated, &[], &facts(field));
            assert_eq!(restored, original);
            assert!(warnings.is_empty(), "{warnings:?}");
        }
    }
}

#[test]
fn a_policy_that_changes_leaves_nothing_of_its_former_self() {
    for original in originals() {
        let (before, _) = admit_deployment(&original, &[web("AppArmorSeccomp")]);
        let (after, _) = admit_deployment(&before, &[web("BPF")]);
        assert_eq!(after, admit_deployment(&original, &[web("BPF")]).0);
    }
}

#[test]
fn one_policy_goes_and_the_other_stays() {
    let other = known(
        "q",
        "BPF",
        &json!({"kind": "Deployment", "selector": {"matchLabels": {"app": "web"}}}),
    );
    let (both, _) = admit_deployment(&one_container(), &[web("Seccomp"), other.clone()]);
    let (left, _) = admit_deployment(&both, std::slice::from_ref(&other));
    assert_eq!(left, admit_deployment(&one_container(), &[other]).0);
}

#[test]
fn what_the_owner_wrote_after_admission_stays() {
    let (mut object, _) = admit_deployment(&one_container(), &[web("Seccomp")]);
    object["spec"]["template"]["spec"]["containers"][0]["securityContext"]["seccompProfile"] =
        json!({"type": "Unconfined"});
    let (object, _) = admit_deployment(&object, &[]);
    assert_eq!(
        *context(&object),
        json!({"seccompProfile": {"type": "Unconfined"}})
    );
}

#[test]
fn an_annotation_that_names_another_profile_is_not_ours_to_take() {
    let key = "container.bpf.security.beta.varmor.org/web";
    let object = deployment(&json!({
        "metadata": {"annotations": {key: "localhost/by-hand"}}, "spec": {"containers": [{"name": "web"}]},
    }));
    assert_eq!(admit_deployment(&object, &[]).0, object);
    let (mutated, _) = admit_deployment(&object, &[web("BPF")]);
    assert_eq!(annotation(&mutated, key), "localhost/varmor-demo-p");
    assert_eq!(admit_deployment(&mutated, &[]).0, object);
}

/// Objects that another product with the same interface has mutated.
#[test]
fn settings_of_a_known_profile_without_a_record_are_taken_over() {
    let object = deployment(&json!({
        "metadata": {"annotations": {"container.apparmor.security.beta.varmor.org/web": "localhost/varmor-demo-p"}},
        "spec": {"containers": [{"name": "web", "securityContext": {
            "appArmorProfile": {"type": "Localhost", "localhostProfile": "varmor-demo-p"}, "runAsUser": 1}}]},
    }));
    let elsewhere = known("p", "AppArmor", &json!({"kind": "Deployment", "name": "other"}));
    let (object, _) = admit_deployment(&object, &[elsewhere]);
    assert_eq!(*context(&object), json!({"runAsUser": 1}));
}

#[test]
fn owners_opt_out_and_are_told() {
    let cases = [
        (
            "BPF",
            json!({"container.bpf.security.beta.varmor.org/web": "unconfined"}),
            json!({}),
            json!({}),
        ),
        (
            "AppArmor",
            json!({"container.apparmor.security.beta.varmor.org/web": "unconfined"}),
            json!({}),
            json!({}),
        ),
        (
            "AppArmor",
            json!({"container.apparmor.security.beta.kubernetes.io/web": "unconfined"}),
            json!({}),
            json!({}),
        ),
        (
            "AppArmor",
            json!({}),
            json!({"appArmorProfile": {"type": "Unconfined"}}),
            json!({}),
        ),
        (
            "AppArmor",
            json!({}),
            json!({}),
            json!({"appArmorProfile": {"type": "Unconfined"}}),
        ),
        (
            "Seccomp",
            json!({"container.seccomp.security.beta.varmor.org/web": "unconfined"}),
            json!({}),
            json!({}),
        ),
        (
            "Seccomp",
            json!({}),
            json!({"seccompProfile": {"type": "Unconfined"}}),
            json!({}),
        ),
        (
            "Seccomp",
            json!({}),
            json!({}),
            json!({"seccompProfile": {"type": "Unconfined"}}),
        ),
        ("Seccomp", json!({}), json!({"privileged": true}), json!({})),
    ];
    for (enforcer, annotations, context, of_pod) in cases {
        let object = deployment(&json!({
            "metadata": {"annotations": annotations},
            "spec": {"securityContext": of_pod, "containers": [{"name": "web", "securityContext": context}]},
        }));
        let (after, warnings) = admit_deployment(&object, &[web(enforcer)]);
        assert_eq!(after, object, "{enforcer}");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with(&format!("container web is not protected by {enforcer}: ")),
            "{warnings:?}"
        );
    }
}

#[test]
fn a_container_with_settings_of_its_own_is_not_opted_out_by_its_pod() {
    let object = deployment(&json!({"spec": {
        "securityContext": {"seccompProfile": {"type": "Unconfined"}},
        "containers": [{"name": "web", "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}],
    }}));
    let (after, warnings) = admit_deployment(&object, &[web("Seccomp")]);
    assert_eq!(context(&after)["seccompProfile"]["type"], "Localhost");
    assert!(warnings.is_empty());
}

#[test]
fn the_first_policy_wins_and_the_others_are_named() {
    let selector = json!({"kind": "Deployment", "selector": {"matchLabels": {"app": "web"}}});
    let mut cluster = known("c", "AppArmorBPF", &selector);
    cluster.namespace = None;
    cluster.profile = Some("varmor-cluster-varmor-c".to_owned());
    let (object, warnings) = admit_deployment(&one_container(), &[cluster, web("AppArmorBPFSeccomp")]);
    assert_eq!(
        context(&object)["appArmorProfile"]["localhostProfile"],
        "varmor-cluster-varmor-c"
    );
    assert_eq!(
        context(&object)["seccompProfile"]["localhostProfile"],
        "varmor-demo-p"
    );
    assert_eq!(
        warnings,
        [
            "the AppArmor part of VarmorPolicy demo/p has no effect on web: another policy comes first, and a container has one \
          AppArmor profile"
        ]
    );
}

#[test]
fn init_containers_are_protected_when_they_are_named_and_marked_otherwise() {
    let object = deployment(&json!({"spec": {
        "initContainers": [{"name": "init"}, {"name": "setup"}], "containers": [{"name": "web"}],
    }}));
    let named = json!({"kind": "Deployment", "name": "web", "containers": ["web", "setup", "absent"]});
    let (after, warnings) = admit_deployment(&object, &[known("p", "AppArmorBPF", &named)]);
    let bpf = |name: &str| annotation(&after, &format!("container.bpf.security.beta.varmor.org/{name}"));
    assert_eq!(
        (bpf("web"), bpf("setup")),
        (
            &json!("localhost/varmor-demo-p"),
            &json!("localhost/varmor-demo-p")
        )
    );
    assert_eq!(bpf("init"), "unconfined");
    let init = &after["spec"]["template"]["spec"]["initContainers"];
    assert!(init[0].get("securityContext").is_none() && init[1].get("securityContext").is_some());
    assert_eq!(
        warnings,
        ["VarmorPolicy demo/p names the container absent, which is not in the pod"]
    );
    let (again, _) = admit_deployment(&after, &[known("p", "AppArmorBPF", &named)]);
    assert_eq!(again, after);
    // The mark is ours: a policy that names the container later is not opted out by it.
    let later = json!({"kind": "Deployment", "name": "web", "containers": ["init"]});
    let (later, warnings) = admit_deployment(&after, &[known("p", "BPF", &later)]);
    let key = "container.bpf.security.beta.varmor.org/init";
    assert_eq!(
        (annotation(&later, key), warnings.len()),
        (&json!("localhost/varmor-demo-p"), 0)
    );
}

#[test]
fn only_labelled_objects_are_protected_and_the_label_can_be_taken_off() {
    let opt_in = Facts {
        app_armor_field: true,
        opt_in: BTreeMap::from([("enable".to_owned(), "true".to_owned())]),
    };
    let plain = one_container();
    let policies = [web("BPF")];
    assert_eq!(admit(TargetKind::Deployment, &plain, &policies, &opt_in).0, plain);
    let mut labelled = plain.clone();
    labelled["metadata"]["labels"]["enable"] = "true".into();
    let (mut mutated, _) = admit(TargetKind::Deployment, &labelled, &policies, &opt_in);
    assert_ne!(mutated, labelled);
    mutated["metadata"]["labels"] = plain["metadata"]["labels"].clone();
    assert_eq!(
        admit(TargetKind::Deployment, &mutated, &policies, &opt_in).0,
        plain
    );
}

fn pod(owned: bool, annotations: &Value) -> Value {
    let owners = if owned {
        json!([{"kind": "ReplicaSet", "controller": true}])
    } else {
        json!([])
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "web-", "labels": {"app": "web"}, "ownerReferences": owners, "annotations": annotations},
        "spec": {"containers": [{"name": "web"}]},
    })
}

#[test]
fn policies_about_pods_leave_pods_alone_that_a_policy_about_their_workload_covers() {
    let pods = known(
        "pods",
        "BPF",
        &json!({"kind": "Pod", "selector": {"matchLabels": {"app": "web"}}}),
    );
    let policies = [web("BPF"), pods];
    let mark = "container.bpf.security.beta.varmor.org/web";
    let covered = pod(true, &json!({mark: "localhost/varmor-demo-p"}));
    assert_eq!(
        admit(TargetKind::Pod, &covered, &policies, &facts(true)).0,
        covered
    );
    for bare in [
        pod(false, &json!({})),
        pod(true, &json!({})),
        // Whoever creates a pod by hand does not escape by naming a profile.
        pod(false, &json!({mark: "localhost/varmor-demo-p"})),
        pod(true, &json!({mark: "localhost/invented"})),
    ] {
        let (after, _) = admit(TargetKind::Pod, &bare, &policies, &facts(true));
        assert_eq!(
            after["metadata"]["annotations"][mark],
            "localhost/varmor-demo-pods"
        );
        assert_eq!(admit(TargetKind::Pod, &after, &policies, &facts(true)).0, after);
    }
}

#[test]
fn a_pod_keeps_what_its_template_gave_it() {
    let (object, _) = admit_deployment(&one_container(), &[web("AppArmorBPFSeccomp")]);
    let mut pod = object["spec"]["template"].clone();
    pod["metadata"]["name"] = "web-1".into();
    assert_eq!(admit(TargetKind::Pod, &pod, &[], &facts(true)).0, pod);
}

#[test]
fn going_foreign_and_mirrored_objects_are_left_alone() {
    let mut going = one_container();
    going["metadata"]["deletionTimestamp"] = NOW.into();
    let mut windows = one_container();
    windows["spec"]["template"]["spec"]["os"] = json!({"name": "windows"});
    for object in [going, windows] {
        assert_eq!(admit_deployment(&object, &[web("AppArmorBPFSeccomp")]).0, object);
    }
    let pods = known("pods", "BPF", &json!({"kind": "Pod", "selector": {}}));
    let mirror = pod(false, &json!({"kubernetes.io/config.mirror": "x"}));
    assert_eq!(admit(TargetKind::Pod, &mirror, &[pods], &facts(true)).0, mirror);
}

#[test]
fn a_record_that_somebody_forged_restores_nothing_but_settings_of_ours() {
    let record = |text: &str| {
        deployment(&json!({
            "metadata": {"annotations": {"webhook.varmor.org/original": text, "mine": "x"}},
            "spec": {"containers": [{"name": "web", "securityContext": {"privileged": true}}]},
        }))
    };
    let forged = json!({
        "annotations": {"mine": {"before": "y", "applied": "x"}},
        "containers": {"web": {"privileged": {"applied": true}}},
        "created": [{"securityContext": "nobody"}, "metadata"],
    });
    let (object, warnings) = admit_deployment(&record(&forged.to_string()), &[]);
    assert_eq!(*context(&object), json!({"privileged": true}));
    assert_eq!((annotation(&object, "mine"), warnings.len()), (&json!("x"), 0));
    let (_, warnings) = admit_deployment(&record("{"), &[]);
    assert_eq!(warnings.len(), 1);
}

#[test]
fn policies_that_an_object_names_and_nobody_knows_are_reported() {
    let (object, _) = admit_deployment(&one_container(), &[web("BPF")]);
    let subject = Subject {
        kind: TargetKind::Deployment,
        namespace: "demo",
        object: &object,
    };
    assert_eq!(unknown_policies(subject, &[]), ["VarmorPolicy demo/p"]);
    let policy = web("BPF");
    let candidate = Candidate {
        policy: &policy,
        profile: "varmor-demo-p",
    };
    assert!(unknown_policies(subject, &[candidate]).is_empty());
}

#[test]
fn an_incomplete_object_is_an_error() {
    for object in [json!({}), json!({"spec": {"template": {}}}), json!({"spec": 5})] {
        let subject = Subject {
            kind: TargetKind::Deployment,
            namespace: "demo",
            object: &object,
        };
        assert!(mutate(subject, &[], &facts(true), NOW).is_err(), "{object}");
    }
}
