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

/// A destination that was reached.
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
