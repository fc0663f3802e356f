//! The modes `BehaviorModeling` and `DefenseInDepth`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::varmor_policy::is_false;
use super::{AppArmorRawRules, BpfRawRules, NetworkProxyEgress, SyscallRawRule};

/// Settings of the mode `BehaviorModeling`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelingOptions {
    /// How long the workload is observed, in minutes.
    #[schemars(range(min = 1, max = 525_600))]
    pub duration: i32,
}

/// Settings of the mode `DefenseInDepth`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefenseInDepth {
    /// The allow list of AppArmor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_armor: Option<AppArmorAllowList>,
    /// The allow list of BPF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bpf: Option<BpfAllowList>,
    /// The allow list of Seccomp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<SeccompAllowList>,
    /// The rules of the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_proxy: Option<NetworkProxyAllowList>,
    /// Log violations instead of refusing them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_violations: bool,
}

/// Where an allow list comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProfileType {
    /// From the `ArmorProfileModel` of the same name.
    BehaviorModel,
    /// From `customProfile`.
    Custom,
}

/// The allow list of AppArmor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppArmorAllowList {
    /// Where the list comes from.
    pub profile_type: ProfileType,
    /// The text of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_profile: Option<String>,
    /// Rules that are added to the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub app_armor_raw_rules: Vec<AppArmorRawRules>,
}

/// The allow list of BPF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BpfAllowList {
    /// Where the list comes from.
    pub profile_type: ProfileType,
    /// What is allowed; everything else is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_profile: Option<BpfCustomProfile>,
}

/// What a container may do. The rules are written like `bpfRawRules`; they allow unless their qualifiers say `deny`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BpfCustomProfile {
    #[serde(flatten)]
    pub rules: BpfRawRules,
    /// Capabilities by name (`net_bind_service`), or `all`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}

/// The allow list of Seccomp.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeccompAllowList {
    /// Where the list comes from.
    pub profile_type: ProfileType,
    /// The JSON of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_profile: Option<String>,
    /// Rules that are added to the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub syscall_raw_rules: Vec<SyscallRawRule>,
}

/// The rules of the proxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkProxyAllowList {
    /// Outgoing connections; absent = everything is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<NetworkProxyEgress>,
}
