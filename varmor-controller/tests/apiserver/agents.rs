//! Reports of nodes: who may speak, and what it changes.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use varmor_common::report::{REPORT_PATH, TOKEN_AUDIENCE};

use super::lab::{Lab, condition, core, object};

pub(crate) async fn reports(lab: &mut Lab) {
    agent(lab, "agent-1", "node-1", "varmor-agent").await;
    agent(lab, "agent-2", "node-2", "varmor-agent").await;
    agent(lab, "evil-1", "node-3", "evil").await;
    let good = token(lab, "varmor-agent", Some("agent-1"), TOKEN_AUDIENCE).await;
    let code = async |token: &str, node: &str| {
        post(
            lab,
            token,
            &json!({"node": node, "version": "1", "synced": 1}).to_string(),
        )
        .await
    };
    assert_eq!(code(&good, "node-1").await, 204);
    assert_eq!(
        code(&good, "node-2").await,
        403,
        "one node cannot speak for another"
    );
    assert_eq!(code("", "node-1").await, 401);
    assert_eq!(code("nonsense", "node-1").await, 401);
    assert_eq!(code("admin-token", "node-1").await, 401, "not for this audience");
    let other = token(lab, "evil", Some("evil-1"), TOKEN_AUDIENCE).await;
    assert_eq!(code(&other, "node-3").await, 403, "not the agent's account");
    let unbound = token(lab, "varmor-agent", None, TOKEN_AUDIENCE).await;
    assert_eq!(code(&unbound, "node-1").await, 403, "not bound to a pod");
    let elsewhere = token(
        lab,
        "varmor-agent",
        Some("agent-1"),
        "https://kubernetes.default.svc",
    )
    .await;
    assert_eq!(code(&elsewhere, "node-1").await, 401, "not for this audience");
    assert_eq!(post(lab, &good, "{").await, 422);
    assert_eq!(post(lab, &good, &" ".repeat(2 << 20)).await, 413);
}

pub(crate) async fn a_stale_report_does_not_make_ready(lab: &mut Lab) {
    let (policies, profiles) = (lab.policies("demo"), lab.profiles("demo"));
    let tokens = [
        token(lab, "varmor-agent", Some("agent-1"), TOKEN_AUDIENCE).await,
        token(lab, "varmor-agent", Some("agent-2"), TOKEN_AUDIENCE).await,
    ];
    lab.create(&policies, object("VarmorPolicy", "ready", "BPF"))
        .await;
    let profile = lab
        .until("a profile", &profiles, "varmor-demo-ready", |_| true)
        .await;
    let report = async |number: usize, synced: u64, exceptions: Value| {
        let body = json!({"node": format!("node-{number}"), "version": "1", "synced": synced, "exceptions": exceptions});
        assert_eq!(post(lab, &tokens[number - 1], &body.to_string()).await, 204);
    };
    let first = version(&profile);
    report(1, first, json!([])).await;
    report(2, first, json!([])).await;
    let is_ready = |one: &Value| one["status"]["ready"] == true;
    lab.until("both have it", &policies, "ready", is_ready).await;
    lab.until("and are counted", &profiles, "varmor-demo-ready", |one| {
        one["status"]["currentNumberLoaded"] == 2
    })
    .await;

    let change = json!({"spec": {"policy": {"enhanceProtect": {"hardeningRules": ["disallow-umount"]}}}});
    lab.merge(&policies, "ready", change).await;
    let is_stale = |one: &Value| one["status"]["observedGeneration"] == 2 && one["status"]["ready"] == false;
    lab.until("not ready any more", &policies, "ready", is_stale)
        .await;
    let profile = lab
        .until("a new one", &profiles, "varmor-demo-ready", |one| {
            one["metadata"]["generation"] == 2
        })
        .await;
    report(1, first, json!([])).await;
    report(2, version(&profile), json!([])).await;
    lab.until("one has it", &profiles, "varmor-demo-ready", |one| {
        one["status"]["currentNumberLoaded"] == 1 && one["status"]["observedGeneration"] == 2
    })
    .await;
    let policy = lab.until("there", &policies, "ready", |_| true).await;
    assert!(!is_ready(&policy), "an old report makes nothing ready");

    let uid = &profile["metadata"]["uid"];
    let failed = json!([{"namespace": "demo", "name": "varmor-demo-ready", "uid": uid, "generation": 2,
        "state": "failed", "message": "no BPF here"}]);
    report(1, version(&profile), failed).await;
    let policy = lab
        .until("a failure is told", &policies, "ready", |one| {
            one["status"]["phase"] == "Error"
        })
        .await;
    assert_eq!(condition(&policy, "Ready").1, "Error");
    lab.until("with the node", &profiles, "varmor-demo-ready", |one| {
        one["status"]["conditions"][0]["nodeName"] == "node-1"
    })
    .await;
    report(1, version(&profile), json!([])).await;
    lab.until("and is over", &policies, "ready", is_ready).await;

    // A new controller knows nothing until the nodes have spoken.
    lab.stop_controller().await;
    lab.start_controller().await;
    lab.until("unknown is not ready", &policies, "ready", |one| !is_ready(one))
        .await;
    for (number, token) in tokens.iter().enumerate() {
        let profile = lab.until("there", &profiles, "varmor-demo-ready", |_| true).await;
        let body =
            json!({"node": format!("node-{}", number + 1), "version": "1", "synced": version(&profile)});
        assert_eq!(post(lab, token, &body.to_string()).await, 204);
    }
    lab.until("everybody has spoken", &policies, "ready", is_ready)
        .await;
    lab.delete(&policies, "ready").await;
    lab.until_gone("the profile goes", &profiles, "varmor-demo-ready")
        .await;
    let pods = lab.api(&core("Pod", "pods"), Some("varmor"));
    for name in ["agent-1", "agent-2", "evil-1"] {
        pods.delete(name, &kube::api::DeleteParams::default().grace_period(0))
            .await
            .unwrap();
    }
    assert_eq!(
        post(lab, &tokens[0], "{}").await / 100,
        4,
        "the token ends with its pod, or its pod is no agent"
    );
}

pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

pub(crate) async fn agent(lab: &Lab, name: &str, node: &str, account: &str) {
    let accounts = lab.api(&core("ServiceAccount", "serviceaccounts"), Some("varmor"));
    if accounts.get_opt(account).await.unwrap().is_none() {
        lab.create(&accounts, json!({"metadata": {"name": account}}))
            .await;
    }
    let pods = lab.api(&core("Pod", "pods"), Some("varmor"));
    lab.create(
        &pods,
        json!({"metadata": {"name": name, "labels": {"app": "varmor-agent"}}, "spec": {
        "nodeName": node, "serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]}}),
    )
    .await;
}

pub(crate) async fn token(lab: &Lab, account: &str, pod: Option<&str>, audience: &str) -> String {
    use k8s_openapi::api::authentication::v1::TokenRequest;
    use k8s_openapi::api::core::v1::ServiceAccount;
    let mut spec = json!({"audiences": [audience]});
    if let Some(pod) = pod {
        let pods = lab.api(&core("Pod", "pods"), Some("varmor"));
        let uid = pods.get(pod).await.unwrap().metadata.uid;
        spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
    }
    let request: TokenRequest = serde_json::from_value(json!({"spec": spec})).unwrap();
    let accounts: kube::Api<ServiceAccount> = kube::Api::namespaced(lab.client.clone(), "varmor");
    let made = accounts
        .create_token_request(account, &kube::api::PostParams::default(), &request)
        .await
        .unwrap();
    made.status.unwrap().token
}

/// The code of the answer to a report.
async fn post(lab: &Lab, token: &str, body: &str) -> u16 {
    post_to(lab, REPORT_PATH, token, body).await
}

/// The code of the answer.
pub(crate) async fn post_to(lab: &Lab, path: &str, token: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(lab.reports).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The answer to a body that is too large comes before its end.
    stream.write_all(body.as_bytes()).await.ok();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[9..]).parse().unwrap()
}
