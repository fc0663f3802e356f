//! The places of a pod that admission edits, each with a memory of what was there.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use varmor_common::policy::TargetKind;

use super::pod::{self, Container};
use super::record::{self, Created, Edit, FIELDS, Record};
use super::{Error, keys};

/// A pod while it is edited.
pub(super) struct Slots<'o> {
    template: &'o mut Map<String, Value>,
    /// Of the profiles that any known policy has.
    known: &'o BTreeSet<&'o str>,
    record: Record,
}

impl<'o> Slots<'o> {
    /// Takes the record out of the pod.
    pub(super) fn open(
        object: &'o mut Value,
        kind: TargetKind,
        known: &'o BTreeSet<&'o str>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let template = pod::template_mut(kind, object)?;
        let annotations = template
            .get_mut("metadata")
            .and_then(|metadata| metadata.get_mut("annotations"))
            .and_then(Value::as_object_mut);
        let text = annotations.and_then(|annotations| annotations.remove(keys::ORIGINAL));
        let record = match text.as_ref().and_then(record::parse_in) {
            None => Record::default(),
            Some(Ok(record)) => record,
            Some(Err(())) => {
                warnings.push(format!(
                    "the annotation {} cannot be read; settings that it kept are lost",
                    keys::ORIGINAL
                ));
                Record::default()
            }
        };
        Ok(Self {
            template,
            known,
            record,
        })
    }

    /// The pod as its owner wrote it.
    pub(super) fn restore(&mut self) {
        self.adopt();
        let record = std::mem::take(&mut self.record);
        for (key, edit) in record.annotations {
            if self.annotation_value(&key) == edit.applied {
                self.put_annotation(&key, edit.before);
            }
        }
        for (container, fields) in record.containers {
            for (field, edit) in fields {
                if self.field_value(&container, &field) == edit.applied {
                    self.put_field(&container, &field, edit.before);
                }
            }
        }
        // The other way round than they were created: what holds others comes last.
        for created in record.created.into_iter().rev() {
            self.remove_if_empty(&created);
        }
    }

    /// The containers of the pod.
    pub(super) fn containers(&self) -> Vec<Container> {
        pod::containers(self.template)
    }

    /// The text of an annotation.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations()?.get(key)?.as_str()
    }

    /// A field of the container, or what the pod says for containers that say nothing.
    pub(super) fn effective(&self, container: &str, field: &str) -> Option<&Value> {
        let given = |value: &&Value| !value.is_null();
        let own = self.container(container)?.get("securityContext");
        let own = own.and_then(|context| context.get(field)).filter(given);
        own.or_else(|| {
            let context = self.template.get("spec")?.get("securityContext")?;
            context.get(field).filter(given)
        })
    }

    /// Whether a container is privileged.
    pub(super) fn is_privileged(&self, container: &str) -> bool {
        self.effective(container, "privileged") == Some(&Value::Bool(true))
    }

    /// Sets an annotation, or removes it.
    pub(super) fn set_annotation(&mut self, key: &str, value: Option<&str>) {
        let (before, applied) = (self.annotation_value(key), value.map_or(Value::Null, Value::from));
        if before == applied {
            return;
        }
        self.put_annotation(key, applied.clone());
        self.record
            .annotations
            .insert(key.to_owned(), Edit { before, applied });
    }

    /// Sets a field of the container's `securityContext`.
    pub(super) fn set_field(&mut self, container: &str, field: &str, applied: Value) {
        let before = self.field_value(container, field);
        if before == applied {
            return;
        }
        self.put_field(container, field, applied.clone());
        let fields = self.record.containers.entry(container.to_owned()).or_default();
        fields.insert(field.to_owned(), Edit { before, applied });
    }

    /// Puts the record of this edit into the pod.
    pub(super) fn close(mut self, policies: Vec<String>) {
        if self.record.is_empty() {
            return;
        }
        self.record.policies = policies;
        let text = json!(self.record).to_string();
        self.put_annotation(keys::ORIGINAL, text.into());
    }

    /// Settings that name the profile of a known policy and that no record tells of: another product with the same
    /// interface wrote them, or their record was lost. The owner did not.
    fn adopt(&mut self) {
        let names = |value: &Value| {
            let profile = value.as_str().and_then(|text| text.strip_prefix("localhost/"));
            profile.is_some_and(|profile| self.known.contains(profile))
        };
        let annotations = self.annotations().into_iter().flatten();
        let keys: Vec<(String, Value)> = annotations
            .filter(|(key, _)| keys::PREFIXES.iter().any(|prefix| key.starts_with(prefix)))
            .filter(|(key, value)| !self.record.annotations.contains_key(*key) && names(value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        for (key, applied) in keys {
            let before = Value::Null;
            self.record.annotations.insert(key, Edit { before, applied });
        }
        for container in self.containers() {
            for field in FIELDS {
                let applied = self.field_value(&container.name, field);
                let profile = applied.get("localhostProfile").and_then(Value::as_str);
                if !profile.is_some_and(|profile| self.known.contains(profile)) {
                    continue;
                }
                let fields = self.record.containers.entry(container.name.clone()).or_default();
                let before = Value::Null;
                fields.entry(field.to_owned()).or_insert(Edit { before, applied });
            }
        }
    }

    fn annotations(&self) -> Option<&Map<String, Value>> {
        self.template.get("metadata")?.get("annotations")?.as_object()
    }

    fn annotation_value(&self, key: &str) -> Value {
        let value = self.annotations().and_then(|annotations| annotations.get(key));
        value.cloned().unwrap_or_default()
    }

    fn put_annotation(&mut self, key: &str, value: Value) {
        for (parent, created) in [
            ("metadata", Created::Metadata),
            ("annotations", Created::Annotations),
        ] {
            let absent = match parent {
                "metadata" => self.template.get(parent).is_none_or(Value::is_null),
                _ => self.annotations().is_none(),
            };
            if absent {
                if value.is_null() {
                    return;
                }
                self.record.created.insert(created);
            }
        }
        let metadata = keys::object_in(self.template, "metadata");
        let annotations = metadata.and_then(|metadata| keys::object_in(metadata, "annotations"));
        let Some(annotations) = annotations else { return };
        if value.is_null() {
            annotations.remove(key);
        } else {
            annotations.insert(key.to_owned(), value);
        }
    }

    fn container(&self, name: &str) -> Option<&Map<String, Value>> {
        let spec = self.template.get("spec")?;
        let lists = pod::LISTS.iter().filter_map(|list| spec.get(list)?.as_array());
        lists
            .flatten()
            .filter_map(Value::as_object)
            .find(|container| container.get("name").and_then(Value::as_str) == Some(name))
    }

    fn container_mut(&mut self, name: &str) -> Option<&mut Map<String, Value>> {
        let spec = self.template.get_mut("spec")?.as_object_mut()?;
        spec.iter_mut()
            .filter(|(list, _)| pod::LISTS.contains(&list.as_str()))
            .filter_map(|(_, list)| list.as_array_mut())
            .flatten()
            .filter_map(Value::as_object_mut)
            .find(|container| container.get("name").and_then(Value::as_str) == Some(name))
    }

    fn field_value(&self, container: &str, field: &str) -> Value {
        let context = self
            .container(container)
            .and_then(|one| one.get("securityContext"));
        let value = context.and_then(|context| context.get(field));
        value.cloned().unwrap_or_default()
    }

    fn put_field(&mut self, name: &str, field: &str, value: Value) {
        let Some(container) = self.container_mut(name) else {
            return;
        };
        let absent = container.get("securityContext").is_none_or(Value::is_null);
        if absent && value.is_null() {
            return;
        }
        let Some(context) = keys::object_in(container, "securityContext") else {
            return;
        };
        if value.is_null() {
            context.remove(field);
        } else {
            context.insert(field.to_owned(), value);
        }
        if absent {
            self.record
                .created
                .insert(Created::SecurityContext(name.to_owned()));
        }
    }

    fn remove_if_empty(&mut self, created: &Created) {
        let (parent, name) = match created {
            Created::SecurityContext(container) => (self.container_mut(container), "securityContext"),
            Created::Metadata => (Some(&mut *self.template), "metadata"),
            Created::Annotations => {
                let metadata = self.template.get_mut("metadata");
                (metadata.and_then(Value::as_object_mut), "annotations")
            }
        };
        if let Some(parent) = parent
            && parent
                .get(name)
                .and_then(Value::as_object)
                .is_some_and(Map::is_empty)
        {
            parent.remove(name);
        }
    }
}
