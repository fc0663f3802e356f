//! `ArmorProfile`: what the manager hands to the nodes, one per policy.
#![expect(
    clippy::duplicated_attributes,
    reason = "printer columns repeat their keys; that is kube's syntax"
)]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ArmorProfileStatus, EgressAddresses, PolicySource, Target, WorkloadPods};

/// The specification of an `ArmorProfile`.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "crd.varmor.org",
    version = "v1beta1",
    kind = "ArmorProfile",
    plural = "armorprofiles",
    namespaced,
    status = "ArmorProfileStatus",
    derive = "PartialEq",
    doc = "ArmorProfile is what a policy means on a node; it is written by the controller, not by users",
    printcolumn(name = "PROFILE", type_ = "string", json_path = ".spec.profile.name"),
    printcolumn(name = "ENFORCER", type_ = "string", json_path = ".spec.profile.enforcer"),
    printcolumn(name = "MODE", type_ = "string", json_path = ".spec.profile.mode"),
    printcolumn(
        name = "DESIRED",
        type_ = "integer",
        json_path = ".status.desiredNumberLoaded"
    ),
    printcolumn(
        name = "CURRENT",
        type_ = "integer",
        json_path = ".status.currentNumberLoaded"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ArmorProfileSpec {
    /// The workloads that the profile is for.
    pub target: Target,
    /// The profile.
    pub profile: NodeProfile,
    /// The observation that goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior_modeling: Option<BehaviorModeling>,
    /// Whether existing workloads are rolled.
    pub update_existing_workloads: bool,
    /// The policy itself, which the nodes compile; vArmor has compiled contents in `profile` instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySource>,
    /// The workloads that the target means at present; absent for targets of kind Pod, which the nodes compare with
    /// the pods themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<Vec<WorkloadPods>>,
    /// The addresses behind the Services and Pods that the rules name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<EgressAddresses>,
}

/// The profile of every enforcer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeProfile {
    /// Name of the profile.
    pub name: String,
    /// The enforcers, as in the policy.
    pub enforcer: String,
    /// What happens on a violation.
    pub mode: NodeProfileMode,
    /// The text of the AppArmor profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_armor: Option<String>,
    /// The rules of the BPF enforcer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bpf: Option<BpfContent>,
    /// The JSON of the Seccomp profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<String>,
}

/// What happens on a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeProfileMode {
    Enforce,
    Complain,
}

/// The observation of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BehaviorModeling {
    /// Whether the workload is observed.
    pub enable: bool,
    /// For how many minutes.
    pub duration: i32,
}

/// The rules of the BPF enforcer in the numbers of the kernel interface of vArmor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BpfContent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<CapabilitiesContent>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PathContent>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<PathContent>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkContent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptrace: Option<PtraceContent>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountContent>,
}

/// Denied capabilities.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilitiesContent {
    pub mode: u32,
    pub capabilities: u64,
}

/// A rule about paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathContent {
    pub mode: u32,
    pub permissions: u32,
    pub pattern: PatternContent,
}

/// A pattern, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatternContent {
    pub flags: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Written backwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
}

/// A rule about sockets or addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkContent {
    pub mode: u32,
    pub flags: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<SocketContent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<AddressContent>,
}

/// Sockets as bit sets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SocketContent {
    pub domains: u64,
    pub types: u64,
    pub protocols: u64,
}

/// Addresses and ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressContent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_port: Option<u16>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
}

/// Denied ptrace permissions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PtraceContent {
    pub mode: u32,
    pub permissions: u32,
    pub flags: u32,
}

/// A rule about mounts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MountContent {
    pub mode: u32,
    pub mount_flags: u32,
    /// The spelling is vArmor's.
    #[serde(rename = "reverseMountflags")]
    pub reverse_mount_flags: u32,
    pub pattern: PatternContent,
    pub fstype: String,
}
