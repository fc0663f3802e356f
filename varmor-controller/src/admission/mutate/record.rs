//! What admission changed in a pod, as it is kept in an annotation beside the changes: a template that is rolled back takes
//! its own record with it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use varmor_common::policy::TargetKind;

use super::{keys, pod};

/// The fields of a container's `securityContext` that admission sets.
pub(super) const FIELDS: [&str; 2] = ["appArmorProfile", "seccompProfile"];

/// More policies than these are not looked up for one object, whoever wrote the record.
const MOST_POLICIES: usize = 64;

/// All changes in one pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// The policies that the changes are of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) policies: Vec<String>,
    /// By key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, Edit>,
    /// By name and field.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) containers: BTreeMap<String, BTreeMap<String, Edit>>,
    /// Objects that were absent: `metadata`, `annotations`, and the containers without a `securityContext`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) created: BTreeSet<Created>,
}

/// One change. It is undone only while `applied` is what is there: a value that somebody wrote since then stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Edit {
    /// Null = absent.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) before: Value,
    /// Null = removed.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) applied: Value,
}

/// An object that admission had to create.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Created {
    Metadata,
    Annotations,
    /// Of this container.
    SecurityContext(String),
}

impl Record {
    pub(super) fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.containers.is_empty()
    }

    /// The text of the annotation is in the hands of whoever may edit the workload: it can restore only what admission sets.
    fn parse(text: &str) -> Option<Self> {
        let mut record: Self = serde_json::from_str(text).ok()?;
        record.policies.truncate(MOST_POLICIES);
        record
            .annotations
            .retain(|key, _| keys::PREFIXES.iter().any(|prefix| key.starts_with(prefix)));
        for fields in record.containers.values_mut() {
            fields.retain(|field, _| FIELDS.contains(&field.as_str()));
        }
        Some(record)
    }
}

/// The record in an object; empty if there is none.
pub(super) fn read(kind: TargetKind, object: &Value) -> Record {
    pod::template(kind, object)
        .and_then(|template| template.pointer("/metadata/annotations"))
        .and_then(|annotations| parse_in(annotations.get(keys::ORIGINAL)?)?.ok())
        .unwrap_or_default()
}

/// The record in the value of the annotation; an error if it is none.
pub(super) fn parse_in(value: &Value) -> Option<Result<Record, ()>> {
    let text = value.as_str()?;
    Some(Record::parse(text).ok_or(()))
}
