//! What only the cluster knows about a policy, as the controller hands it to the nodes within an `ArmorProfile`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Port, ToPod, ToService};

/// The policy that an `ArmorProfile` was made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySource {
    /// `VarmorPolicy` or `VarmorClusterPolicy`.
    pub kind: String,
    /// Absent for a cluster policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// `metadata.generation` of the policy.
    pub generation: i64,
    /// The `spec` of the policy, word for word.
    #[schemars(schema_with = "anything")]
    pub spec: serde_json::Value,
    /// The `ArmorProfileModel` that the policy asks for, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub model: Option<serde_json::Value>,
}

/// The pods of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadPods {
    pub namespace: String,
    /// Name of the workload.
    pub name: String,
    /// `spec.selector` of the workload.
    pub selector: LabelSelector,
}

/// Whom a rule about connections means; exactly one field is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressPeer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<PeerSelector>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PeerSelector>,
}

impl EgressPeer {
    /// The Service with this name.
    #[must_use]
    pub fn service(namespace: &str, name: &str) -> Self {
        Self {
            service: Some(ServiceReference {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            ..Self::default()
        }
    }

    /// Whom a rule about Services means; the namespace of a rule with a selector may be absent.
    #[must_use]
    pub fn of_services(rule: &ToService) -> Self {
        match (&rule.name, &rule.service_selector) {
            (Some(name), _) => Self::service(rule.namespace.as_deref().unwrap_or_default(), name),
            (None, selector) => Self {
                services: Some(PeerSelector {
                    namespace: rule.namespace.clone(),
                    selector: selector.clone().unwrap_or_default(),
                }),
                ..Self::default()
            },
        }
    }

    /// Whom a rule about Pods means.
    #[must_use]
    pub fn of_pods(rule: &ToPod) -> Self {
        Self {
            pods: Some(PeerSelector {
                namespace: rule.namespace.clone(),
                selector: rule.pod_selector.clone(),
            }),
            ..Self::default()
        }
    }
}

/// One Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
}

/// Objects by their labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeerSelector {
    /// Absent = every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub selector: LabelSelector,
}

/// The present addresses of a peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EgressAddresses {
    pub peer: EgressPeer,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<EgressAddress>,
}

/// An address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct EgressAddress {
    #[schemars(with = "String")]
    pub ip: std::net::IpAddr,
    /// Ports; empty = every port. The ports that a rule names itself are not repeated here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
}

/// Any JSON object.
fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
