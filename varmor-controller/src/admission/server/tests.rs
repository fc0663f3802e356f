//! Questions over HTTP, with a small API server behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use axum::extract::Path;
use axum::http::Request;
use kube::client::Body;
use serde_json::{Value, json};
use varmor_common::policy::{Enforcers, PolicyMode};

use super::super::policies::Scope;
use super::*;

fn policy(name: &str) -> Known {
    Known {
        namespace: Some("demo".to_owned()),
        name: name.to_owned(),
        created: 0,
        target: serde_json::from_value(json!({"kind": "Pod", "selector": {}})).expect("a target"),
        enforcers: Enforcers::BPF,
        mode: PolicyMode::AlwaysAllow,
        profile: None,
    }
}

/// An API server that knows one policy.
fn api_server() -> Client {
    let router = Router::new().route(
        "/apis/crd.varmor.org/v1beta1/namespaces/demo/varmorpolicies/{name}",
        get(async |Path(name): Path<String>| match name.as_str() {
            "young" => axum::Json(json!({
                "apiVersion": "crd.varmor.org/v1beta1", "kind": "VarmorPolicy",
                "metadata": {"namespace": "demo", "name": "young", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"target": {"kind": "Deployment", "name": "web"}, "policy": {"enforcer": "BPF", "mode": "AlwaysAllow"}},
            }))
            .into_response(),
            "broken" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            _ => {
                let status = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"});
                (StatusCode::NOT_FOUND, axum::Json(status)).into_response()
            }
        }),
    );
    Client::new(router, "varmor")
}

struct Fixture {
    state: Arc<State>,
    told: Arc<Mutex<Vec<Outcome>>>,
}

impl Fixture {
    fn new(complete: bool) -> Self {
        let policies = Policies::default();
        policies.change(|table| {
            table.replace(Scope::Namespaced, vec![policy("pods")], &BTreeSet::new());
            if complete {
                table.replace(Scope::Cluster, Vec::new(), &BTreeSet::new());
            }
        });
        let told = Arc::new(Mutex::new(Vec::new()));
        let hooks = Hooks {
            served: {
                let told = Arc::clone(&told);
                Arc::new(move |served| {
                    told.lock().unwrap().push(served.outcome);
                })
            },
        };
        let facts = Facts {
            app_armor_field: true,
            opt_in: BTreeMap::new(),
        };
        let (_, facts) = watch::channel(Some(facts));
        let state = Arc::new(State::new(api_server(), "varmor", policies, facts, hooks));
        Self { state, told }
    }

    async fn send(&self, method: &str, path: &str, media: &str, body: Vec<u8>) -> (StatusCode, Vec<u8>) {
        let client = Client::new(router(Arc::clone(&self.state)), "varmor");
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media)
            .body(Body::from(body))
            .expect("a request");
        let response = client.send(request).await.expect("an answer");
        let status = response.status();
        let body = response.into_body().collect_bytes().await.expect("a body");
        (status, body.to_vec())
    }

    async fn ask(&self, path: &str, question: &Value) -> (StatusCode, Value) {
        let body = question.to_string().into_bytes();
        let (status, body) = self.send("POST", path, "application/json", body).await;
        let text = String::from_utf8_lossy(&body).into_owned();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    fn outcomes(&self) -> Vec<Outcome> {
        self.told.lock().unwrap().clone()
    }
}

fn question(group: &str, kind: &str, namespace: &str, operation: &str, object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "kind": {"group": group, "version": "v1", "kind": kind},
            "resource": {"group": group, "version": "v1", "resource": "x"},
            "namespace": namespace, "name": "web", "operation": operation, "userInfo": {}, "object": object,
        },
    })
}

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "web"}]}})
}

#[tokio::test]
async fn a_pod_is_mutated_and_counted() {
    let fixture = Fixture::new(true);
    let (status, answer) = fixture
        .ask("/mutate", &question("", "Pod", "demo", "CREATE", &pod()))
        .await;
    assert_eq!(
        (status, &answer["response"]["allowed"]),
        (StatusCode::OK, &json!(true))
    );
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    assert_eq!(fixture.outcomes(), [Outcome::Mutated]);
}

#[tokio::test]
async fn the_systems_own_namespace_other_kinds_and_operations_are_admitted_as_they_are() {
    let fixture = Fixture::new(true);
    for question in [
        question("", "Pod", "varmor", "CREATE", &pod()),
        question("", "Pod", "demo", "UPDATE", &pod()),
        question("batch", "Job", "demo", "CREATE", &pod()),
        question("apps", "Deployment", "demo", "DELETE", &Value::Null),
    ] {
        let (status, answer) = fixture.ask("/mutate", &question).await;
        assert_eq!(
            (status, &answer["response"]["allowed"]),
            (StatusCode::OK, &json!(true)),
            "{answer}"
        );
        assert!(answer["response"].get("patch").is_none());
    }
}

/// H24: the API server applies the failure policy to every answer but 200.
#[tokio::test]
async fn before_all_policies_are_known_nothing_is_admitted_silently() {
    let fixture = Fixture::new(false);
    let (status, _) = fixture
        .ask("/mutate", &question("", "Pod", "demo", "CREATE", &pod()))
        .await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let (status, _) = fixture.send("GET", "/health/readiness", "", Vec::new()).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let (status, _) = fixture.send("GET", "/health/liveness", "", Vec::new()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(fixture.outcomes(), [Outcome::Failed]);
}

#[tokio::test]
async fn what_is_no_question_is_an_error_on_both_paths() {
    let fixture = Fixture::new(true);
    for path in ["/mutate", "/validate"] {
        for (media, body, expected) in [
            ("application/json", b"{".to_vec(), StatusCode::BAD_REQUEST),
            ("text/plain", b"{}".to_vec(), StatusCode::UNSUPPORTED_MEDIA_TYPE),
            (
                "application/json",
                vec![b' '; LARGEST + 1],
                StatusCode::PAYLOAD_TOO_LARGE,
            ),
        ] {
            let (status, _) = fixture.send("POST", path, media, body).await;
            assert_eq!(status, expected, "{path}");
        }
        let nothing = question("apps", "Deployment", "demo", "CREATE", &json!({"metadata": {}}));
        let (status, _) = fixture.ask("/mutate", &nothing).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
}

/// Another replica may have mutated the object by a policy that this one has not seen yet.
#[tokio::test]
async fn protection_is_taken_away_only_when_its_policy_is_gone_for_certain() {
    let fixture = Fixture::new(true);
    let protected = |policy: &str| {
        let key = "container.bpf.security.beta.varmor.org/web";
        let value = format!("localhost/varmor-demo-{policy}");
        let record = json!({"policies": [format!("VarmorPolicy demo/{policy}")],
            "annotations": {key: {"applied": value}}});
        let annotations = json!({key: value, "webhook.varmor.org/original": record.to_string()});
        let template =
            json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "web"}]}});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"template": template}});
        question("apps", "Deployment", "demo", "UPDATE", &object)
    };
    let (_, answer) = fixture.ask("/mutate", &protected("young")).await;
    assert!(answer["response"].get("patch").is_none(), "{answer}");
    let (_, answer) = fixture.ask("/mutate", &protected("gone")).await;
    assert!(answer["response"].get("patch").is_some(), "{answer}");
    let (status, _) = fixture.ask("/mutate", &protected("broken")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn policies_are_refused_with_a_message_and_deletions_are_not_touched() {
    let fixture = Fixture::new(false);
    let object = json!({
        "apiVersion": "crd.varmor.org/v1beta1", "kind": "VarmorPolicy", "metadata": {"namespace": "demo", "name": "web"},
        "spec": {"target": {"kind": "Pod", "name": "web"}, "policy": {"enforcer": "BPF", "mode": "EnhanceProtect"}},
    });
    let (_, answer) = fixture
        .ask(
            "/validate",
            &question("crd.varmor.org", "VarmorPolicy", "demo", "CREATE", &object),
        )
        .await;
    let response = &answer["response"];
    assert_eq!(
        (&response["allowed"], &response["status"]["code"]),
        (&json!(false), &json!(422))
    );
    assert!(
        response["status"]["message"]
            .as_str()
            .expect("a text")
            .contains("enhanceProtect")
    );
    let (_, answer) = fixture
        .ask(
            "/validate",
            &question("crd.varmor.org", "VarmorPolicy", "demo", "DELETE", &Value::Null),
        )
        .await;
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(fixture.outcomes(), [Outcome::Refused, Outcome::Admitted]);
}
