//! Which workloads a policy is about.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The workloads that the policy protects: exactly one of `name` and `selector` is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.name) != has(self.selector)", "message": "give exactly one of name and selector"}
]))]
pub struct Target {
    /// Kind of the workload.
    pub kind: TargetKind,
    /// Name of the workload; exclusive with `selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// Labels of the workload; exclusive with `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Names of the containers; empty = every regular container of the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub containers: Vec<String>,
}

/// Kinds of workloads that a policy can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TargetKind {
    Deployment,
    StatefulSet,
    DaemonSet,
    Pod,
}

impl fmt::Display for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Target {
    /// Whether the selector holds for these labels; false when the target has no selector.
    #[must_use]
    pub fn selector_matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector
            .as_ref()
            .is_some_and(|selector| selector_matches(selector, labels))
    }

    /// Whether the policy is about the container with this name.
    #[must_use]
    pub fn selects_container(&self, name: &str) -> bool {
        self.containers.is_empty() || self.containers.iter().any(|container| container == name)
    }
}

/// Whether the selector holds for these labels.
#[must_use]
pub fn selector_matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let exact = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    let mut expressions = selector.match_expressions.iter().flatten();
    exact && expressions.all(|requirement| holds(requirement, labels))
}

/// The operators of a label selector.
pub(super) const SELECTOR_OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

/// An operator that Kubernetes does not know selects nothing: a policy then protects too little visibly (its
/// check fails) instead of too much silently.
fn holds(requirement: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let listed = value.is_some_and(|value| requirement.values.iter().flatten().any(|one| one == value));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target(selector: &serde_json::Value) -> Target {
        serde_json::from_value(json!({"kind": "Pod", "selector": selector})).expect("a valid target")
    }

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split(',')
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    }

    #[test]
    fn selectors_follow_kubernetes() {
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        for (selector, text, expected) in [
            (json!({"matchLabels": {"app": "web"}}), "app=web,x=y", true),
            (
                json!({"matchLabels": {"app": "web", "tier": "front"}}),
                "app=web",
                false,
            ),
            (json!({}), "anything=matches", true),
            (expression("In", &["web", "api"]), "app=api", true),
            (expression("In", &["web", "api"]), "x=y", false),
            (expression("NotIn", &["web"]), "app=web", false),
            (expression("NotIn", &["web"]), "x=y", true),
            (expression("Exists", &[]), "app=", true),
            (expression("DoesNotExist", &[]), "app=web", false),
        ] {
            assert_eq!(
                target(&selector).selector_matches(&labels(text)),
                expected,
                "{selector} {text}"
            );
        }
    }

    #[test]
    fn a_target_by_name_matches_no_labels() {
        let target: Target = serde_json::from_value(json!({"kind": "Pod", "name": "web"})).expect("valid");
        assert!(!target.selector_matches(&BTreeMap::new()));
    }

    #[test]
    fn an_empty_container_list_selects_every_container() {
        let mut target = target(&json!({}));
        assert!(target.selects_container("app"));
        target.containers = vec!["side".into()];
        assert!(target.selects_container("side") && !target.selects_container("app"));
    }
}
