//! What the compiler says about a policy, at the places of its text.

use super::compile;
use crate::policy::{Diagnostic, Document, Enforcers, Severity};
use crate::profile::Profile;

/// Any key will do: what is said does not depend on it.
const KEY: u64 = 1;

/// Compiles the profile that `document` was built into, and reports whatever of it the enforcer does not hold.
#[must_use]
pub fn diagnose(document: &Document, profile: &Profile) -> Vec<Diagnostic> {
    let Some(profile) = &profile.part_for(Enforcers::BPF) else {
        return Vec::new();
    };
    let artefact = match compile(profile, KEY) {
        Ok(artefact) => artefact,
        Err(error) => {
            let field = error.field().unwrap_or("spec.policy");
            return vec![document.diagnostic(Severity::Error, field, error.to_string(), "")];
        }
    };
    let rules: Vec<_> = profile.every_rule().collect();
    let missing = artefact.unsupported.iter().filter_map(|missing| {
        let rule = rules.get(missing.rule as usize)?;
        let message = format!(
            "the BPF enforcer cannot hold the rule `{}`; it has no effect",
            rule.id
        );
        Some(document.diagnostic(Severity::Warning, &rule.origin.field, message, &missing.reason))
    });
    missing.collect()
}
