//! The annotations that admission writes.

use serde_json::{Map, Value};

/// On the object itself: when admission last changed it.
pub(crate) const MUTATED_AT: &str = "webhook.varmor.org/mutatedAt";
/// On the pod or the template: what was there before, see [`super::record`].
pub(super) const ORIGINAL: &str = "webhook.varmor.org/original";

/// The annotations are `{prefix}{container}`.
pub(super) const BPF: &str = "container.bpf.security.beta.varmor.org/";
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.varmor.org/";
pub(super) const SECCOMP: &str = "container.seccomp.security.beta.varmor.org/";
/// Kubernetes' own, before the field.
pub(super) const KUBERNETES_APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// All that may be edited.
pub(super) const PREFIXES: [&str; 4] = [BPF, APP_ARMOR, SECCOMP, KUBERNETES_APP_ARMOR];

/// The value with which an owner opts a container out.
pub(super) const UNCONFINED: &str = "unconfined";

/// The value that names a profile.
pub(super) fn localhost(profile: &str) -> String {
    format!("localhost/{profile}")
}

/// Writes down when the object was changed, or takes that away from an object that is its owner's again.
pub(super) fn stamp(object: &mut Value, now: Option<&str>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let Some(metadata) = object_in(object, "metadata") else {
        return;
    };
    if let Some(now) = now {
        if let Some(annotations) = object_in(metadata, "annotations") {
            annotations.insert(MUTATED_AT.to_owned(), now.into());
        }
    } else if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(MUTATED_AT);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// The object below `name`, created when it is absent or null; none if something else is there.
pub(super) fn object_in<'m>(
    map: &'m mut Map<String, Value>,
    name: &str,
) -> Option<&'m mut Map<String, Value>> {
    let value = map.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}
