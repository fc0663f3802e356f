//! Recordings of nodes become one model, and the policy is complete when every node's is there.

use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use serde_json::{Value, json};
use varmor_common::policy::ArmorProfileModel;
use varmor_common::report::{MODEL_PATH, REPORT_PATH, TOKEN_AUDIENCE};

use super::agents::{agent, post_to, token, version};
use super::lab::{Lab, core, object};

const PROFILE: &str = "varmor-demo-recorded";

pub(crate) async fn recordings_become_a_model(lab: &mut Lab) {
    let (policies, profiles) = (lab.policies("demo"), lab.profiles("demo"));
    let models = lab.api(&ApiResource::erase::<ArmorProfileModel>(&()), Some("demo"));
    let mut tokens = Vec::new();
    for number in [1, 2] {
        let name = format!("recorder-{number}");
        agent(lab, &name, &format!("node-{number}"), "varmor-agent").await;
        tokens.push(token(lab, "varmor-agent", Some(&name), TOKEN_AUDIENCE).await);
    }
    lab.create(&policies, recorded()).await;
    let profile = lab.until("a profile", &profiles, PROFILE, |_| true).await;
    let uid = &profile["metadata"]["uid"];
    let report = async |number: usize, is_recording: bool| {
        let exception = json!({"namespace": "demo", "name": PROFILE, "uid": uid, "generation": 1,
            "state": "recording", "message": "until noon"});
        let exceptions = if is_recording {
            json!([exception])
        } else {
            json!([])
        };
        let body = json!({"node": format!("node-{number}"), "version": "1", "synced": version(&profile),
            "exceptions": exceptions});
        let code = post_to(lab, REPORT_PATH, &tokens[number - 1], &body.to_string()).await;
        assert_eq!(code, 204);
    };
    let hand_over = async |number: usize, node: usize, uid: &Value, path: &str| {
        let file = json!({"path": path, "owner": false, "permissions": ["read"]});
        let data = json!({"dynamicResult": {"bpf": {"files": [file]}, "seccomp": {"syscalls": ["read"]}},
            "learning": {"events": 1}});
        let body = json!({"node": format!("node-{node}"), "namespace": "demo", "name": PROFILE, "uid": uid, "data": data});
        post_to(lab, MODEL_PATH, &tokens[number - 1], &body.to_string()).await
    };
    report(1, true).await;
    report(2, true).await;
    let is_in = |phase: &str| {
        let phase = phase.to_owned();
        move |one: &Value| one["status"]["phase"] == phase
    };
    lab.until("recording", &policies, "recorded", is_in("Modeling"))
        .await;

    assert_eq!(
        hand_over(1, 2, uid, "/etc/a").await,
        403,
        "one node cannot speak for another"
    );
    assert_eq!(
        hand_over(1, 1, &json!("other"), "/etc/a").await,
        503,
        "another profile of the name"
    );
    assert!(models.get_opt(PROFILE).await.unwrap().is_none());
    assert_eq!(hand_over(1, 1, uid, "/etc/a").await, 204);
    assert_eq!(
        hand_over(1, 1, uid, "/etc/a").await,
        204,
        "again, after a restart"
    );
    report(1, false).await;
    let files = |one: &Value| {
        let files = one["data"]["dynamicResult"]["bpf"]["files"].as_array().unwrap();
        files.iter().map(|file| file["path"].clone()).collect::<Vec<_>>()
    };
    let model = lab
        .until("one of two", &models, PROFILE, |one| {
            one["status"]["completedNumber"] == 1
        })
        .await;
    assert_eq!(files(&model), ["/etc/a"]);
    assert_eq!(
        model["data"]["learning"]["events"], 1,
        "what came twice counts once"
    );
    assert_eq!(model["status"]["desiredNumber"], 2);
    let policy = lab.until("there", &policies, "recorded", |_| true).await;
    assert_eq!(
        policy["status"]["phase"], "Modeling",
        "the second node still records"
    );

    assert_eq!(hand_over(2, 2, uid, "/etc/b").await, 204);
    report(2, false).await;
    lab.until("complete", &policies, "recorded", is_in("Completed"))
        .await;
    let model = lab
        .until("ready", &models, PROFILE, |one| one["status"]["ready"] == true)
        .await;
    assert_eq!(files(&model), ["/etc/a", "/etc/b"]);
    assert_eq!(
        hand_over(2, 2, uid, "/etc/evil").await,
        409,
        "what is complete is not added to"
    );

    the_model_is_used(lab, &models).await;
    let pods = lab.api(&core("Pod", "pods"), Some("varmor"));
    for number in [1, 2] {
        let now = kube::api::DeleteParams::default().grace_period(0);
        pods.delete(&format!("recorder-{number}"), &now).await.unwrap();
    }
}

fn recorded() -> Value {
    let mut policy = object("VarmorPolicy", "recorded", "BPF");
    policy["spec"]["policy"] =
        json!({"enforcer": "BPF", "mode": "BehaviorModeling", "modelingOptions": {"duration": 1}});
    policy
}

async fn the_model_is_used(lab: &Lab, models: &Api<DynamicObject>) {
    let (policies, profiles) = (lab.policies("demo"), lab.profiles("demo"));
    let learned = json!({"spec": {"policy": {"mode": "DefenseInDepth", "modelingOptions": null,
        "defenseInDepth": {"bpf": {"profileType": "BehaviorModel"}}}}});
    lab.merge(&policies, "recorded", learned).await;
    lab.until("the profile has the model", &profiles, PROFILE, |one| {
        one["spec"]["policy"]["model"]["data"]["dynamicResult"]["bpf"]["files"][1]["path"] == "/etc/b"
    })
    .await;
    lab.delete(&policies, "recorded").await;
    lab.until_gone("the profile goes", &profiles, PROFILE).await;
    assert!(
        models.get_opt(PROFILE).await.unwrap().is_some(),
        "the model stays"
    );
    lab.delete(models, PROFILE).await;
}
