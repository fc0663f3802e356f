//! What one text means on its own: the file of a user, or an `ArmorProfile` of a cluster.

use std::time::Duration;

use serde_json::json;
use varmor_common::compile::seccomp::Inputs;
use varmor_common::policy::{
    self, ArmorProfile, Diagnostic, Document, DynamicResult, Object, PolicyMode, Severity,
};
use varmor_common::profile::{self, ClusterFacts, NodeFacts};

use super::catalog::PolicyObject;

/// Makes objects of a text with this name.
pub(super) type Reader = fn(&str, &[u8], &NodeFacts) -> Reading;

/// What a text says.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) objects: Vec<PolicyObject>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Why a text as a whole is of no use.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl Reading {
    /// The same if there is no error in it.
    pub(super) fn checked(self) -> Result<Self, Problem> {
        let mut errors = self.diagnostics.iter().filter(|found| found.is_error());
        let Some(first) = errors.next() else {
            return Ok(self);
        };
        let more = match errors.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Err(Problem {
            message: format!("{}:{}: {}{more}", first.line, first.column, first.message),
            diagnostics: self.diagnostics,
        })
    }

    fn build(
        &mut self,
        document: &Document,
        cluster: Option<ClusterFacts<'_>>,
        facts: &NodeFacts,
        model: Option<&DynamicResult>,
    ) -> Option<&mut PolicyObject> {
        let inputs = Inputs {
            model,
            ..Inputs::default()
        };
        let built = profile::build_in(cluster, document, facts, inputs);
        self.diagnostics.extend(built.diagnostics);
        let (profile, spec) = (built.profile?, document.spec()?);
        let mut object = PolicyObject::of(document, spec.target.clone(), profile);
        if spec.policy.mode == PolicyMode::BehaviorModeling {
            let minutes = spec
                .policy
                .modeling_options
                .as_ref()
                .map_or(0, |options| options.duration);
            object.recorded_for = u64::try_from(minutes).ok().map(Duration::from_mins);
        }
        self.objects.push(object);
        self.objects.last_mut()
    }

    fn error(&mut self, file: &str, message: String, help: &str) {
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: file.to_owned(),
            line: 1,
            column: 1,
            field: String::new(),
            message,
            help: Some(help.to_owned()),
        });
    }
}

/// The policies of a user's file. Recordings in it are for the policies that name them.
pub(super) fn of_file(name: &str, text: &[u8], facts: &NodeFacts) -> Reading {
    let loaded = policy::load(name, text);
    let mut reading = Reading {
        diagnostics: loaded.diagnostics,
        ..Reading::default()
    };
    for document in &loaded.documents {
        if !matches!(document.object, Object::ArmorProfileModel(_)) {
            let model = model_of(document, &loaded.documents);
            reading.build(document, None, facts, model);
        }
    }
    reading
}

/// The recording with the name of this policy's profile.
fn model_of<'d>(document: &Document, documents: &'d [Document]) -> Option<&'d DynamicResult> {
    let name = profile::profile_name(document.namespace(), document.name());
    documents.iter().find_map(|other| match &other.object {
        Object::ArmorProfileModel(model) if model.metadata.name.as_deref() == Some(&name) => {
            model.spec.data.as_ref()?.dynamic_result.as_ref()
        }
        _ => None,
    })
}

/// The policy that an `ArmorProfile` carries, with what the cluster knows about it.
pub(super) fn of_armor_profile(name: &str, text: &[u8], facts: &NodeFacts) -> Reading {
    let loaded = policy::load(name, text);
    let mut reading = Reading {
        diagnostics: loaded.diagnostics,
        ..Reading::default()
    };
    let carried = loaded
        .documents
        .iter()
        .find_map(|document| match &document.object {
            Object::ArmorProfile(object) => Some(object),
            _ => None,
        });
    if let Some(object) = carried {
        carried_policy(object, &mut reading, name, facts);
    }
    reading
}

fn carried_policy(object: &ArmorProfile, reading: &mut Reading, name: &str, facts: &NodeFacts) {
    let spec = &object.spec;
    let Some(source) = &spec.policy else {
        let message = "the object carries no policy in `spec.policy`".to_owned();
        return reading.error(
            name,
            message,
            "it was written by vArmor; varmor-controller writes it anew for each policy",
        );
    };
    let text = json!({
        "apiVersion": "crd.varmor.org/v1beta1",
        "kind": source.kind,
        "metadata": {"name": source.name, "namespace": source.namespace},
        "spec": source.spec,
    });
    let loaded = policy::load(name, text.to_string().as_bytes());
    reading.diagnostics.extend(loaded.diagnostics);
    let Some(document) = loaded.documents.first() else {
        return;
    };
    let model = source.model.as_ref().map(|model| {
        let data = model.pointer("/data/dynamicResult").cloned().unwrap_or_default();
        serde_json::from_value::<DynamicResult>(data)
    });
    let model = match model.transpose() {
        Ok(model) => model,
        Err(error) => {
            let message = format!("`spec.policy.model` is no recording: {error}");
            return reading.error(name, message, "record the workload again");
        }
    };
    let cluster = ClusterFacts {
        profile_name: &spec.profile.name,
        egress: &spec.egress,
    };
    if let Some(policy) = reading.build(document, Some(cluster), facts, model.as_ref()) {
        policy.workloads.clone_from(&spec.workloads);
    }
}

#[cfg(test)]
mod tests;
