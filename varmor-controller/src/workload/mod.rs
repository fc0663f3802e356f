//! The workloads of the cluster: whose pods a target means, and rolling them.

mod roll;

pub use roll::{Cause, RESTARTED_AT, ROLLED_FOR, Rolled, roll};

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{ApiResource, NotUsed, Object, gvk::GroupVersionKind};
use serde::{Deserialize, Serialize};
use varmor_common::policy::{Target, TargetKind, WorkloadPods};

/// What is read of a workload; everything else is left on the wire.
pub type WorkloadObject = Object<WorkloadSpec, NotUsed>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkloadSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// The workloads of the cluster.
#[derive(Debug, Default)]
pub struct Workloads {
    known: BTreeMap<WorkloadKey, Workload>,
}

/// Which workload is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadKey {
    /// As [`kind_name`] says.
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
}

/// What is remembered of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub labels: BTreeMap<String, String>,
    pub selector: LabelSelector,
}

impl Workloads {
    /// Whether anything has changed that a target can see.
    pub fn set(&mut self, key: WorkloadKey, workload: Option<Workload>) -> bool {
        match workload {
            Some(workload) if self.known.get(&key) == Some(&workload) => false,
            Some(workload) => {
                self.known.insert(key, workload);
                true
            }
            None => self.known.remove(&key).is_some(),
        }
    }

    #[must_use]
    pub fn get(&self, key: &WorkloadKey) -> Option<&Workload> {
        self.known.get(key)
    }

    pub fn keys(&self) -> impl Iterator<Item = &WorkloadKey> {
        self.known.keys()
    }

    /// The workloads that a target means, in order; `None` for Pods. No namespace = every namespace.
    #[must_use]
    pub fn pods_of(&self, namespace: Option<&str>, target: &Target) -> Option<Vec<WorkloadPods>> {
        let kind = kind_name(target.kind)?;
        let start = WorkloadKey {
            kind,
            namespace: namespace.unwrap_or_default().to_owned(),
            name: String::new(),
        };
        let of_kind = self
            .known
            .range(start..)
            .take_while(|(key, _)| key.kind == kind && namespace.is_none_or(|one| one == key.namespace));
        Some(
            of_kind
                .filter(|(key, workload)| is_meant(target, key, &workload.labels))
                .map(|(key, workload)| WorkloadPods {
                    namespace: key.namespace.clone(),
                    name: key.name.clone(),
                    selector: workload.selector.clone(),
                })
                .collect(),
        )
    }
}

/// Whether the target of a policy in `namespace` (`None` = cluster policy) means this workload.
#[must_use]
pub fn is_for(
    namespace: Option<&str>,
    target: &Target,
    key: &WorkloadKey,
    labels: &BTreeMap<String, String>,
) -> bool {
    kind_name(target.kind) == Some(key.kind)
        && namespace.is_none_or(|one| one == key.namespace)
        && is_meant(target, key, labels)
}

fn is_meant(target: &Target, key: &WorkloadKey, labels: &BTreeMap<String, String>) -> bool {
    match &target.name {
        Some(name) => *name == key.name,
        None => target.selector_matches(labels),
    }
}

/// The name of a kind that has pods of its own.
#[must_use]
pub fn kind_name(kind: TargetKind) -> Option<&'static str> {
    match kind {
        TargetKind::Deployment => Some("Deployment"),
        TargetKind::StatefulSet => Some("StatefulSet"),
        TargetKind::DaemonSet => Some("DaemonSet"),
        TargetKind::Pod => None,
    }
}

/// The kind as the API server serves it.
#[must_use]
pub fn resource(kind: &str) -> ApiResource {
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("apps", "v1", kind), &plural)
}

/// Reads a workload. One that has no selector has no pods that could be found.
#[must_use]
pub fn read(kind: &'static str, object: WorkloadObject) -> Option<(WorkloadKey, Workload)> {
    let key = WorkloadKey {
        kind,
        namespace: object.metadata.namespace?,
        name: object.metadata.name?,
    };
    let workload = Workload {
        labels: object.metadata.labels.unwrap_or_default(),
        selector: object.spec.selector?,
    };
    Some((key, workload))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known() -> Workloads {
        let mut workloads = Workloads::default();
        for (kind, namespace, name, label) in [
            ("Deployment", "a", "web", "x"),
            ("Deployment", "a", "db", "y"),
            ("Deployment", "b", "web", "x"),
            ("StatefulSet", "a", "web", "x"),
        ] {
            let workload = Workload {
                labels: BTreeMap::from([("app".to_owned(), label.to_owned())]),
                selector: serde_json::from_value(json!({"matchLabels": {"pod": name}})).unwrap(),
            };
            let key = WorkloadKey {
                kind,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            assert!(workloads.set(key.clone(), Some(workload.clone())));
            assert!(!workloads.set(key, Some(workload)), "nothing has changed");
        }
        workloads
    }

    fn meant(namespace: Option<&str>, target: &serde_json::Value) -> String {
        let target: Target = serde_json::from_value(target.clone()).unwrap();
        let Some(found) = known().pods_of(namespace, &target) else {
            return "pods".to_owned();
        };
        let names: Vec<String> = found
            .iter()
            .map(|one| format!("{}/{}", one.namespace, one.name))
            .collect();
        names.join(" ")
    }

    #[test]
    fn a_target_means_workloads_by_name_or_by_their_own_labels() {
        let by_name = json!({"kind": "Deployment", "name": "web"});
        let by_label = json!({"kind": "Deployment", "selector": {"matchLabels": {"app": "x"}}});
        let by_pod_label = json!({"kind": "Deployment", "selector": {"matchLabels": {"pod": "web"}}});
        assert_eq!(meant(Some("a"), &by_name), "a/web");
        assert_eq!(meant(None, &by_name), "a/web b/web");
        assert_eq!(meant(Some("a"), &by_label), "a/web");
        assert_eq!(meant(None, &by_pod_label), "");
        assert_eq!(meant(None, &json!({"kind": "DaemonSet", "name": "web"})), "");
        assert_eq!(meant(None, &json!({"kind": "Pod", "name": "web"})), "pods");
    }
}
