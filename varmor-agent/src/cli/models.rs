//! Recordings, for policies that are made of them.

use std::path::Path;

use anyhow::{Context as _, bail};
use varmor_common::compile::seccomp::Inputs;
use varmor_common::policy::{self, ArmorProfileModel, Document, DynamicResult, Object};
use varmor_common::profile::profile_name;

use super::policies;

/// Models by their names, and the one that holds for a policy whatever its name is.
#[derive(Default)]
pub(super) struct Models {
    named: Vec<ArmorProfileModel>,
    given: Option<ArmorProfileModel>,
}

impl Models {
    /// The models among these documents.
    pub(super) fn of(documents: &[Document]) -> Self {
        let model = |document: &Document| match &document.object {
            Object::ArmorProfileModel(model) => Some((**model).clone()),
            _ => None,
        };
        Self {
            named: documents.iter().filter_map(model).collect(),
            given: None,
        }
    }

    /// And those of a file. If there is one in it only, it is for every policy that has none of its own.
    pub(super) fn with(self, path: Option<&Path>) -> anyhow::Result<Self> {
        let more = path.map(read).transpose()?;
        Ok(self.and(more.unwrap_or_default()))
    }

    /// The same with what was read of the file.
    pub(super) fn and(mut self, mut more: Vec<ArmorProfileModel>) -> Self {
        if more.len() == 1 {
            self.given = more.pop();
        } else {
            self.named.extend(more);
        }
        self
    }

    /// What the compilers get for this policy.
    pub(super) fn inputs(&self, document: &Document) -> Inputs<'_> {
        let name = profile_name(document.namespace(), document.name());
        let mut named = self.named.iter();
        let model = named
            .find(|model| model.metadata.name.as_deref() == Some(&name))
            .or(self.given.as_ref());
        Inputs {
            model: model.and_then(recording),
            ..Inputs::default()
        }
    }
}

/// What was recorded.
pub(super) fn recording(model: &ArmorProfileModel) -> Option<&DynamicResult> {
    model.spec.data.as_ref()?.dynamic_result.as_ref()
}

/// The models of a file, at least one.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<ArmorProfileModel>> {
    let name = path.display().to_string();
    let bytes = policies::read(path).with_context(|| format!("read the model {name}"))?;
    let loaded = policy::load(&name, &bytes);
    if let Some(error) = loaded.diagnostics.iter().find(|found| found.is_error()) {
        bail!("{}", policy::render(error));
    }
    let models = Models::of(&loaded.documents).named;
    if !models.iter().any(|model| recording(model).is_some()) {
        bail!("{name} holds no ArmorProfileModel with a recording; `varmor learn` writes one");
    }
    Ok(models)
}
