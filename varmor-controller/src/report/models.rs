//! Models: what the nodes have recorded of a workload becomes one `ArmorProfileModel`.

use kube::api::{Api, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use varmor_common::model::{ModelError, merge};
use varmor_common::policy::ModelData;
use varmor_common::report::ModelReport;

use crate::context::Context;
use crate::object::{ProfileKey, model_resource};
use crate::status::{is_modeling, is_recorded};

/// Somebody else may write the object between our look and our write.
const TRIES: u32 = 5;

/// Takes models.
pub(super) struct Models {
    context: Context,
    /// Nodes come at the same time, and each write needs the last one.
    turn: Mutex<()>,
}

/// Why a model is not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotTaken {
    #[error("the ArmorProfile {0} of this uid is not known, or no policy records it")]
    NotRecorded(ProfileKey),
    #[error("the recording for the ArmorProfile {0} is complete")]
    Complete(ProfileKey),
    #[error("the ArmorProfileModel {0} cannot be added to: {1}; delete it to begin anew")]
    Unreadable(ProfileKey, String),
    #[error("the ArmorProfileModel {0} is being changed by somebody else; try again")]
    Busy(ProfileKey),
    #[error("the ArmorProfileModel {0} cannot be written")]
    Unavailable(ProfileKey, #[source] Box<kube::Error>),
}

impl Models {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            turn: Mutex::default(),
        }
    }

    /// Adds what a node has recorded. It may come twice.
    pub(super) async fn take(&self, report: &ModelReport) -> Result<(), NotTaken> {
        let key = ProfileKey {
            namespace: report.namespace.clone(),
            name: report.name.clone(),
        };
        let turn = self.turn.lock().await;
        self.expected(&key, &report.uid)?;
        for _ in 0..TRIES {
            if self.add(&key, &report.data).await? {
                drop(turn);
                tracing::info!(model = %key, node = report.node, "the model has what this node has recorded");
                return Ok(());
            }
        }
        Err(NotTaken::Busy(key))
    }

    /// A node may only add to what is being recorded: a model that is in use is not changed by a node that was taken over.
    fn expected(&self, key: &ProfileKey, uid: &str) -> Result<(), NotTaken> {
        let world = self.context.world();
        let is_known = world.profile(key).is_some_and(|profile| profile.uid == uid);
        let of_policy = world.policies().find(|policy| {
            let outcome = world.outcome(&policy.key);
            outcome.is_some_and(|outcome| outcome.uid == policy.uid && outcome.profile.as_ref() == Some(key))
        });
        match of_policy.filter(|policy| is_known && is_modeling(policy)) {
            None => Err(NotTaken::NotRecorded(key.clone())),
            Some(policy) if is_recorded(policy, None) => Err(NotTaken::Complete(key.clone())),
            Some(_) => Ok(()),
        }
    }

    /// `false` if somebody was quicker.
    async fn add(&self, key: &ProfileKey, data: &ModelData) -> Result<bool, NotTaken> {
        let resource = model_resource();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.context.client.clone(), &key.namespace, &resource);
        let failed = |error| NotTaken::Unavailable(key.clone(), Box::new(error));
        let params = PostParams::default();
        let known = api.get_opt(&key.name).await.map_err(failed)?;
        let Some(new) = added(known.as_ref(), data, &key.name)
            .map_err(|reason| NotTaken::Unreadable(key.clone(), reason))?
        else {
            return Ok(true);
        };
        let written = if let Some(mut object) = known {
            object.data["data"] = new;
            api.replace(&key.name, &params, &object).await
        } else {
            let fields = json!({"storageType": "CRDInternal", "data": new});
            let object = DynamicObject::new(&key.name, &resource).data(fields);
            api.create(&params, &object).await
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }
}

/// The `data` of the object with this in it; `None` if it has everything.
fn added(known: Option<&DynamicObject>, data: &ModelData, name: &str) -> Result<Option<Value>, String> {
    let before: ModelData = match known.and_then(|object| object.data.get("data")) {
        Some(value) => serde_json::from_value(value.clone()).map_err(|error| format!("data: {error}"))?,
        None => ModelData::default(),
    };
    // Written by another vArmor, of what only AppArmor told: it would be lost.
    let is_foreign = before.learning.is_none()
        && before
            .dynamic_result
            .as_ref()
            .is_some_and(|result| result.bpf.is_none() && result.app_armor.is_some());
    if is_foreign {
        return Err("data.dynamicResult: it holds what AppArmor saw, and nothing of BPF".to_owned());
    }
    let merged = merge(&before, data, name).map_err(|error: ModelError| format!("data.{error}"))?;
    merged
        .map(|data| serde_json::to_value(data).map_err(|error| error.to_string()))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(calls: &[&str]) -> ModelData {
        serde_json::from_value(json!({
            "dynamicResult": {"bpf": {}, "seccomp": {"syscalls": calls}}, "learning": {"events": 1}
        }))
        .unwrap()
    }

    fn object(data: &Value) -> DynamicObject {
        let resource = model_resource();
        DynamicObject::new("m", &resource).data(json!({"data": data}))
    }

    #[test]
    fn what_is_known_is_not_written_again() {
        let first = added(None, &data(&["read"]), "m").unwrap().unwrap();
        let known = object(&first);
        assert_eq!(added(Some(&known), &data(&["read"]), "m").unwrap(), None);
        let more = added(Some(&known), &data(&["write"]), "m").unwrap().unwrap();
        assert_eq!(
            more["dynamicResult"]["seccomp"]["syscalls"],
            json!(["read", "write"])
        );
        assert_eq!(more["learning"]["events"], 2);
    }

    #[test]
    fn a_model_of_somebody_else_is_not_overwritten() {
        for bad in [
            json!({"dynamicResult": {"appArmor": {"files": [{"path": "/x", "permissions": ["r"], "owner": false}]}}}),
            json!({"dynamicResult": {"bpf": {"capabilities": ["fly"]}}}),
            json!({"dynamicResult": 3}),
        ] {
            assert!(
                added(Some(&object(&bad)), &data(&["read"]), "m").is_err(),
                "{bad}"
            );
        }
    }
}
