//! Rolling the workloads of a policy, so that admission sees their pods again: once when the policy comes and once when
//! it goes.

use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::{WorkloadKey, resource};
use crate::selector::has_label;

/// On the pod template: when it was rolled. The name is vArmor's.
pub const RESTARTED_AT: &str = "controller.varmor.org/restartedAt";

/// On the workload: for which policy and why it was rolled last, so that a controller that stops on the way does not
/// begin anew.
pub const ROLLED_FOR: &str = "controller.varmor.org/rolledFor";

/// Why workloads are rolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Created,
    Deleted,
}

/// What rolling came to.
#[derive(Debug, Default)]
pub struct Rolled {
    pub count: usize,
    /// Workloads that the API server would not change, with its words.
    pub refused: Vec<String>,
}

impl Cause {
    /// What [`ROLLED_FOR`] says.
    #[must_use]
    pub fn mark(self, policy_uid: &str) -> String {
        match self {
            Self::Created => format!("{policy_uid}:created"),
            Self::Deleted => format!("{policy_uid}:deleted"),
        }
    }
}

/// Rolls these workloads, unless they have been already. Those that the webhook would not touch stay alone.
pub async fn roll(
    client: &Client,
    keys: &[WorkloadKey],
    mark: &str,
    match_label: &str,
) -> Result<Rolled, kube::Error> {
    let mut rolled = Rolled::default();
    for key in keys {
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &key.namespace, &resource(key.kind));
        let Some(object) = api.get_opt(&key.name).await? else {
            continue;
        };
        if !has_label(object.labels(), match_label) || !is_due(&object, mark) {
            continue;
        }
        let patch = patch(
            &object,
            mark,
            &Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        );
        let params = PatchParams {
            field_manager: Some(crate::MANAGER.to_owned()),
            ..PatchParams::default()
        };
        match api.patch(&key.name, &params, &Patch::Merge(patch)).await {
            Ok(_) => rolled.count += 1,
            // It went meanwhile, with its pods.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            // Another admission is against it: the other workloads are rolled all the same.
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                let WorkloadKey {
                    kind,
                    namespace,
                    name,
                } = key;
                rolled
                    .refused
                    .push(format!("{kind} {namespace}/{name}: {}", status.message));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(rolled)
}

fn is_due(object: &DynamicObject, mark: &str) -> bool {
    object.annotations().get(ROLLED_FOR).is_none_or(|one| one != mark)
        && object.metadata.deletion_timestamp.is_none()
}

/// The version in it has the API server refuse the patch if somebody else has changed the workload.
fn patch(object: &DynamicObject, mark: &str, now: &str) -> Value {
    json!({
        "metadata": {
            "resourceVersion": object.metadata.resource_version,
            "annotations": {ROLLED_FOR: mark},
        },
        "spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: now}}}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_rolled_once_for_each_cause() {
        let mark = Cause::Created.mark("u1");
        let mut object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "a", "resourceVersion": "7"}}))
        .unwrap();
        assert!(is_due(&object, &mark));
        object
            .annotations_mut()
            .insert(ROLLED_FOR.to_owned(), mark.clone());
        assert!(!is_due(&object, &mark));
        assert!(is_due(&object, &Cause::Deleted.mark("u1")));
        assert_eq!(patch(&object, &mark, "now")["metadata"]["resourceVersion"], "7");
    }
}
