//! Certificates over their life, and replicas that race for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::judge::certificates;
use super::*;

fn names() -> Names {
    Names::new("varmor", &["10.0.0.1".to_owned()]).expect("valid names")
}

/// A time with which certificates of the test are made; not the present, so that nothing looks at the clock.
fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + DAY * 20_000
}

#[test]
fn a_fresh_certificate_is_kept_and_an_ending_one_is_renewed_by_the_same_authority() {
    let first = issue(None, &names(), start()).expect("issued");
    for (days, kept) in [(0, true), (240, true), (244, false), (366, false)] {
        let judgement = judge(&first, &names(), start() + DAY * days);
        assert_eq!(
            judgement == Judgement::Keep,
            kept,
            "after {days} days: {judgement:?}"
        );
    }
    let later = start() + DAY * 366;
    let second = issue(Some(&first), &names(), later).expect("renewed");
    assert_eq!(second.authority, first.authority);
    assert_ne!(second.certificate, first.certificate);
    assert_eq!(judge(&second, &names(), later), Judgement::Keep);
}

#[test]
fn an_ending_authority_is_replaced_and_stays_trusted_while_it_is_valid() {
    let first = issue(None, &names(), start()).expect("issued");
    let later = start() + DAY * 2500;
    let second = issue(Some(&first), &names(), later).expect("renewed");
    assert_eq!(judge(&second, &names(), later), Judgement::Keep);
    assert_eq!(certificates(&second.authority).len(), 2);
    assert!(
        second.authority.ends_with(&first.authority.replace("\r\n", "\n"))
            || second.authority.contains(first.authority.trim())
    );
    let much_later = later + DAY * 4000;
    let third = issue(Some(&second), &names(), much_later).expect("renewed");
    assert_eq!(
        certificates(&third.authority).len(),
        1,
        "an authority that has ended is dropped"
    );
}

#[test]
fn what_is_damaged_or_does_not_match_is_renewed() {
    let good = issue(None, &names(), start()).expect("issued");
    let other = issue(None, &names(), start()).expect("issued");
    let damaged: [Material; 6] = [
        Material {
            key: other.key.clone(),
            ..good.clone()
        },
        Material {
            certificate: other.certificate.clone(),
            key: other.key.clone(),
            ..good.clone()
        },
        Material {
            authority: "nonsense".to_owned(),
            ..good.clone()
        },
        Material {
            authority_key: other.authority_key.clone(),
            ..good.clone()
        },
        Material {
            certificate: String::new(),
            ..good.clone()
        },
        Material {
            authority: good.certificate.clone(),
            ..good.clone()
        },
    ];
    for (index, material) in damaged.iter().enumerate() {
        assert_ne!(judge(material, &names(), start()), Judgement::Keep, "{index}");
        let repaired = issue(Some(material), &names(), start()).expect("issued");
        assert_eq!(judge(&repaired, &names(), start()), Judgement::Keep, "{index}");
    }
    let more = Names::new("varmor", &["other.example".to_owned()]).expect("valid names");
    assert_ne!(judge(&good, &more, start()), Judgement::Keep);
    assert_ne!(
        judge(&good, &names(), start() - DAY),
        Judgement::Keep,
        "not valid yet"
    );
}

#[tokio::test]
async fn a_client_that_trusts_the_authority_accepts_the_server() {
    // The handshake is judged by the clock.
    let material = issue(None, &names(), SystemTime::now()).expect("issued");
    let server = TlsAcceptor::from(Arc::new(server_config(&material).expect("a configuration")));
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(&material.authority));
    let client = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(client));
    for (name, accepted) in [
        ("varmor-webhook-svc.varmor.svc", true),
        ("varmor-status-svc", true),
        ("10.0.0.1", true),
        ("varmor-webhook-svc.other.svc", false),
    ] {
        let (near, far) = tokio::io::duplex(1 << 14);
        let server = server.clone();
        let answer = tokio::spawn(async move {
            let mut stream = server.accept(far).await?;
            stream.write_all(b"hello").await?;
            stream.shutdown().await
        });
        let name_of_server = ServerName::try_from(name).expect("a name");
        let connected = connector.connect(name_of_server, near).await;
        assert_eq!(connected.is_ok(), accepted, "{name}");
        if let Ok(mut stream) = connected {
            let mut text = String::new();
            stream.read_to_string(&mut text).await.expect("an answer");
            assert_eq!(text, "hello");
        }
        assert_eq!(answer.await.expect("no panic").is_ok(), accepted);
    }
}

/// An API server that holds Secrets, with their versions.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<(u64, BTreeMap<String, Value>)>>);

impl Store {
    fn client(&self) -> Client {
        let path = "/api/v1/namespaces/varmor/secrets";
        let router = axum::Router::new()
            .route(path, post(create))
            .route(
                &format!("{path}/{{name}}"),
                get(read).put(replace).patch(apply).delete(delete),
            )
            .with_state(self.clone());
        Client::new(router, "varmor")
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client(), "varmor")
    }

    fn value(&self, name: &str) -> Value {
        self.0.lock().unwrap().1[name].clone()
    }

    fn put(&self, name: &str, mut value: Value) -> Value {
        let mut store = self.0.lock().unwrap();
        store.0 += 1;
        value["metadata"]["resourceVersion"] = store.0.to_string().into();
        store.1.insert(name.to_owned(), value.clone());
        value
    }

    fn get(&self, name: &str) -> Option<Value> {
        self.0.lock().unwrap().1.get(name).cloned()
    }
}

fn failure(code: StatusCode) -> Response {
    let reason = if code == StatusCode::NOT_FOUND {
        "NotFound"
    } else {
        "Conflict"
    };
    let status = json!({"kind": "Status", "status": "Failure", "code": code.as_u16(), "reason": reason});
    (code, Json(status)).into_response()
}

async fn read(State(store): State<Store>, Path(name): Path<String>) -> Response {
    // Replicas get to read before any of them writes.
    tokio::task::yield_now().await;
    store.get(&name).map_or_else(
        || failure(StatusCode::NOT_FOUND),
        |value| Json(value).into_response(),
    )
}

async fn create(State(store): State<Store>, Json(value): Json<Value>) -> Response {
    let name = value["metadata"]["name"].as_str().expect("a name").to_owned();
    if store.get(&name).is_some() {
        return failure(StatusCode::CONFLICT);
    }
    Json(store.put(&name, value)).into_response()
}

async fn replace(State(store): State<Store>, Path(name): Path<String>, Json(value): Json<Value>) -> Response {
    match store.get(&name) {
        None => failure(StatusCode::NOT_FOUND),
        Some(old) if old["metadata"]["resourceVersion"] != value["metadata"]["resourceVersion"] => {
            failure(StatusCode::CONFLICT)
        }
        Some(_) => Json(store.put(&name, value)).into_response(),
    }
}

async fn apply(State(store): State<Store>, Path(name): Path<String>, body: String) -> Response {
    let value = serde_json::from_str(&body).expect("JSON");
    Json(store.put(&name, value)).into_response()
}

async fn delete(State(store): State<Store>, Path(name): Path<String>) -> Response {
    store.0.lock().unwrap().1.remove(&name);
    Json(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})).into_response()
}

fn keeper(store: &Store) -> (Keeper, Published) {
    Keeper::new(store.client(), "varmor", names())
}

#[tokio::test]
async fn replicas_that_race_end_with_the_same_certificate() {
    let store = Store::default();
    let mut keepers: Vec<(Keeper, Published)> = (0..4).map(|_| keeper(&store)).collect();
    let secrets = store.secrets();
    let now = SystemTime::now();
    let checks = keepers.iter_mut().map(|(keeper, _)| keeper.check(&secrets, now));
    for result in futures_util::future::join_all(checks).await {
        result.expect("a certificate");
    }
    let authority = store.value(&authority_secret("varmor"))["data"]["rootCA.crt"].clone();
    assert_eq!(store.value(&pair_secret("varmor"))["data"]["ca.crt"], authority);
    let bundles: Vec<_> = keepers
        .iter()
        .map(|(_, published)| published.authority.borrow().clone())
        .collect();
    assert!(
        bundles
            .iter()
            .all(|bundle| bundle.is_some() && *bundle == bundles[0])
    );
    assert!(
        keepers
            .iter()
            .all(|(_, published)| published.tls.borrow().is_some())
    );
}

#[tokio::test]
async fn an_expired_certificate_is_replaced_and_every_replica_follows() {
    let store = Store::default();
    let ((mut one, first), (mut two, second)) = (keeper(&store), keeper(&store));
    let (secrets, past) = (store.secrets(), SystemTime::now() - DAY * 400);
    one.check(&secrets, past).await.expect("a certificate");
    two.check(&secrets, past).await.expect("a certificate");
    let (before, version) = (first.tls.borrow().clone(), store.value(&pair_secret("varmor")));
    two.check(&secrets, SystemTime::now()).await.expect("renewed");
    assert_ne!(
        store.value(&pair_secret("varmor"))["data"]["tls.crt"],
        version["data"]["tls.crt"]
    );
    assert_eq!(
        store.value(&pair_secret("varmor"))["data"]["ca.crt"],
        version["data"]["ca.crt"]
    );
    one.check(&secrets, SystemTime::now()).await.expect("followed");
    let after = first.tls.borrow().clone();
    assert!(!Arc::ptr_eq(&before.expect("served"), &after.expect("served")));
    assert_eq!(*first.authority.borrow(), *second.authority.borrow());
}

#[tokio::test]
async fn damaged_secrets_are_repaired() {
    let store = Store::default();
    let (mut keeper, published) = keeper(&store);
    let (secrets, now) = (store.secrets(), SystemTime::now());
    keeper.check(&secrets, now).await.expect("a certificate");
    let (pair, authority) = (pair_secret("varmor"), authority_secret("varmor"));
    let good = store.value(&pair);
    let mut broken: Vec<Value> = vec![
        json!({"metadata": {"name": pair}, "type": "kubernetes.io/tls"}),
        json!({"metadata": {"name": pair, "uid": "1"}, "type": "Opaque", "data": {"x": "eA=="}}),
    ];
    for key in ["tls.crt", "tls.key", "ca.crt", "ca.key"] {
        let mut damaged = good.clone();
        damaged["data"][key] = "bm9uc2Vuc2U=".into();
        broken.push(damaged);
    }
    for damaged in broken {
        store.put(&pair, damaged.clone());
        keeper.check(&secrets, now).await.expect("repaired");
        let value = store.value(&pair);
        assert_eq!(value["type"], "kubernetes.io/tls");
        let text = published.authority.borrow().clone().expect("an authority");
        let root = store.value(&authority)["data"]["rootCA.crt"].clone();
        let bytes: k8s_openapi::ByteString = serde_json::from_value(root.clone()).expect("bytes");
        assert_eq!(
            (&value["data"]["ca.crt"], &bytes.0[..]),
            (&root, text.as_bytes()),
            "{damaged}"
        );
    }
    store.0.lock().unwrap().1.remove(&authority);
    keeper
        .check(&secrets, now + Duration::from_secs(1))
        .await
        .expect("repaired");
    assert!(store.get(&authority).is_some());
}
