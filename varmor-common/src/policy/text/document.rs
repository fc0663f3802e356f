//! One valid object of a policy file.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;

use super::node::{Node, Position, Value};
use super::path;
use crate::policy::diagnostic::{Diagnostic, Severity};
use crate::policy::{ArmorProfile, ArmorProfileModel, PolicySpec, VarmorClusterPolicy, VarmorPolicy};

/// The namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// One valid object of a policy file, with the places of its fields.
#[derive(Clone, Debug)]
pub struct Document {
    pub file: String,
    pub object: Object,
    places: BTreeMap<String, Position>,
}

/// The object, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    VarmorPolicy(Box<VarmorPolicy>),
    VarmorClusterPolicy(Box<VarmorClusterPolicy>),
    ArmorProfile(Box<ArmorProfile>),
    ArmorProfileModel(Box<ArmorProfileModel>),
}

impl Document {
    pub(super) fn new(file: &str, object: Object, node: &Node) -> Self {
        let mut places = BTreeMap::new();
        collect(node, String::new(), &mut places);
        Self {
            file: file.to_owned(),
            object,
            places,
        }
    }

    /// `VarmorPolicy`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.object {
            Object::VarmorPolicy(_) => "VarmorPolicy",
            Object::VarmorClusterPolicy(_) => "VarmorClusterPolicy",
            Object::ArmorProfile(_) => "ArmorProfile",
            Object::ArmorProfileModel(_) => "ArmorProfileModel",
        }
    }

    /// None for the kinds that belong to no namespace.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        match self.object {
            Object::VarmorClusterPolicy(_) => None,
            _ => Some(self.metadata().namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)),
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// `VarmorPolicy demo/web`, `VarmorClusterPolicy web`.
    #[must_use]
    pub fn identity(&self) -> String {
        match self.namespace() {
            Some(namespace) => format!("{} {namespace}/{}", self.kind(), self.name()),
            None => format!("{} {}", self.kind(), self.name()),
        }
    }

    /// The first line of the document.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.position("").0
    }

    /// What the policy says; none for the kinds that are not policies.
    #[must_use]
    pub fn spec(&self) -> Option<&PolicySpec> {
        match &self.object {
            Object::VarmorPolicy(policy) => Some(&policy.spec),
            Object::VarmorClusterPolicy(policy) => Some(&policy.spec.0),
            Object::ArmorProfile(_) | Object::ArmorProfileModel(_) => None,
        }
    }

    /// Line and column of a field, or of the nearest thing around it.
    #[must_use]
    pub fn position(&self, field: &str) -> (u32, u32) {
        let mut path = Some(field);
        while let Some(here) = path {
            if let Some(place) = self.places.get(here) {
                return (place.line, place.column);
            }
            path = path::parent(here);
        }
        (1, 1)
    }

    /// A diagnostic about one of the fields.
    pub(crate) fn diagnostic(
        &self,
        severity: Severity,
        field: &str,
        message: String,
        help: &str,
    ) -> Diagnostic {
        let (line, column) = self.position(field);
        Diagnostic {
            severity,
            file: self.file.clone(),
            line,
            column,
            field: field.to_owned(),
            message,
            help: (!help.is_empty()).then(|| help.to_owned()),
        }
    }

    fn metadata(&self) -> &ObjectMeta {
        match &self.object {
            Object::VarmorPolicy(object) => &object.metadata,
            Object::VarmorClusterPolicy(object) => &object.metadata,
            Object::ArmorProfile(object) => &object.metadata,
            Object::ArmorProfileModel(object) => &object.metadata,
        }
    }
}

fn collect(node: &Node, path: String, places: &mut BTreeMap<String, Position>) {
    match &node.value {
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, path::item(&path, index), places);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                collect(&entry.value, path::field(&path, &entry.key), places);
            }
        }
        _ => {}
    }
    places.insert(path, node.position);
}
