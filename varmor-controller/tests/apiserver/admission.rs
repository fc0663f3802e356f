//! The webhooks as the API server meets them: registered, with a certificate that has ended, and gone.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use varmor_controller::admission::{FailurePolicy, Hooks, Options, Place, start};
use varmor_controller::certificate::{Names, issue, pair_secret};

use super::lab::{Lab, PATIENCE, condition, core, free_port, named, object};

const NAMESPACE: &str = "varmor";
/// Longer than a certificate is valid.
const LONG_AGO: Duration = Duration::from_hours(24 * 800);

pub(crate) async fn the_webhook_and_its_certificate(lab: &mut Lab) {
    let port = free_port();
    let webhook = serve(lab, port);
    refused(lab, "disallow-umount`", "a policy with a mistake is refused").await;

    let secrets = lab.api(&core("Secret", "secrets"), Some(NAMESPACE));
    let secret = pair_secret(NAMESPACE);
    let names = Names::new(NAMESPACE, &["127.0.0.1".to_owned()]).unwrap();
    let ended = issue(None, &names, SystemTime::now() - LONG_AGO).unwrap();
    let text = [
        ("tls.crt", &ended.certificate),
        ("tls.key", &ended.key),
        ("ca.crt", &ended.authority),
        ("ca.key", &ended.authority_key),
    ];
    let text: serde_json::Map<String, Value> = text
        .into_iter()
        .map(|(key, pem)| (key.to_owned(), json!(pem)))
        .collect();
    let written = lab.merge(&secrets, &secret, json!({"stringData": text})).await;
    let bad = json!(written)["data"]["tls.crt"].clone();
    lab.until("an ended certificate is replaced", &secrets, &secret, |one| {
        one["data"]["tls.crt"] != bad
    })
    .await;
    let registrations = registrations_of(
        lab,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    );
    let authority = json!(secrets.get(&secret).await.unwrap())["data"]["ca.crt"].clone();
    let registration = "varmor-policy-validating-webhook-cfg";
    lab.until(
        "the API server is told whom to trust",
        &registrations,
        registration,
        |one| one["webhooks"][0]["clientConfig"]["caBundle"] == authority,
    )
    .await;
    refused(lab, "disallow-umount`", "the new certificate serves").await;

    webhook.shutdown_background();
    // By default nobody's check is no check.
    refused(lab, "failed calling webhook", "a policy waits for the webhook").await;
    let registered = lab
        .until("the registration", &registrations, registration, |_| true)
        .await;
    let mut webhooks = registered["webhooks"].clone();
    webhooks[0]["failurePolicy"] = json!("Ignore");
    lab.merge(&registrations, registration, json!({"webhooks": webhooks}))
        .await;
    // Where the owner of the cluster wants it otherwise, the controller says what the webhook could not.
    let policies = lab.policies("demo");
    lab.create_in_time(&policies, &wrong()).await;
    let told = lab
        .until("its mistake is told", &policies, "unchecked", |one| {
            condition(one, "Created").0 == "False"
        })
        .await;
    let (_, reason, message) = condition(&told, "Created");
    assert_eq!(reason, "Invalid");
    assert!(message.contains("disallow-umount`"), "{message}");
    lab.delete(&policies, "unchecked").await;

    lab.delete(&registrations, registration).await;
    let mutating = registrations_of(
        lab,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    );
    lab.delete(&mutating, "varmor-resource-mutating-webhook-cfg")
        .await;
}

/// The registrations of webhooks of one kind.
fn registrations_of(lab: &Lab, kind: &str, plural: &str) -> Api<DynamicObject> {
    lab.api(&named("admissionregistration.k8s.io", "v1", kind, plural), None)
}

/// In a runtime of its own: only its end closes the connections that the API server has.
fn serve(lab: &Lab, port: u16) -> Runtime {
    let place = Place {
        namespace: NAMESPACE.to_owned(),
        address: Some(([127, 0, 0, 1], port).into()),
        match_label: String::new(),
    };
    let options = Options {
        failure_policy: FailurePolicy::Ignore,
        validation_failure_policy: FailurePolicy::Fail,
        webhook_timeout: 10,
        webhook_url: Some(format!("https://127.0.0.1:{port}")),
        certificate_name: Vec::new(),
    };
    let hooks = Hooks {
        served: Arc::new(|_| {}),
    };
    let (runtime, config) = (Runtime::new().unwrap(), lab.config.clone());
    runtime.spawn(async move {
        let client = Client::try_from(config).unwrap();
        let (running, _) = start(client, place, options, hooks).unwrap();
        panic!("the webhooks ended: {:?}", running.await);
    });
    runtime
}

/// What the definition's schema lets in and the webhook does not.
fn wrong() -> DynamicObject {
    let mut wrong = object("VarmorPolicy", "unchecked", "BPF");
    wrong["spec"]["policy"]["enhanceProtect"]["hardeningRules"] = json!(["disallow-umounts"]);
    serde_json::from_value(wrong).unwrap()
}

/// Waits until the API server refuses a policy with a mistake and says so.
async fn refused(lab: &Lab, says: &str, what: &str) {
    let policies = lab.policies("demo");
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let started = Instant::now();
    loop {
        let answer = policies.create(&params, &wrong()).await.map(|_| ());
        match answer {
            Err(error) if error.to_string().contains(says) => return,
            other => assert!(started.elapsed() < PATIENCE, "not in time: {what}; {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
