//! `ArmorProfileModel`: what was observed of a workload, and the profiles made from it.
#![expect(
    clippy::duplicated_attributes,
    reason = "printer columns repeat their keys; that is kube's syntax"
)]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ArmorProfileModelStatus;

/// The fields of an `ArmorProfileModel`; it has no `spec`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "crd.varmor.org",
    version = "v1beta1",
    kind = "ArmorProfileModel",
    plural = "armorprofilemodels",
    namespaced,
    no_spec,
    status = "ArmorProfileModelStatus",
    derive = "PartialEq",
    doc = "ArmorProfileModel is the observed behaviour of a workload; it is written by the controller, not by users",
    printcolumn(name = "STORAGE-TYPE", type_ = "string", json_path = ".storageType"),
    printcolumn(name = "DESIRED", type_ = "integer", json_path = ".status.desiredNumber"),
    printcolumn(name = "COMPLETED", type_ = "integer", json_path = ".status.completedNumber"),
    printcolumn(name = "READY", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ModelFields {
    /// Where the data is: `CRDInternal` or `LocalDisk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_type: Option<StorageType>,
    /// The data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ModelData>,
}

/// Where the data of a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StorageType {
    #[serde(rename = "CRDInternal")]
    CrdInternal,
    LocalDisk,
}

/// What was observed and what was made from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelData {
    /// What the workload did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_result: Option<DynamicResult>,
    /// What is known without running the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub static_result: Option<StaticResult>,
    /// The profiles made from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ModelProfiles>,
    /// How the observations came about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
}

/// What the workload did, by the enforcer that saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_armor: Option<Observations>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bpf: Option<Observations>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<ObservedSyscalls>,
}

/// What is known without running the workload: nothing so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StaticResult {}

/// What AppArmor or BPF saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Observations {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ObservedFile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<ObservedNetwork>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<ObservedNetwork>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ptraces: Vec<ObservedPtrace>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<ObservedSignal>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<ObservedMount>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhandled: Vec<String>,
}

/// A file that was used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedFile {
    pub path: String,
    pub owner: bool,
    pub permissions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
}

/// Sockets and destinations that were used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedNetwork {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<ObservedSocket>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egresses: Vec<ObservedEgress>,
    /// Local addresses that were bound to, listened on or accepted on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingresses: Vec<ObservedEgress>,
}

/// A socket that was created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedSocket {
    pub domain: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub protocol: String,
}

/// A destination that was reached. Without an address it is every address, without ports every port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedEgress {
    pub ip: String,
    pub ports: Vec<u16>,
}

/// A ptrace access.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedPtrace {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    pub permissions: Vec<String>,
    pub external: bool,
}

/// A signal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedSignal {
    pub peer: String,
    pub permissions: Vec<String>,
    pub signals: Vec<String>,
}

/// A mount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedMount {
    pub path: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub flags: Vec<String>,
}

/// What Seccomp saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedSyscalls {
    pub syscalls: Vec<String>,
}

/// Profiles made from the observations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelProfiles {
    pub name: String,
    pub enforcer: String,
    pub mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_armor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<String>,
}

/// How the observations came about: what is missing in them, and what stands for more than was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Learning {
    /// Events that were recorded.
    pub events: u64,
    pub losses: Losses,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generalisations: Vec<Generalisation>,
    /// What profiles learned from a part of the recording would have made of the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_out: Vec<HeldOut>,
}

/// Events that are not in the recording, by cause. All of them zero: everything is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Losses {
    /// The kernel had no room for them.
    pub lost: u64,
    /// They were above the rate of the profile.
    pub limited: u64,
    /// They could not be read.
    pub unreadable: u64,
    /// The recording was full of different operations.
    pub overflow: u64,
}

/// Something that was seen and is now a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Generalisation {
    /// One of the things that were seen.
    pub from: String,
    pub to: String,
    /// How many different ones were seen.
    pub examples: u64,
    pub why: String,
}

/// What a profile learned from one part of a recording would have made of the rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldOut {
    /// Which part was held out: `the last 20 % of the time`.
    pub part: String,
    /// Events in the part, and those of them that would have been refused.
    pub events: u64,
    pub denied_events: u64,
    /// Different operations in the part, and those of them that would have been refused.
    pub operations: u64,
    pub denied_operations: u64,
    /// Refused events of a hundred.
    pub percent: f64,
    /// The operations that would have been refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
}
