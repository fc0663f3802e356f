//! The policy of a run: every policy of one file, taken together.

use std::path::Path;

use anyhow::{Context as _, bail};
use varmor_common::policy::{self, Object};
use varmor_common::profile::{self, NodeFacts, Profile};

use crate::cli::models::Models;

pub(in crate::cli) fn profile(path: &Path, model: Option<&Path>) -> anyhow::Result<Profile> {
    let bytes = std::fs::read(path).with_context(|| format!("read the policy {}", path.display()))?;
    let facts = NodeFacts {
        disk_devices: crate::daemon::disk_devices(),
    };
    profile_of(&path.display().to_string(), &bytes, &facts, model)
}

fn profile_of(file: &str, bytes: &[u8], facts: &NodeFacts, model: Option<&Path>) -> anyhow::Result<Profile> {
    let loaded = policy::load(file, bytes);
    let models = Models::of(&loaded.documents).with(model)?;
    let mut diagnostics = loaded.diagnostics;
    let mut profiles = Vec::new();
    for document in &loaded.documents {
        if matches!(document.object, Object::ArmorProfileModel(_)) {
            continue;
        }
        let built = profile::build_with(document, facts, models.inputs(document));
        diagnostics.extend(built.diagnostics);
        profiles.extend(built.profile);
    }
    for diagnostic in &diagnostics {
        eprintln!("{}", policy::render(diagnostic));
    }
    let errors = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .count();
    if errors > 0 {
        bail!("{file} has {errors} errors; the command was not started");
    }
    Profile::merge(&profiles).with_context(|| format!("{file} holds no policy; write a VarmorPolicy into it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, mode: &str) -> String {
        format!(
            "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
             target: {{kind: Pod, name: x}}\n  policy: {{enforcer: BPF, mode: {mode}}}\n"
        )
    }

    #[test]
    fn all_policies_of_the_file_hold_together() {
        let text = format!(
            "{}---\n{}",
            policy("a", "AlwaysAllow"),
            policy("b", "RuntimeDefault")
        );
        let profile = profile_of("p.yaml", text.as_bytes(), &NodeFacts::default(), None).unwrap();
        assert!(
            profile.name.contains('+') && !profile.rules.is_empty(),
            "{}",
            profile.name
        );
    }

    #[test]
    fn bad_or_empty_file_starts_nothing() {
        let facts = NodeFacts::default();
        let text = format!("{}---\n{}", policy("a", "AlwaysAllow"), policy("b", "Nonsense"));
        assert!(
            profile_of("p.yaml", text.as_bytes(), &facts, None)
                .unwrap_err()
                .to_string()
                .contains("not started")
        );
        assert!(profile_of("p.yaml", b"", &facts, None).is_err());
    }
}
