//! Settings and rules of the NetworkProxy enforcer.

use k8s_openapi::api::core::v1::ResourceRequirements;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Port;

/// Settings of the sidecar proxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.proxyPort) || !has(self.proxyAdminPort) || self.proxyPort != self.proxyAdminPort", "message": "proxyPort and proxyAdminPort are the same"}
]))]
pub struct NetworkProxyConfig {
    /// Interception of TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mitm: Option<Mitm>,
    /// Resources of the sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// User id of the proxy; default 1337.
    #[serde(default, rename = "proxyUID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_294_i64))]
    pub proxy_uid: Option<i64>,
    /// Port of the proxy; default 15001.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub proxy_port: Option<u16>,
    /// Administration port of the proxy; default 15000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub proxy_admin_port: Option<u16>,
}

/// Interception of TLS connections to some domains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mitm {
    /// The domains.
    #[schemars(length(min = 1))]
    pub domains: Vec<String>,
    /// Headers that the proxy sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub header_mutations: Vec<HeaderMutation>,
}

/// Headers that the proxy sets for one domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeaderMutation {
    /// One of the domains of `mitm.domains`.
    #[schemars(length(min = 1))]
    pub domain: String,
    /// The headers.
    #[schemars(length(min = 1, max = 64))]
    pub headers: Vec<Header>,
}

/// One header: exactly one of `value` and `secretRef` is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.value) != has(self.secretRef)", "message": "give exactly one of value and secretRef"}
]))]
pub struct Header {
    /// Name of the header.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The Secret that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

/// One key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Key in the Secret.
    #[schemars(length(min = 1))]
    pub key: String,
}

/// Rules about outgoing connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkProxyEgress {
    /// `allow` or `deny`.
    #[schemars(regex(pattern = "(?i)^(allow|deny)$"))]
    pub default_action: String,
    /// Rules about addresses and ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub rules: Vec<ProxyRule>,
    /// Rules about HTTP requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub http_rules: Vec<ProxyHttpRule>,
}

/// A rule about addresses and ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(has(self.ip) && has(self.cidr))", "message": "give ip or cidr, not both"}
]))]
pub struct ProxyRule {
    /// `allow`, `deny`, `audit`.
    #[schemars(length(max = 8), inner(regex(pattern = "(?i)^(allow|deny|audit)$")))]
    pub qualifiers: Vec<String>,
    /// For the reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// An address; exclusive with `cidr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// A block of addresses; exclusive with `ip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// Ports; empty = every port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ports: Vec<Port>,
}

/// A rule about HTTP requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyHttpRule {
    /// `allow`, `deny`, `audit`.
    #[schemars(length(max = 8), inner(regex(pattern = "(?i)^(allow|deny|audit)$")))]
    pub qualifiers: Vec<String>,
    /// For the reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The requests.
    #[serde(rename = "match")]
    pub matches: HttpMatch,
}

/// Which HTTP requests a rule is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpMatch {
    /// Host names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ports: Vec<Port>,
    /// Paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub paths: Vec<HttpPath>,
    /// Methods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
}

/// A path of an HTTP request: exactly one of `exact` and `prefix` is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.exact) != has(self.prefix)", "message": "give exactly one of exact and prefix"}
]))]
pub struct HttpPath {
    /// The whole path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<String>,
    /// The beginning of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}
