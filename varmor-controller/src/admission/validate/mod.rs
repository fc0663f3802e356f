//! What is said about a policy before it is stored: everything `varmor check` says, and what must not change later.

#[cfg(test)]
mod tests;
pub(crate) mod transition;

use serde_json::Value;
use varmor_common::compile::seccomp::Inputs;
use varmor_common::policy::{Diagnostic, Document, ProfileType, Severity, load};
use varmor_common::profile::{ClusterFacts, NodeFacts, build_in, profile_name};

/// What a document is called whose places mean nothing to its author: the API server has reordered it.
const SOURCE: &str = "object";

const NO_MODEL: &str = "the profile is made of the policy's behaviour model";

/// Why a policy is refused, and what its author should know otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Empty = the policy is admitted.
    pub(crate) refusals: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Verdict {
    /// All refusals as one text.
    #[must_use]
    pub(crate) fn message(&self) -> String {
        self.refusals.join("\n")
    }
}

/// Judges a policy that is created, or updated from `old`.
#[must_use]
pub(crate) fn validate(object: &Value, old: Option<&Value>) -> Verdict {
    let going = object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null());
    let unchanged = old.is_some_and(|old| old.get("spec") == object.get("spec"));
    // Labels and finalizers of a policy that an earlier version admitted must stay changeable.
    if going || unchanged {
        return Verdict::default();
    }
    let mut verdict = Verdict::default();
    let loaded = load(SOURCE, named(object).to_string().as_bytes());
    let mut diagnostics = loaded.diagnostics;
    for document in &loaded.documents {
        diagnostics.extend(meaning(document));
    }
    for diagnostic in &diagnostics {
        let text = sentence(diagnostic);
        let list = match diagnostic.severity {
            Severity::Error => &mut verdict.refusals,
            Severity::Warning => &mut verdict.warnings,
            Severity::Note => continue,
        };
        if !list.contains(&text) {
            list.push(text);
        }
    }
    if let Some(old) = old {
        verdict.refusals.extend(transition::refusals(old, object));
    }
    if loaded.documents.is_empty() && verdict.refusals.is_empty() {
        // An object that is none of ours was sent here by a wrong configuration.
        verdict
            .refusals
            .push("kind: the object is no policy; send a VarmorPolicy or a VarmorClusterPolicy".to_owned());
    }
    verdict
}

/// The object with the name that it will have: of a generated one only the end is missing.
fn named(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        let generated = metadata.get("generateName").and_then(Value::as_str);
        if let Some(name) = generated.map(|prefix| format!("{prefix}00000"))
            && metadata
                .get("name")
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
        {
            metadata.insert("name".to_owned(), name.into());
        }
    }
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    object
}

/// What the compilers say. Services and Pods are looked up later, and so is the behaviour model.
fn meaning(document: &Document) -> Vec<Diagnostic> {
    let name = profile_name(document.namespace(), document.name());
    let cluster = ClusterFacts {
        profile_name: &name,
        egress: &[],
    };
    let built = build_in(Some(cluster), document, &NodeFacts::default(), Inputs::default());
    built
        .diagnostics
        .into_iter()
        .map(|mut diagnostic| {
            if awaits_model(document, &diagnostic.field) {
                diagnostic.severity = Severity::Warning;
                diagnostic.message = format!("{NO_MODEL}; without one nothing is protected");
                diagnostic.help = Some("record one with the mode BehaviorModeling first".to_owned());
            }
            diagnostic
        })
        .collect()
}

/// Whether what is said about a field is only that the behaviour model is absent, which is not known here.
fn awaits_model(document: &Document, field: &str) -> bool {
    let Some(defense) = document
        .spec()
        .and_then(|spec| spec.policy.defense_in_depth.as_ref())
    else {
        return false;
    };
    let kinds = [
        ("bpf", defense.bpf.as_ref().map(|list| list.profile_type)),
        (
            "appArmor",
            defense.app_armor.as_ref().map(|list| list.profile_type),
        ),
        ("seccomp", defense.seccomp.as_ref().map(|list| list.profile_type)),
    ];
    kinds.into_iter().any(|(name, kind)| {
        kind == Some(ProfileType::BehaviorModel)
            && field == format!("spec.policy.defenseInDepth.{name}.profileType")
    })
}

/// `field: message; help`.
fn sentence(diagnostic: &Diagnostic) -> String {
    let field = Some(diagnostic.field.as_str()).filter(|field| !field.is_empty());
    let mut text = format!("{}: {}", field.unwrap_or("object"), diagnostic.message);
    if let Some(help) = &diagnostic.help {
        text.push_str("; ");
        text.push_str(help);
    }
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
