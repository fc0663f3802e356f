//! Which policies are about an object.

use std::collections::BTreeMap;

use serde_json::Value;
use varmor_common::policy::TargetKind;

use super::{Facts, Subject, keys, pod};
use crate::admission::policies::Candidate;

/// The policies that protect the object, in the order of `candidates`.
pub(super) fn matching<'c, 'p>(
    subject: Subject<'_>,
    candidates: &'c [Candidate<'p>],
    facts: &Facts,
) -> Vec<&'c Candidate<'p>> {
    let name = subject
        .object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let labels = labels(subject.object);
    let opted_in = facts
        .opt_in
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value));
    candidates
        .iter()
        .filter(|_| opted_in)
        .filter(|candidate| {
            let target = &candidate.policy.target;
            let namespace = candidate.policy.namespace.as_deref();
            let named = target.name.as_deref().is_some_and(|wanted| wanted == name);
            namespace.is_none_or(|namespace| namespace == subject.namespace)
                && target.kind == subject.kind
                && (named || target.selector_matches(&labels))
        })
        .collect()
}

/// Objects that are not touched whatever the policies say: those that are going, pods that only mirror a file of a node,
/// pods that no profile of Linux fits, and pods that a policy about their workload protects already.
pub(super) fn is_left_alone(subject: Subject<'_>, candidates: &[Candidate<'_>]) -> bool {
    let going = subject
        .object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null());
    let Some(template) = pod::template(subject.kind, subject.object) else {
        return going;
    };
    going
        || pod::is_for_windows(template)
        || (subject.kind == TargetKind::Pod
            && (pod::is_mirror(template) || is_covered(subject, template, candidates)))
}

/// Whether a pod has a controller and carries the profile of a policy about workloads.
fn is_covered(subject: Subject<'_>, pod: &Value, candidates: &[Candidate<'_>]) -> bool {
    let controlled = pod
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .is_some_and(|owners| {
            owners
                .iter()
                .any(|owner| owner["controller"] == Value::Bool(true))
        });
    let annotations = pod.pointer("/metadata/annotations").and_then(Value::as_object);
    controlled
        && annotations.into_iter().flatten().any(|(key, value)| {
            let ours = [keys::BPF, keys::APP_ARMOR, keys::SECCOMP]
                .iter()
                .any(|prefix| key.starts_with(prefix));
            let profile = value.as_str().and_then(|value| value.strip_prefix("localhost/"));
            ours && candidates.iter().any(|candidate| {
                let namespace = candidate.policy.namespace.as_deref();
                profile == Some(candidate.profile)
                    && candidate.policy.target.kind != TargetKind::Pod
                    && namespace.is_none_or(|namespace| namespace == subject.namespace)
            })
        })
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    object
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}
