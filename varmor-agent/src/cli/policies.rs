//! The policies of a file, for the commands that answer questions about them.

use std::path::Path;
use std::{fs, io};

use anyhow::{Context as _, bail};
use varmor_common::analysis::Judge;
use varmor_common::compile::seccomp::{self, Compiled};
use varmor_common::policy::{self, Document, Enforcers};
use varmor_common::profile::{self, Built, NodeFacts, Profile};

use super::models::Models;

/// Larger files are refused by the parser anyway.
const MAX_FILE: u64 = 4 << 20;

/// What a file holds.
pub(super) struct Policies {
    pub(super) documents: Vec<Document>,
    models: Models,
}

impl Policies {
    /// The same, with recordings from a file of their own.
    pub(super) fn with_model(mut self, path: Option<&Path>) -> anyhow::Result<Self> {
        self.models = self.models.with(path)?;
        Ok(self)
    }

    /// The filter of one of the policies, and why each system call stands in it.
    pub(super) fn filter(&self, document: &Document) -> Compiled {
        seccomp::compile(document, self.models.inputs(document))
    }

    /// What one of the policies means.
    pub(super) fn build(&self, document: &Document) -> Built {
        // Facts about a node have no part in what is answered offline.
        const FACTS: &NodeFacts = &NodeFacts {
            disk_devices: Vec::new(),
        };
        profile::build_with(document, FACTS, self.models.inputs(document))
    }
}

/// The valid policies; errors are printed and end the command.
pub(super) fn load(path: &Path) -> anyhow::Result<Policies> {
    let file = path.display().to_string();
    let bytes = read(path).with_context(|| format!("read the policy {file}"))?;
    let loaded = policy::load(&file, &bytes);
    for diagnostic in loaded.diagnostics.iter().filter(|found| found.is_error()) {
        eprintln!("{}", policy::render(diagnostic));
    }
    if loaded.has_errors() {
        bail!("{file} has errors; `varmor check {file}` shows all that is to be said about it");
    }
    let models = Models::of(&loaded.documents);
    let documents: Vec<Document> = loaded
        .documents
        .into_iter()
        .filter(|document| document.spec().is_some())
        .collect();
    if documents.is_empty() {
        bail!("{file} holds no policy; write a VarmorPolicy into it");
    }
    Ok(Policies { documents, models })
}

/// All policies of the file together, as one workload has them.
pub(super) fn judge(path: &Path) -> anyhow::Result<Judge> {
    let mut profiles = Vec::new();
    let mut filters = Vec::new();
    let policies = load(path)?;
    for document in &policies.documents {
        let built = policies.build(document);
        let mut errors = built
            .diagnostics
            .iter()
            .filter(|found| found.is_error())
            .peekable();
        if errors.peek().is_some() {
            errors.for_each(|error| eprintln!("{}", policy::render(error)));
            bail!("{} has errors", path.display());
        }
        profiles.extend(built.profile);
        if enforcers(document).contains(Enforcers::SECCOMP) {
            filters.push(policies.filter(document));
        }
    }
    let profile = Profile::merge(&profiles).context("the file holds no policy")?;
    Ok(Judge::new(profile, filters)?)
}

pub(super) fn enforcers(document: &Document) -> Enforcers {
    document
        .spec()
        .map_or(Enforcers::NONE, |spec| spec.policy.enforcer)
}

/// `-` is standard input. One byte more than is allowed lets the parser say that the file is too large.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    use io::Read as _;
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    } else {
        fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
