//! What the compiler says about a policy, at the places of its text.

use super::{Features, compile};
use crate::policy::{Diagnostic, Document, Severity};
use crate::profile::Profile;

/// Compiles the profile that `document` was built into, and reports whatever of it `AppArmor` does not hold.
#[must_use]
pub fn diagnose(document: &Document, profile: &Profile) -> Vec<Diagnostic> {
    let artefact = match compile(profile, Features::ALL) {
        Ok(artefact) => artefact.unwrap_or_default(),
        Err(error) => {
            let field = error.field().unwrap_or("spec.policy");
            return vec![document.diagnostic(Severity::Error, field, error.to_string(), "")];
        }
    };
    let missing = artefact.unsupported.iter().map(|missing| {
        let message = format!(
            "the AppArmor enforcer cannot hold the rule `{}`; it has no effect there",
            missing.rule
        );
        document.diagnostic(Severity::Warning, &missing.field, message, &missing.reason)
    });
    missing.collect()
}
