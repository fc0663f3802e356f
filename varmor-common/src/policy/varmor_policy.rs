//! `VarmorPolicy` and `VarmorClusterPolicy`: what users write.
#![expect(
    clippy::duplicated_attributes,
    reason = "printer columns repeat their keys; that is kube's syntax"
)]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    DefenseInDepth, Enforcers, EnhanceProtect, ModelingOptions, NetworkProxyConfig, PolicyMode, PolicyStatus,
    Target,
};

/// The specification of both kinds of policies.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "crd.varmor.org",
    version = "v1beta1",
    kind = "VarmorPolicy",
    plural = "varmorpolicies",
    shortname = "vpol",
    namespaced,
    status = "PolicyStatus",
    derive = "PartialEq",
    doc = "VarmorPolicy protects workloads of its own namespace",
    printcolumn(name = "ENFORCER", type_ = "string", json_path = ".spec.policy.enforcer"),
    printcolumn(name = "MODE", type_ = "string", json_path = ".spec.policy.mode"),
    printcolumn(name = "TARGET-KIND", type_ = "string", json_path = ".spec.target.kind"),
    printcolumn(name = "TARGET-NAME", type_ = "string", json_path = ".spec.target.name"),
    printcolumn(
        name = "TARGET-SELECTOR",
        type_ = "string",
        json_path = ".spec.target.selector"
    ),
    printcolumn(name = "PROFILE-NAME", type_ = "string", json_path = ".status.profileName"),
    printcolumn(name = "READY", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.target == oldSelf.target", "message": "the target is immutable; delete the policy and create another one", "fieldPath": ".target"}
]))]
pub struct PolicySpec {
    /// The workloads that the policy protects; immutable after creation.
    pub target: Target,
    /// How they are protected.
    pub policy: Policy,
    /// Whether existing workloads are rolled when the policy is created or deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update_existing_workloads: bool,
}

/// The specification of a cluster policy: that of a policy.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "crd.varmor.org",
    version = "v1beta1",
    kind = "VarmorClusterPolicy",
    plural = "varmorclusterpolicies",
    shortname = "vcpol",
    status = "PolicyStatus",
    derive = "PartialEq",
    doc = "VarmorClusterPolicy protects workloads of every namespace",
    printcolumn(name = "ENFORCER", type_ = "string", json_path = ".spec.policy.enforcer"),
    printcolumn(name = "MODE", type_ = "string", json_path = ".spec.policy.mode"),
    printcolumn(name = "TARGET-KIND", type_ = "string", json_path = ".spec.target.kind"),
    printcolumn(name = "TARGET-NAME", type_ = "string", json_path = ".spec.target.name"),
    printcolumn(
        name = "TARGET-SELECTOR",
        type_ = "string",
        json_path = ".spec.target.selector"
    ),
    printcolumn(name = "PROFILE-NAME", type_ = "string", json_path = ".status.profileName"),
    printcolumn(name = "READY", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(transparent)]
pub struct ClusterPolicySpec(pub PolicySpec);

/// How the workloads are protected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.mode != 'EnhanceProtect' || has(self.enhanceProtect)", "message": "the mode EnhanceProtect needs enhanceProtect"},
    {"rule": "self.mode != 'BehaviorModeling' || has(self.modelingOptions)", "message": "the mode BehaviorModeling needs modelingOptions"},
    {"rule": "self.mode != 'DefenseInDepth' || has(self.defenseInDepth)", "message": "the mode DefenseInDepth needs defenseInDepth"}
]))]
pub struct Policy {
    /// AppArmor, BPF, Seccomp, NetworkProxy or a combination such as `AppArmorBPF`.
    pub enforcer: Enforcers,
    /// What the policy does.
    pub mode: PolicyMode,
    /// Needed by the mode `EnhanceProtect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enhance_protect: Option<EnhanceProtect>,
    /// Needed by the mode `BehaviorModeling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modeling_options: Option<ModelingOptions>,
    /// Needed by the mode `DefenseInDepth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defense_in_depth: Option<DefenseInDepth>,
    /// Settings of the sidecar proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_proxy_config: Option<NetworkProxyConfig>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
pub(super) fn is_false(value: &bool) -> bool {
    !value
}
