//! What admission needs of one policy.

use kube::ResourceExt;
use kube::core::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::Value;
use varmor_common::policy::{Enforcers, PolicyMode, Target};

/// A policy, as far as admission asks for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    /// Absent for a cluster policy.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// Seconds since 1970.
    pub(crate) created: i64,
    pub(crate) target: Target,
    pub(crate) enforcers: Enforcers,
    pub(crate) mode: PolicyMode,
    /// The name of its profile that its status holds, if it does already.
    pub(crate) profile: Option<String>,
}

/// A policy that may be about an object, with the name of its profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'p> {
    pub(crate) policy: &'p Known,
    pub(crate) profile: &'p str,
}

impl Candidate<'_> {
    /// `VarmorPolicy demo/web`, `VarmorClusterPolicy web`.
    #[must_use]
    pub(crate) fn identity(&self) -> String {
        match &self.policy.namespace {
            Some(namespace) => format!("VarmorPolicy {namespace}/{}", self.policy.name),
            None => format!("VarmorClusterPolicy {}", self.policy.name),
        }
    }
}

/// A policy of which admission can make nothing.
#[derive(Debug, thiserror::Error)]
#[error("the policy {name} has no readable `{field}`")]
pub(crate) struct Unreadable {
    name: String,
    field: &'static str,
    #[source]
    source: serde_json::Error,
}

impl Known {
    /// Reads only what is needed, so that a policy with an error elsewhere still counts.
    pub(crate) fn read(object: &DynamicObject) -> Result<Self, Unreadable> {
        let created = object.metadata.creation_timestamp.as_ref();
        let profile = object.data.pointer("/status/profileName").and_then(Value::as_str);
        Ok(Self {
            namespace: object.namespace(),
            name: object.name_any(),
            created: created.map_or(i64::MAX, |time| time.0.as_second()),
            target: field(object, "/spec/target")?,
            enforcers: field(object, "/spec/policy/enforcer")?,
            mode: field(object, "/spec/policy/mode")?,
            profile: profile.filter(|name| !name.is_empty()).map(str::to_owned),
        })
    }
}

fn field<T: DeserializeOwned>(object: &DynamicObject, pointer: &'static str) -> Result<T, Unreadable> {
    let value = object.data.pointer(pointer).cloned().unwrap_or_default();
    serde_json::from_value(value).map_err(|source| Unreadable {
        name: object.name_any(),
        field: pointer,
        source,
    })
}
