//! Where the pod is within an object, and what of it matters here.

use serde_json::{Map, Value};
use varmor_common::policy::TargetKind;

use super::Error;

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) name: String,
    /// Runs before the regular ones.
    pub(super) init: bool,
}

/// The lists of containers, regular ones first.
pub(super) const LISTS: [&str; 2] = ["containers", "initContainers"];

/// The pod, or the template of the workload.
pub(super) fn template(kind: TargetKind, object: &Value) -> Option<&Value> {
    match kind {
        TargetKind::Pod => Some(object),
        _ => object.get("spec")?.get("template"),
    }
}

/// The same to be changed.
pub(super) fn template_mut(kind: TargetKind, object: &mut Value) -> Result<&mut Map<String, Value>, Error> {
    let (found, field) = match kind {
        TargetKind::Pod => (Some(object), "spec"),
        _ => (object.pointer_mut("/spec/template"), "spec.template.spec"),
    };
    found
        .and_then(Value::as_object_mut)
        .filter(|template| template.get("spec").is_some_and(Value::is_object))
        .ok_or(Error::Incomplete { kind, field })
}

/// The containers of a pod by name; entries without a name are for the API server to refuse.
pub(super) fn containers(template: &Map<String, Value>) -> Vec<Container> {
    let list = |name: &str| {
        template
            .get("spec")
            .and_then(|spec| spec.get(name))
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|container| container.get("name")?.as_str())
    };
    let regular = list(LISTS[0]).map(|name| (name, false));
    regular
        .chain(list(LISTS[1]).map(|name| (name, true)))
        .map(|(name, init)| Container {
            name: name.to_owned(),
            init,
        })
        .collect()
}

/// Kubernetes refuses the settings of Linux in pods for another system.
pub(super) fn is_for_windows(template: &Value) -> bool {
    template.pointer("/spec/os/name").and_then(Value::as_str) == Some("windows")
}

/// A copy, for the eyes of users, of a pod that a node runs from a file of its own.
pub(super) fn is_mirror(template: &Value) -> bool {
    template
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get("kubernetes.io/config.mirror"))
        .is_some()
}
