//! What goes wrong in clusters.

use std::time::Duration;

use serde_json::{Value, json};
use varmor_controller::leader::Election;

use super::lab::{Lab, condition, core, crd, object};

pub(crate) async fn undecodable_object(lab: &mut Lab) {
    // As an older release's schema, or none, would have let it in.
    let definitions = lab.api(&crd(), None);
    let name = "varmorpolicies.crd.varmor.org";
    let strict = lab.until("the definition", &definitions, name, |_| true).await;
    let mut loose = strict["spec"]["versions"].clone();
    loose[0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    lab.merge(&definitions, name, json!({"spec": {"versions": loose}}))
        .await;
    let (policies, profiles) = (lab.policies("demo"), lab.profiles("demo"));
    let mut bad = object("VarmorPolicy", "bad", "BPF");
    bad["spec"]["policy"]["enhanceProtect"] = json!({"bpfRawRules": {"network": {"egress": {"toDestinations": [
        {"qualifiers": ["deny"], "ip": "10.0.0.1", "ports": [{"port": 70000}]}]}}}});
    let bad: kube::core::DynamicObject = serde_json::from_value(bad).unwrap();
    lab.create_in_time(&policies, &bad).await;
    lab.create(
        &policies,
        json!({"apiVersion": "crd.varmor.org/v1beta1", "kind": "VarmorPolicy",
        "metadata": {"name": "worse"}, "spec": "text"}),
    )
    .await;
    lab.merge(
        &definitions,
        name,
        json!({"spec": {"versions": strict["spec"]["versions"]}}),
    )
    .await;
    // A list that holds them is read anew.
    lab.stop_controller().await;
    lab.start_controller().await;
    lab.create(&policies, object("VarmorPolicy", "good", "BPF")).await;
    lab.until(
        "the good one is not stalled",
        &profiles,
        "varmor-demo-good",
        |_| true,
    )
    .await;
    let told = lab
        .until("the bad one is told", &policies, "bad", |one| {
            condition(one, "Created").0 == "False"
        })
        .await;
    let (_, reason, message) = condition(&told, "Created");
    assert_eq!(reason, "Invalid");
    assert!(message.contains("ports[0].port"), "{message}");
    for name in ["bad", "worse", "good"] {
        lab.delete(&policies, name).await;
    }
    lab.until_gone("the profile goes", &profiles, "varmor-demo-good")
        .await;
}

/// Somebody else writes the profile at the same time.
pub(crate) async fn conflict(lab: &mut Lab) {
    let (policies, profiles) = (lab.policies("demo"), lab.profiles("demo"));
    lab.create(&policies, object("VarmorPolicy", "fought", "BPF"))
        .await;
    lab.until("a profile", &profiles, "varmor-demo-fought", |_| true)
        .await;
    for round in 0..5 {
        let forged = json!({"spec": {"profile": {"enforcer": format!("Seccomp{round}")}}, "metadata": {"finalizers": []}});
        lab.merge(&profiles, "varmor-demo-fought", forged).await;
        let label = round.to_string();
        lab.merge(
            &policies,
            "fought",
            json!({"metadata": {"labels": {"round": &label}}}),
        )
        .await;
        lab.until("put right", &profiles, "varmor-demo-fought", |one| {
            one["spec"]["profile"]["enforcer"] == "BPF"
                && one["metadata"]["labels"]["round"] == label
                && one["metadata"]["finalizers"][0] == "varmor.org/ap-protection"
        })
        .await;
    }
    lab.delete(&profiles, "varmor-demo-fought").await;
    lab.until("a deletion by hand is told", &policies, "fought", |one| {
        condition(one, "Updated").1 == "ProfileDeleted"
    })
    .await;
    // The policy is made anew under its name.
    lab.delete(&policies, "fought").await;
    let second = lab
        .create(&policies, object("VarmorPolicy", "fought", "BPF"))
        .await;
    let uid = second.metadata.uid.unwrap();
    lab.until(
        "a profile of the new one",
        &profiles,
        "varmor-demo-fought",
        |one| {
            one["metadata"]["ownerReferences"][0]["uid"] == uid
                && one["metadata"]["deletionTimestamp"].is_null()
        },
    )
    .await;
    lab.delete(&policies, "fought").await;
    lab.until_gone("the profile goes", &profiles, "varmor-demo-fought")
        .await;
}

/// The controller goes on where it was, and nothing is made anew.
pub(crate) async fn the_api_server_restarts(lab: &mut Lab) {
    let (policies, profiles) = (lab.policies("demo"), lab.profiles("demo"));
    lab.create(&policies, object("VarmorPolicy", "kept", "BPF")).await;
    let before = lab
        .until("a profile", &profiles, "varmor-demo-kept", |_| true)
        .await;
    lab.stop_apiserver();
    // Watches break and what is tried meanwhile fails.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(policies.get("kept").await.is_err(), "nobody answers");
    lab.start_apiserver_again().await;
    let change = json!({"spec": {"policy": {"enhanceProtect": {"hardeningRules": ["disallow-umount"]}}}});
    lab.merge(&policies, "kept", change).await;
    let after = lab
        .until("the change", &profiles, "varmor-demo-kept", |one| {
            one["metadata"]["generation"] == 2
        })
        .await;
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    lab.create(&policies, object("VarmorPolicy", "later", "BPF"))
        .await;
    lab.until("a new one", &profiles, "varmor-demo-later", |_| true)
        .await;
    for name in ["kept", "later"] {
        lab.delete(&policies, name).await;
        lab.until_gone("it goes", &profiles, &format!("varmor-demo-{name}"))
            .await;
    }
}

pub(crate) async fn deleted_while_the_controller_was_down(lab: &mut Lab) {
    let (policies, profiles) = (lab.policies("demo"), lab.profiles("demo"));
    lab.create(&policies, object("VarmorPolicy", "orphan", "BPF"))
        .await;
    lab.until("a profile", &profiles, "varmor-demo-orphan", |_| true)
        .await;
    lab.stop_controller().await;
    lab.delete(&policies, "orphan").await;
    lab.start_controller().await;
    lab.until_gone("the profile goes", &profiles, "varmor-demo-orphan")
        .await;
}

pub(crate) async fn namespace_deleted(lab: &mut Lab) {
    lab.namespace("doomed").await;
    let (policies, profiles) = (lab.policies("doomed"), lab.profiles("doomed"));
    lab.create(&policies, object("VarmorPolicy", "first", "BPF"))
        .await;
    lab.until("a profile", &profiles, "varmor-doomed-first", |_| true)
        .await;
    lab.stop_controller().await;
    lab.create(&policies, object("VarmorPolicy", "second", "BPF"))
        .await;
    lab.delete(&lab.api(&core("Namespace", "namespaces"), None), "doomed")
        .await;
    lab.start_controller().await;
    let told = lab
        .until("what cannot be made is told", &policies, "second", |one| {
            condition(one, "Created").0 == "False"
        })
        .await;
    let message = condition(&told, "Created").2;
    assert!(message.contains("terminated"), "{message}");
    // What the namespace controller would do now, in the worst order.
    lab.delete(&profiles, "varmor-doomed-first").await;
    for name in ["first", "second"] {
        lab.delete(&policies, name).await;
    }
    lab.until_gone("nothing is left", &profiles, "varmor-doomed-first")
        .await;
}

pub(crate) async fn one_leads(lab: &mut Lab) {
    let election = |name: &str| Election::new(&lab.client, "varmor", "varmor-manager", name);
    let pods = lab.api(&core("Pod", "pods"), Some("varmor"));
    for name in ["manager-0", "manager-1"] {
        lab.create(
            &pods,
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        )
        .await;
    }
    let (first, second) = (election("manager-0"), election("manager-1"));
    first.win().await;
    first.label().await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_secs(5), second.win()).await;
    assert!(waiting.is_err(), "the second waits");
    let holding = first.clone();
    let held = tokio::spawn(async move { holding.hold().await });
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!held.is_finished(), "the first renews");
    first.give_up().await.unwrap();
    held.abort();
    second.win().await;
    second.label().await.unwrap();
    let label = |one: &Value| one["metadata"]["labels"]["identity"].clone();
    lab.until("one label", &pods, "manager-1", |one| label(one) == "leader")
        .await;
    lab.until("and no other", &pods, "manager-0", |one| label(one).is_null())
        .await;
    assert!(
        first.hold().await.to_string().contains("manager-1"),
        "who lost it is told by whom"
    );
}
