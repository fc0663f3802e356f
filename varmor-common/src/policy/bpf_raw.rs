//! Raw rules of the BPF enforcer.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Port;
use super::varmor_policy::is_false;

/// Rules of the BPF enforcer, next to the built-in ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BpfRawRules {
    /// Rules about files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PathRule>,
    /// Rules about executables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<PathRule>,
    /// Rules about sockets and connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkRules>,
    /// Rule about ptrace and reading the memory of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptrace: Option<PtraceRawRule>,
    /// Rules about mounts and unmounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountRawRule>,
}

/// A rule about paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathRule {
    /// `deny`, `audit` or both; in an allow-list also `allow`, which is the default there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(regex(pattern = "(?i)^(allow|deny|audit)$")))]
    pub qualifiers: Vec<String>,
    /// Path pattern with `*`, `**`, `?`, `[a-z]` and `{a,b}`.
    #[schemars(length(max = 4096))]
    pub pattern: String,
    /// `read`, `write`, `append`, `exec` or `all`.
    pub permissions: Vec<String>,
}

/// Rules about sockets and connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRules {
    /// Which sockets may be created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16_384))]
    pub sockets: Vec<SocketRawRule>,
    /// Which destinations may be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressRules>,
    /// Which local addresses may be bound to, listened on and accepted on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16_384))]
    pub ingresses: Vec<IngressRawRule>,
}

/// A rule about local addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(has(self.ip) && has(self.cidr))", "message": "give ip or cidr, not both"}
]))]
pub struct IngressRawRule {
    /// `deny`, `audit` or both.
    #[schemars(length(max = 8), inner(regex(pattern = "(?i)^(allow|deny|audit)$")))]
    pub qualifiers: Vec<String>,
    /// A local address, `localhost` or `unspecified`; exclusive with `cidr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// A block of local addresses; exclusive with `ip`. A rule with neither is about every address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// Ports; empty = every port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ports: Vec<Port>,
}

/// A rule about the creation of sockets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(has(self.types) && size(self.types) > 0 && has(self.protocols) && size(self.protocols) > 0)", "message": "give types or protocols, not both"}
]))]
pub struct SocketRawRule {
    /// `deny`, `audit` or both; in an allow-list also `allow`, which is the default there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(regex(pattern = "(?i)^(allow|deny|audit)$")))]
    pub qualifiers: Vec<String>,
    /// Address families: `all`, `inet`, `unix`, ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// Socket types: `all`, `stream`, `dgram`, `raw`, ...; exclusive with `protocols`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Protocols: `all`, `icmp`, `tcp`, `udp`; exclusive with `types`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<String>,
}

/// Rules about outgoing connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressRules {
    /// By address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16_384))]
    pub to_destinations: Vec<ToDestination>,
    /// By Service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16_384))]
    pub to_services: Vec<ToService>,
    /// By Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16_384))]
    pub to_pods: Vec<ToPod>,
}

/// A rule about connections to addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(has(self.ip) && has(self.cidr))", "message": "give ip or cidr, not both"}
]))]
pub struct ToDestination {
    /// `deny`, `audit` or both; in an allow-list also `allow`, which is the default there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(regex(pattern = "(?i)^(allow|deny|audit)$")))]
    pub qualifiers: Vec<String>,
    /// An address, `localhost`, `unspecified` or `pod-self` (the addresses in the pod's network namespace that others
    /// can reach); exclusive with `cidr`.
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

/// A rule about connections to a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.name) != has(self.serviceSelector)", "message": "give exactly one of name and serviceSelector"},
    {"rule": "!has(self.name) || has(self.__namespace__)", "message": "the name of a Service needs its namespace"}
]))]
pub struct ToService {
    /// `deny`, `audit` or both; in an allow-list also `allow`, which is the default there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(regex(pattern = "(?i)^(allow|deny|audit)$")))]
    pub qualifiers: Vec<String>,
    /// Namespace of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the Service; exclusive with `serviceSelector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels of the Services; exclusive with `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_selector: Option<LabelSelector>,
}

/// A rule about connections to Pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToPod {
    /// `deny`, `audit` or both; in an allow-list also `allow`, which is the default there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(regex(pattern = "(?i)^(allow|deny|audit)$")))]
    pub qualifiers: Vec<String>,
    /// Namespace of the Pods; absent = every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels of the Pods.
    pub pod_selector: LabelSelector,
    /// Ports; empty = every port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ports: Vec<Port>,
}

/// The rule about ptrace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PtraceRawRule {
    /// `deny`, `audit` or both; in an allow-list also `allow`, which is the default there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(regex(pattern = "(?i)^(allow|deny|audit)$")))]
    pub qualifiers: Vec<String>,
    /// Also towards processes of the same container.
    #[serde(default, skip_serializing_if = "is_false")]
    pub strict_mode: bool,
    /// `trace`, `read`, `traceby`, `readby` or `all`.
    pub permissions: Vec<String>,
}

/// A rule about mounts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MountRawRule {
    /// `deny`, `audit` or both; in an allow-list also `allow`, which is the default there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(regex(pattern = "(?i)^(allow|deny|audit)$")))]
    pub qualifiers: Vec<String>,
    /// Pattern of the source; for an unmount of the mount point.
    #[schemars(length(max = 4096))]
    pub source_pattern: String,
    /// Filesystem type; `*` = every type, `none` = calls without a type (bind, move, remount, unmount).
    pub fstype: String,
    /// Mount flags of which one must be set, negated flags of which one must be clear, `umount` or `all`.
    pub flags: Vec<String>,
}
