//! The mode EnhanceProtect: built-in rules, raw rules and their switches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::varmor_policy::is_false;
use super::{BpfRawRules, NetworkProxyEgress, SyscallRawRule};

/// Built-in and raw rules on top of RuntimeDefault, or on top of AlwaysAllow when `privileged` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnhanceProtect {
    /// Ids of built-in rules that harden the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hardening_rules: Vec<String>,
    /// Built-in rules against attack techniques.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attack_protection_rules: Vec<AttackProtectionRules>,
    /// Ids of built-in rules against single vulnerabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vul_mitigation_rules: Vec<String>,
    /// Rules in AppArmor's own language.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub app_armor_raw_rules: Vec<AppArmorRawRules>,
    /// Rules of the BPF enforcer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bpf_raw_rules: Option<BpfRawRules>,
    /// Rules of the Seccomp enforcer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub syscall_raw_rules: Vec<SyscallRawRule>,
    /// Rules of the NetworkProxy enforcer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_proxy_raw_rules: Option<NetworkProxyRawRules>,
    /// The workload is a privileged container: start from AlwaysAllow instead of RuntimeDefault.
    #[serde(default, skip_serializing_if = "is_false")]
    pub privileged: bool,
    /// Log violations.
    #[serde(default, skip_serializing_if = "is_false")]
    pub audit_violations: bool,
    /// Do not refuse violations of built-in rules.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_violations: bool,
}

/// Built-in rules, for the whole container or for some executables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttackProtectionRules {
    /// Ids of built-in rules.
    pub rules: Vec<String>,
    /// Absolute paths of the executables that the rules are for; empty = the whole container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
}

/// Rules in AppArmor's own language, for the whole container or for some executables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppArmorRawRules {
    /// The text of the rules.
    pub rules: String,
    /// Absolute paths of the executables that the rules are for; empty = the whole container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
}

/// Rules of the sidecar proxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkProxyRawRules {
    /// Outgoing connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<NetworkProxyEgress>,
}
