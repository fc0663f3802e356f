//! Objects of the API server, each read by itself: what cannot be read is one object's problem and nobody else's.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject, ObjectMeta};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use varmor_common::policy::{
    ArmorProfile, ArmorProfileModel, ArmorProfileSpec, ArmorProfileStatus, Diagnostic, EgressPeer,
    PolicyMode, PolicySpec, PolicyStatus, Target, VarmorClusterPolicy, VarmorPolicy, load,
};
use varmor_common::profile::egress_peers;

use crate::policy::needs_model;

pub const API_VERSION: &str = "crd.varmor.org/v1beta1";
pub const VARMOR_POLICY: &str = "VarmorPolicy";
pub const CLUSTER_POLICY: &str = "VarmorClusterPolicy";

/// Problems of one policy that its condition names; the rest is counted.
const SHOWN: usize = 5;

/// Which policy is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyKey {
    /// `None` = a cluster policy.
    pub namespace: Option<String>,
    pub name: String,
}

/// Which `ArmorProfile` is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileKey {
    pub namespace: String,
    pub name: String,
}

/// A policy of either kind.
#[derive(Clone, Debug)]
pub struct Policy {
    pub key: PolicyKey,
    pub uid: String,
    pub generation: i64,
    pub created: Option<Timestamp>,
    pub is_deleting: bool,
    pub labels: BTreeMap<String, String>,
    /// The `spec` as JSON text, word for word but for nulls, which mean the same as absence.
    pub spec: String,
    /// What of the cluster concerns it, or why it cannot be followed. All that it says is in `spec`: thousands of policies
    /// are kept, and a few at a time are carried out.
    pub read: Result<Box<Interest>, String>,
    pub status: PolicyStatus,
}

/// What has to be known of a policy when something else changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Interest {
    pub target: Target,
    /// The Services and Pods that its rules name.
    pub peers: Vec<EgressPeer>,
    /// It records what its workloads do.
    pub is_modeling: bool,
    /// Its profile is made from a model.
    pub needs_model: bool,
}

/// What a policy says.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    pub spec: PolicySpec,
    /// The Services and Pods that its rules name.
    pub peers: Vec<EgressPeer>,
}

/// An `ArmorProfile`.
#[derive(Clone, Debug)]
pub struct Profile {
    pub key: ProfileKey,
    pub uid: String,
    pub generation: i64,
    pub resource_version: u64,
    /// The `resource_version` at which this generation was first seen: a node that has synced up to it has this `spec`.
    pub spec_version: u64,
    pub created: Option<Timestamp>,
    pub is_deleting: bool,
    pub finalizers: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owner: Option<OwnerReference>,
    /// The `spec` as JSON text.
    pub spec: String,
    pub status: Option<ArmorProfileStatus>,
}

impl PolicyKey {
    #[must_use]
    pub fn kind(&self) -> &'static str {
        if self.namespace.is_some() {
            VARMOR_POLICY
        } else {
            CLUSTER_POLICY
        }
    }

    /// The kind as the API server serves it.
    #[must_use]
    pub fn resource(&self) -> ApiResource {
        if self.namespace.is_some() {
            ApiResource::erase::<VarmorPolicy>(&())
        } else {
            ApiResource::erase::<VarmorClusterPolicy>(&())
        }
    }
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{VARMOR_POLICY} {namespace}/{}", self.name),
            None => write!(f, "{CLUSTER_POLICY} {}", self.name),
        }
    }
}

impl fmt::Display for ProfileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Policy {
    /// Reads a policy. `None` only for an object without a name, which no API server has.
    #[must_use]
    pub fn read(mut object: DynamicObject) -> Option<Self> {
        let key = policy_key(&object)?;
        let meta = std::mem::take(&mut object.metadata);
        let mut spec = object.data.get_mut("spec").map(Value::take).unwrap_or_default();
        without_nulls(&mut spec);
        Some(Self {
            read: Wish::read(&key, &spec).map(|wish| Box::new(wish.interest())),
            key,
            uid: meta.uid.unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            created: meta.creation_timestamp.map(|time| time.0),
            is_deleting: meta.deletion_timestamp.is_some(),
            labels: meta.labels.unwrap_or_default(),
            spec: spec.to_string(),
            status: part(&mut object.data, "status").unwrap_or_default(),
        })
    }
}

impl Wish {
    /// Reads the `spec` of a policy with the same check as `varmor check`.
    pub fn read(key: &PolicyKey, spec: &Value) -> Result<Self, String> {
        let metadata = json!({"name": key.name, "namespace": key.namespace});
        let mut object =
            json!({"apiVersion": API_VERSION, "kind": key.kind(), "metadata": metadata, "spec": spec});
        without_nulls(&mut object);
        let loaded = load(&key.to_string(), object.to_string().as_bytes());
        let errors: Vec<&Diagnostic> = loaded.diagnostics.iter().filter(|one| one.is_error()).collect();
        match loaded.documents.first().and_then(|document| document.spec()) {
            Some(spec) if errors.is_empty() => Ok(Self {
                peers: egress_peers(spec),
                spec: spec.clone(),
            }),
            _ => Err(told(&errors)),
        }
    }

    fn interest(self) -> Interest {
        let rules = &self.spec.policy;
        Interest {
            is_modeling: rules.mode == PolicyMode::BehaviorModeling,
            needs_model: needs_model(rules),
            target: self.spec.target,
            peers: self.peers,
        }
    }
}

impl Profile {
    #[must_use]
    pub fn read(mut object: DynamicObject) -> Option<Self> {
        let status = part(&mut object.data, "status");
        let mut spec = object.data.get_mut("spec").map(Value::take).unwrap_or_default();
        without_nulls(&mut spec);
        let meta = object.metadata;
        let resource_version = version(&meta);
        Some(Self {
            key: ProfileKey {
                namespace: meta.namespace?,
                name: meta.name?,
            },
            uid: meta.uid.unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            resource_version,
            spec_version: resource_version,
            created: meta.creation_timestamp.map(|time| time.0),
            is_deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.unwrap_or_default(),
            labels: meta.labels.unwrap_or_default(),
            annotations: meta.annotations.unwrap_or_default(),
            owner: meta
                .owner_references
                .into_iter()
                .flatten()
                .find(|owner| owner.controller == Some(true)),
            spec: spec.to_string(),
            status,
        })
    }

    /// The `spec`, if it can be read.
    #[must_use]
    pub fn spec(&self) -> Option<ArmorProfileSpec> {
        serde_json::from_str(&self.spec).ok()
    }

    #[must_use]
    pub fn owner_uid(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| owner.uid.as_str())
    }

    #[must_use]
    pub fn resource() -> ApiResource {
        ApiResource::erase::<ArmorProfile>(&())
    }
}

/// The kind of models as the API server serves it.
#[must_use]
pub fn model_resource() -> ApiResource {
    ApiResource::erase::<ArmorProfileModel>(&())
}

/// Which policy a policy object is.
#[must_use]
pub fn policy_key(object: &DynamicObject) -> Option<PolicyKey> {
    Some(PolicyKey {
        namespace: object.metadata.namespace.clone(),
        name: object.metadata.name.clone()?,
    })
}

/// `resourceVersion` as a number; 0 if it is none, which no node can have synced behind.
#[must_use]
pub fn version(meta: &ObjectMeta) -> u64 {
    let text = meta.resource_version.as_deref().unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// One field of an object; what cannot be read is as if it were not there.
fn part<T: DeserializeOwned>(data: &mut Value, field: &str) -> Option<T> {
    serde_json::from_value(data.get_mut(field).map(Value::take)?).ok()
}

/// Takes the fields out that are null. The API server does not always give back a null that it was given.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// The problems of a policy in one line each: field, message, help.
fn told(errors: &[&Diagnostic]) -> String {
    let mut lines: Vec<String> = errors
        .iter()
        .take(SHOWN)
        .map(|error| {
            let field = if error.field.is_empty() {
                "the policy"
            } else {
                &error.field
            };
            match &error.help {
                Some(help) => format!("{field}: {}; {help}", error.message),
                None => format!("{field}: {}", error.message),
            }
        })
        .collect();
    if errors.len() > SHOWN {
        lines.push(format!("{} more problems", errors.len() - SHOWN));
    }
    if lines.is_empty() {
        lines.push("the policy holds nothing; write its `spec`".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A policy for tests.
    pub(crate) fn policy(namespace: Option<&str>, name: &str, uid: &str, spec: &Value) -> Policy {
        let key = PolicyKey {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        };
        let object = json!({
            "apiVersion": API_VERSION, "kind": key.kind(),
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"team": "a"}},
            "spec": spec,
        });
        Policy::read(serde_json::from_value(object).unwrap()).unwrap()
    }

    /// A small valid `spec`.
    pub(crate) fn spec(enforcer: &str) -> Value {
        json!({"target": {"kind": "Deployment", "name": "web"},
            "policy": {"enforcer": enforcer, "mode": "EnhanceProtect",
                "enhanceProtect": {"hardeningRules": ["disallow-mount"]}}})
    }

    #[test]
    fn a_policy_is_read_with_the_check_of_the_command_line() {
        let good = policy(Some("demo"), "web", "u1", &spec("BPF"));
        assert!(good.read.is_ok(), "{:?}", good.read);
        let mut wrong = spec("BPF");
        wrong["policy"]["enhanceProtect"]["hardeningRules"][0] = json!("disallow-mounts");
        let message = policy(Some("demo"), "web", "u1", &wrong).read.unwrap_err();
        assert!(
            message.starts_with("spec.policy.enhanceProtect.hardeningRules[0]: "),
            "{message}"
        );
        assert!(message.contains("disallow-mount`"), "{message}");
    }

    #[test]
    fn what_go_would_choke_on_is_a_problem_of_one_policy() {
        let mut wrong = spec("BPF");
        wrong["policy"]["enhanceProtect"]["bpfRawRules"] = json!({"network": {"egress": {"toDestinations": [
            {"qualifiers": ["deny"], "ip": "10.0.0.1", "ports": [{"port": 70000}]}]}}});
        let message = policy(None, "web", "u1", &wrong).read.unwrap_err();
        assert!(message.contains("ports[0].port"), "{message}");
        let message = policy(None, "web", "u1", &json!("text")).read.unwrap_err();
        assert!(message.contains("spec"), "{message}");
        let message = policy(None, "web", "u1", &Value::Null).read.unwrap_err();
        assert!(message.contains("spec"), "{message}");
    }

    #[test]
    fn a_status_that_cannot_be_read_is_no_status() {
        let object = json!({"apiVersion": API_VERSION, "kind": VARMOR_POLICY,
            "metadata": {"name": "a", "namespace": "b"}, "spec": spec("BPF"), "status": {"ready": "maybe"}});
        let policy = Policy::read(serde_json::from_value(object).unwrap()).unwrap();
        assert_eq!(policy.status, PolicyStatus::default());
    }
}
