//! Policies, and what becomes of them.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::lab::{Lab, condition, core, named, object};

pub(crate) async fn policy_becomes_profile(lab: &mut Lab) {
    let (policies, profiles) = (lab.policies("demo"), lab.profiles("demo"));
    let policy = lab.create(&policies, object("VarmorPolicy", "web", "BPF")).await;
    let profile = lab
        .until("a profile", &profiles, "varmor-demo-web", |_| true)
        .await;
    assert_eq!(
        profile["metadata"]["ownerReferences"][0]["uid"],
        policy.metadata.uid.unwrap()
    );
    assert_eq!(
        profile["metadata"]["finalizers"],
        json!(["varmor.org/ap-protection"])
    );
    assert_eq!(profile["metadata"]["labels"]["team"], "a");
    assert_eq!(profile["spec"]["policy"]["spec"]["target"]["name"], "web");
    let policy = lab
        .until("a status", &policies, "web", |one| {
            one["status"]["observedGeneration"] == 1
        })
        .await;
    assert_eq!(policy["status"]["profileName"], "varmor-demo-web");
    assert_eq!(condition(&policy, "Created").0, "True");
    assert_eq!(
        condition(&policy, "Ready").1,
        "NoNodes",
        "no agent, no protection"
    );
    lab.delete(&policies, "web").await;
    lab.until_gone("the profile goes with its policy", &profiles, "varmor-demo-web")
        .await;
}

pub(crate) async fn edit_and_refused_edits(lab: &mut Lab) {
    let (policies, profiles) = (lab.policies("demo"), lab.profiles("demo"));
    lab.create(&policies, object("VarmorPolicy", "edited", "BPF"))
        .await;
    lab.until("a profile", &profiles, "varmor-demo-edited", |_| true)
        .await;
    let change = json!({"spec": {"policy": {"enhanceProtect": {"hardeningRules": ["disallow-umount"]}}}});
    lab.merge(&policies, "edited", change).await;
    let is_new = |one: &serde_json::Value| one["spec"]["policy"]["generation"] == 2;
    lab.until(
        "the edit reaches the profile",
        &profiles,
        "varmor-demo-edited",
        is_new,
    )
    .await;
    lab.until("the edit is told", &policies, "edited", |one| {
        condition(one, "Updated").0 == "True"
    })
    .await;

    let other = Patch::Merge(json!({"spec": {"target": {"name": "other"}}}));
    let refused = policies.patch("edited", &PatchParams::default(), &other).await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("the target is immutable"), "{message}");

    for (enforcer, status) in [("AppArmorBPF", "True"), ("BPF", "False"), ("AppArmorBPF", "True")] {
        let change = json!({"spec": {"policy": {"enforcer": enforcer}}});
        let generation = lab.merge(&policies, "edited", change).await.metadata.generation;
        lab.until("AppArmor is added, and stays", &policies, "edited", |one| {
            one["status"]["observedGeneration"] == json!(generation) && condition(one, "Updated").0 == status
        })
        .await;
    }

    let wrong = json!({"spec": {"policy": {"enhanceProtect": {"hardeningRules": ["disallow-umounts"]}}}});
    lab.merge(&policies, "edited", wrong).await;
    let refused = lab
        .until("an unknown rule is refused", &policies, "edited", |one| {
            condition(one, "Updated").1 == "Invalid"
        })
        .await;
    let message = condition(&refused, "Updated").2;
    assert!(
        message.contains("hardeningRules[0]") && message.contains("disallow-umount`"),
        "{message}"
    );
    let profile = lab
        .until("the last good one stays", &profiles, "varmor-demo-edited", |_| {
            true
        })
        .await;
    let rules = &profile["spec"]["policy"]["spec"]["policy"]["enhanceProtect"]["hardeningRules"];
    assert_eq!(rules, &json!(["disallow-umount"]));
    lab.delete(&policies, "edited").await;
    lab.until_gone("the profile goes", &profiles, "varmor-demo-edited")
        .await;
}

pub(crate) async fn colliding_names(lab: &mut Lab) {
    lab.namespace("a").await;
    lab.namespace("a-b").await;
    let (first, second) = (lab.policies("a"), lab.policies("a-b"));
    lab.create(&first, object("VarmorPolicy", "b-c", "BPF")).await;
    lab.until(
        "the first has the name",
        &lab.profiles("a"),
        "varmor-a-b-c",
        |_| true,
    )
    .await;
    lab.create(&second, object("VarmorPolicy", "c", "BPF")).await;
    let has_name = |one: &serde_json::Value| {
        one["status"]["profileName"]
            .as_str()
            .is_some_and(|name| !name.is_empty())
    };
    let other = lab.until("the second has another", &second, "c", has_name).await;
    let name = other["status"]["profileName"].as_str().unwrap().to_owned();
    assert!(name.starts_with("varmor-a-b-c-"), "{name}");
    lab.until("with a profile", &lab.profiles("a-b"), &name, |one| {
        one["spec"]["profile"]["name"] == name
    })
    .await;
    // Names are kept over a restart.
    lab.stop_controller().await;
    lab.start_controller().await;
    lab.delete(&first, "b-c").await;
    lab.until_gone("the first goes", &lab.profiles("a"), "varmor-a-b-c")
        .await;
    lab.merge(&second, "c", json!({"metadata": {"labels": {"team": "b"}}}))
        .await;
    lab.until("the second keeps its name", &lab.profiles("a-b"), &name, |one| {
        one["metadata"]["labels"]["team"] == "b"
    })
    .await;
    lab.delete(&second, "c").await;
    lab.until_gone("the second goes", &lab.profiles("a-b"), &name)
        .await;
}

pub(crate) async fn cluster_policy(lab: &mut Lab) {
    let kind = named(
        "crd.varmor.org",
        "v1beta1",
        "VarmorClusterPolicy",
        "varmorclusterpolicies",
    );
    let (policies, profiles) = (lab.api(&kind, None), lab.profiles("varmor"));
    let deployments = lab.api(&named("apps", "v1", "Deployment", "deployments"), Some("demo"));
    lab.create(&deployments, deployment("web")).await;
    lab.create(&policies, object("VarmorClusterPolicy", "all", "BPF"))
        .await;
    let is_found = |one: &serde_json::Value| one["spec"]["workloads"][0]["namespace"] == "demo";
    lab.until(
        "the workload is found",
        &profiles,
        "varmor-cluster-varmor-all",
        is_found,
    )
    .await;
    lab.delete(&deployments, "web").await;
    lab.until("and forgotten", &profiles, "varmor-cluster-varmor-all", |one| {
        one["spec"]["workloads"] == json!([])
    })
    .await;
    lab.delete(&policies, "all").await;
    lab.until_gone("the profile goes", &profiles, "varmor-cluster-varmor-all")
        .await;
}

pub(crate) async fn workloads_are_rolled_once(lab: &mut Lab) {
    let (policies, profiles) = (lab.policies("demo"), lab.profiles("demo"));
    let deployments = lab.api(&named("apps", "v1", "Deployment", "deployments"), Some("demo"));
    lab.create(&deployments, deployment("web")).await;
    let mut policy = object("VarmorPolicy", "rolled", "Seccomp");
    policy["spec"]["updateExistingWorkloads"] = json!(true);
    policy["spec"]["policy"]["enhanceProtect"] =
        json!({"attackProtectionRules": [{"rules": ["disable-chmod-x-bit"]}]});
    lab.create(&policies, policy).await;
    let at = |one: &serde_json::Value| {
        one["spec"]["template"]["metadata"]["annotations"]["controller.varmor.org/restartedAt"].clone()
    };
    // There is no node, so it is the time that decides.
    lab.until("the profile", &profiles, "varmor-demo-rolled", |_| true)
        .await;
    lab.until("remembered", &profiles, "varmor-demo-rolled", |one| {
        one["metadata"]["annotations"]["controller.varmor.org/rolled"].is_string()
    })
    .await;
    let first = lab
        .until("rolled", &deployments, "web", |one| at(one).is_string())
        .await;
    lab.stop_controller().await;
    lab.start_controller().await;
    lab.merge(
        &policies,
        "rolled",
        json!({"metadata": {"labels": {"team": "b"}}}),
    )
    .await;
    lab.until("looked at again", &profiles, "varmor-demo-rolled", |one| {
        one["metadata"]["labels"]["team"] == "b"
    })
    .await;
    let again = lab.until("there", &deployments, "web", |_| true).await;
    assert_eq!(
        first["metadata"]["generation"], again["metadata"]["generation"],
        "a restart rolls nothing"
    );
    lab.delete(&policies, "rolled").await;
    lab.until("rolled when the policy goes", &deployments, "web", |one| {
        one["metadata"]["annotations"]["controller.varmor.org/rolledFor"]
            .as_str()
            .is_some_and(|mark| mark.ends_with(":deleted"))
    })
    .await;
    lab.until_gone("the profile goes", &profiles, "varmor-demo-rolled")
        .await;
    lab.delete(&deployments, "web").await;
}

pub(crate) async fn services_are_followed(lab: &mut Lab) {
    let (policies, profiles) = (lab.policies("demo"), lab.profiles("demo"));
    let services = lab.api(&core("Service", "services"), Some("demo"));
    let slices = lab.api(
        &named("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
        Some("demo"),
    );
    lab.create(
        &services,
        json!({"metadata": {"name": "db"}, "spec": {"clusterIP": "10.96.7.7", "ports": [{"port": 1}]}}),
    )
    .await;
    let slice = json!({"metadata": {"name": "db-1", "labels": {"kubernetes.io/service-name": "db"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.0.1"]}], "ports": [{"port": 5432}]});
    lab.create(&slices, slice).await;
    let mut policy = object("VarmorPolicy", "egress", "BPF");
    policy["spec"]["policy"]["enhanceProtect"] = json!({"bpfRawRules": {"network": {"egress": {"toServices": [
        {"qualifiers": ["deny"], "namespace": "demo", "name": "db"}]}}}});
    lab.create(&policies, policy).await;
    let ips = |one: &serde_json::Value| -> Vec<String> {
        let found = one["spec"]["egress"][0]["destinations"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        found
            .iter()
            .map(|one| format!("{}:{}", one["ip"], one["ports"][0]["port"]))
            .collect()
    };
    let expect = |one: &str| vec![format!("\"{one}\":5432"), "\"10.96.7.7\":null".to_owned()];
    lab.until("addresses", &profiles, "varmor-demo-egress", |one| {
        ips(one) == expect("10.1.0.1")
    })
    .await;
    lab.merge(
        &slices,
        "db-1",
        json!({"endpoints": [{"addresses": ["10.1.0.2"]}]}),
    )
    .await;
    lab.until("new addresses", &profiles, "varmor-demo-egress", |one| {
        ips(one) == expect("10.1.0.2")
    })
    .await;
    lab.delete(&slices, "db-1").await;
    lab.until("without endpoints", &profiles, "varmor-demo-egress", |one| {
        ips(one).len() == 1
    })
    .await;
    lab.delete(&policies, "egress").await;
    lab.until_gone("the profile goes", &profiles, "varmor-demo-egress")
        .await;
}

fn deployment(name: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "labels": {"sandbox.varmor.org/enable": "true"}}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}
