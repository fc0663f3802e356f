//! What a node tells the controller.
//!
//! A report is complete: it says up to which state of the cluster the node has applied everything, and names only what
//! is not in force. It is as large as the node has problems, so thousands of nodes and profiles need no object each, and
//! a controller that starts anew knows everything once every node has spoken once.

use serde::{Deserialize, Serialize};

use crate::policy::ModelData;

/// Where reports are posted: `POST /apis/v1/reports` with `Authorization: Bearer <token>`.
pub const REPORT_PATH: &str = "/apis/v1/reports";

/// Where a [`ModelReport`] is posted, in the same way.
pub const MODEL_PATH: &str = "/apis/v1/models";

/// The audience that the token of a node's agent is for.
pub const TOKEN_AUDIENCE: &str = "varmor-manager";

/// Seconds after which a node repeats its report although nothing has changed.
pub const REPORT_EVERY: u64 = 30;

/// Seconds of silence after which nothing is known of a node any more.
pub const REPORT_LOST: u64 = 3 * REPORT_EVERY;

/// Everything that one node says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeReport {
    pub node: String,
    /// Of the agent.
    pub version: String,
    /// The enforcers of this node.
    #[serde(default)]
    pub enforcers: Vec<EnforcerReport>,
    /// `resourceVersion` of the list of `ArmorProfile`s up to which the node has applied everything that is not named in
    /// `exceptions`. Compared as a number, which Kubernetes allows since 1.35 (KEP-5504) and etcd has always kept.
    pub synced: u64,
    /// The profiles that are not in force as they are written.
    #[serde(default)]
    pub exceptions: Vec<ProfileReport>,
    /// Containers that are under a profile at present.
    #[serde(default)]
    pub protected: u64,
}

/// An enforcer of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnforcerReport {
    /// `BPF`, `AppArmor`, `Seccomp`.
    pub name: String,
    /// Why the node has it not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// A profile that is not in force as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileReport {
    /// Of the `ArmorProfile`.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// `metadata.generation` of the `ArmorProfile` that is meant.
    pub generation: i64,
    pub state: ProfileState,
    pub message: String,
}

/// How far a profile is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProfileState {
    /// The node is at it.
    Pending,
    /// Refused; what was in force before still is.
    Failed,
    /// In force without the rules that the message names.
    Degraded,
    /// In force; what the workload does is being recorded, or the controller has yet to take the model.
    Recording,
}

/// What one node has recorded of the workload of a profile, once the time is over. Handed over again after a restart of
/// the agent: to take it twice changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelReport {
    pub node: String,
    /// Of the `ArmorProfile`.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub data: ModelData,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_without_problems_is_small() {
        let report = NodeReport {
            node: "n1".to_owned(),
            version: "0.1.0".to_owned(),
            synced: 12,
            ..NodeReport::default()
        };
        let text = serde_json::to_string(&report).expect("a report is JSON");
        assert_eq!(
            text,
            r#"{"node":"n1","version":"0.1.0","enforcers":[],"synced":12,"exceptions":[],"protected":0}"#
        );
        assert_eq!(
            serde_json::from_str::<NodeReport>(&text).expect("and back"),
            report
        );
    }
}
