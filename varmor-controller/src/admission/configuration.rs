//! The registration of the webhooks with the API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::options::{FailurePolicy, Options};

pub(super) const MUTATING: &str = "varmor-resource-mutating-webhook-cfg";
pub(super) const VALIDATING: &str = "varmor-policy-validating-webhook-cfg";

/// How soon a registration that somebody deleted or changed is there again.
const CHECK: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(5);

const MANAGER: &str = "varmor-controller-admission";

/// What the registration says.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The controller's own, whose workloads are not sent.
    namespace: String,
    /// Instead of the Service.
    url: Option<String>,
    opt_in: BTreeMap<String, String>,
    workloads: FailurePolicy,
    policies: FailurePolicy,
    /// Seconds.
    timeout: u8,
}

impl Settings {
    pub(super) fn new(namespace: &str, opt_in: BTreeMap<String, String>, options: &Options) -> Result<Self> {
        let url = options
            .webhook_url
            .as_deref()
            .map(|url| url.trim_end_matches('/'));
        ensure!(
            url.is_none_or(|url| url.starts_with("https://")),
            "--webhook-url: the API server speaks HTTPS only; write https://name:port"
        );
        Ok(Self {
            namespace: namespace.to_owned(),
            url: url.map(str::to_owned),
            opt_in,
            workloads: options.failure_policy,
            policies: options.validation_failure_policy,
            timeout: options.webhook_timeout,
        })
    }

    fn client(&self, path: &str, authority: &str) -> Value {
        let bundle = ByteString(authority.as_bytes().to_vec());
        match &self.url {
            Some(url) => json!({"url": format!("{url}{path}"), "caBundle": bundle}),
            None => json!({
                "service": {"namespace": self.namespace, "name": "varmor-webhook-svc", "path": path, "port": 443},
                "caBundle": bundle,
            }),
        }
    }

    fn mutating(&self, authority: &str) -> Value {
        let webhook = |name: &str, rules: Value| {
            let mut webhook = json!({
                "name": name,
                "admissionReviewVersions": ["v1"],
                "clientConfig": self.client("/mutate", authority),
                "failurePolicy": self.workloads.as_str(),
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [self.namespace]},
                ]},
                "reinvocationPolicy": "IfNeeded",
                "rules": [rules],
                "sideEffects": "NoneOnDryRun",
                "timeoutSeconds": self.timeout,
            });
            if !self.opt_in.is_empty() {
                webhook["objectSelector"] = json!({"matchLabels": self.opt_in});
            }
            webhook
        };
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": MUTATING},
            "webhooks": [
                webhook("mutateworkload.varmor.org", json!({
                    "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["daemonsets", "deployments", "statefulsets"], "scope": "Namespaced",
                })),
                webhook("mutatepod.varmor.org", json!({
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["pods"], "scope": "Namespaced",
                })),
            ],
        })
    }

    fn validating(&self, authority: &str) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": VALIDATING},
            "webhooks": [{
                "name": "validatepolicy.varmor.org",
                "admissionReviewVersions": ["v1"],
                "clientConfig": self.client("/validate", authority),
                "failurePolicy": self.policies.as_str(),
                "matchPolicy": "Equivalent",
                "rules": [{
                    "apiGroups": ["crd.varmor.org"], "apiVersions": ["v1beta1"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["varmorpolicies", "varmorclusterpolicies"], "scope": "*",
                }],
                "sideEffects": "None",
                "timeoutSeconds": self.timeout,
            }],
        })
    }
}

/// Keeps both registrations as they should be until it is dropped; they follow the authority of the certificate.
pub(super) async fn keep(
    client: Client,
    settings: Settings,
    mut authority: watch::Receiver<Option<Arc<str>>>,
) {
    loop {
        let current = authority.borrow_and_update().clone();
        let wait = match current {
            // Nothing is sent here before there is a certificate to answer with.
            None => CHECK,
            Some(current) => match apply(&client, &settings, &current).await {
                Ok(()) => CHECK,
                Err(error) => {
                    tracing::error!(%error, "the webhooks are not registered as they should be");
                    RETRY
                }
            },
        };
        tokio::select! {
            () = sleep(wait) => {}
            changed = authority.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Writes both registrations. Nothing changes in the cluster when they are right.
async fn apply(client: &Client, settings: &Settings, authority: &str) -> Result<(), kube::Error> {
    let params = PatchParams::apply(MANAGER).force();
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let wanted = Patch::Apply(settings.mutating(authority));
    mutating.patch(MUTATING, &params, &wanted).await?;
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let wanted = Patch::Apply(settings.validating(authority));
    validating.patch(VALIDATING, &params, &wanted).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: Option<&str>, opt_in: &[(&str, &str)]) -> Settings {
        Settings {
            namespace: "varmor".to_owned(),
            url: url.map(str::to_owned),
            opt_in: opt_in
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            workloads: FailurePolicy::Ignore,
            policies: FailurePolicy::Fail,
            timeout: 30,
        }
    }

    /// Names, paths and rules are part of the interface.
    #[test]
    fn workloads_and_pods_are_sent_unless_they_are_the_systems_own() {
        let value = settings(None, &[("a/b", "true")]).mutating("PEM");
        let typed: MutatingWebhookConfiguration = serde_json::from_value(value).expect("a configuration");
        assert_eq!(
            typed.metadata.name.as_deref(),
            Some("varmor-resource-mutating-webhook-cfg")
        );
        let webhooks = typed.webhooks.expect("two webhooks");
        let names: Vec<&str> = webhooks.iter().map(|webhook| webhook.name.as_str()).collect();
        assert_eq!(names, ["mutateworkload.varmor.org", "mutatepod.varmor.org"]);
        for webhook in &webhooks {
            let service = webhook.client_config.service.as_ref().expect("a Service");
            assert_eq!(
                (
                    service.namespace.as_str(),
                    service.name.as_str(),
                    service.path.as_deref()
                ),
                ("varmor", "varmor-webhook-svc", Some("/mutate"))
            );
            assert_eq!(
                webhook.client_config.ca_bundle.as_ref().map(|pem| &pem.0[..]),
                Some(&b"PEM"[..])
            );
            assert_eq!(webhook.failure_policy.as_deref(), Some("Ignore"));
            assert_eq!(webhook.reinvocation_policy.as_deref(), Some("IfNeeded"));
            let excluded = webhook
                .namespace_selector
                .as_ref()
                .and_then(|one| one.match_expressions.as_ref());
            let excluded = &excluded.expect("an expression")[0];
            assert_eq!(
                (
                    excluded.key.as_str(),
                    excluded.operator.as_str(),
                    excluded.values.as_deref()
                ),
                (
                    "kubernetes.io/metadata.name",
                    "NotIn",
                    Some(&["varmor".to_owned()][..])
                )
            );
            assert!(webhook.object_selector.is_some());
        }
    }

    #[test]
    fn policies_of_both_kinds_are_checked() {
        let value = settings(None, &[]).validating("PEM");
        let typed: ValidatingWebhookConfiguration = serde_json::from_value(value).expect("a configuration");
        assert_eq!(
            typed.metadata.name.as_deref(),
            Some("varmor-policy-validating-webhook-cfg")
        );
        let webhook = &typed.webhooks.expect("one webhook")[0];
        assert_eq!(webhook.name, "validatepolicy.varmor.org");
        assert_eq!(webhook.failure_policy.as_deref(), Some("Fail"));
        assert!(webhook.namespace_selector.is_none());
    }

    #[test]
    fn outside_of_the_cluster_there_is_a_url_and_without_labels_no_selector() {
        let value = settings(Some("https://10.0.0.1:3443"), &[]).mutating("PEM");
        let webhook = &value["webhooks"][0];
        assert_eq!(webhook["clientConfig"]["url"], "https://10.0.0.1:3443/mutate");
        assert!(webhook["clientConfig"].get("service").is_none() && webhook.get("objectSelector").is_none());
    }
}
