//! The policies of a set of files, with the last good version of each file kept when it turns bad.
//!
//! A file is taken as a whole: either all of its objects change or none, so a half-edited file never weakens
//! a policy. Pure: text in, objects out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use varmor_common::policy::{Diagnostic, Document, Severity, Target, WorkloadPods};
use varmor_common::profile::{NodeFacts, Profile};

use super::reading::{self, Problem, Reader, Reading};

/// One policy that is in force, or should be.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyObject {
    /// `VarmorPolicy demo/web`.
    pub identity: String,
    pub kind: &'static str,
    /// `None` for a cluster policy, which holds everywhere.
    pub namespace: Option<String>,
    pub name: String,
    pub target: Target,
    /// The workloads that the target means, where a cluster knows them.
    pub workloads: Option<Vec<WorkloadPods>>,
    /// For so long what the workload does becomes a model, and nothing is refused.
    pub recorded_for: Option<Duration>,
    pub profile: Profile,
}

impl PolicyObject {
    pub(crate) fn of(document: &Document, target: Target, profile: Profile) -> Self {
        Self {
            identity: document.identity(),
            kind: document.kind(),
            namespace: document.namespace().map(str::to_owned),
            name: document.name().to_owned(),
            target,
            workloads: None,
            recorded_for: None,
            profile,
        }
    }
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Its present text is in force.
    Ok,
    /// Its present text is not usable; the last good one, if any, stays in force.
    Invalid,
    Removed,
}

impl FileState {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Invalid => "invalid",
            Self::Removed => "removed",
        }
    }
}

/// A file as reported to the user.
#[derive(Clone, Debug)]
pub struct FileStatus {
    pub state: FileState,
    pub message: String,
    pub diagnostics: Vec<Diagnostic>,
    /// Objects in force from this file.
    pub objects: Vec<PolicyObject>,
}

/// A file's bytes, or why they cannot be read.
pub(super) type FileText = Result<Vec<u8>, String>;

#[derive(Debug)]
pub struct Catalog {
    reader: Reader,
    facts: NodeFacts,
    files: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    text: FileText,
    status: FileStatus,
    /// The text that is in force has not been handed out by `take_unsaved` yet.
    unsaved: bool,
}

impl Catalog {
    /// Of texts that users write.
    #[must_use]
    pub fn new(facts: NodeFacts) -> Self {
        Self::with(reading::of_file, facts)
    }

    /// Of texts that this reader understands.
    pub(super) fn with(reader: Reader, facts: NodeFacts) -> Self {
        Self {
            reader,
            facts,
            files: BTreeMap::new(),
        }
    }

    /// Takes over what the folder holds now and returns the names of the files whose status changed.
    pub fn update(&mut self, mut listing: BTreeMap<String, FileText>) -> Vec<String> {
        let mut changed = BTreeSet::new();
        for (name, entry) in &mut self.files {
            if !listing.contains_key(name) && entry.status.state != FileState::Removed {
                entry.text = Err("removed".to_owned());
                entry.status = FileStatus {
                    state: FileState::Removed,
                    message: "removed; its policies are not in force any more".to_owned(),
                    diagnostics: Vec::new(),
                    objects: Vec::new(),
                };
                changed.insert(name.clone());
            }
        }

        // A file whose objects clash with another's may become good once the other one was read: the rounds
        // go on while they achieve something.
        listing.retain(|name, text| self.files.get(name).is_none_or(|known| known.needs_reading(text)));
        loop {
            let before = listing.len();
            for (name, text) in std::mem::take(&mut listing) {
                let reading = self.read(&name, &text);
                if self.clash_of(&name, &reading).is_some() {
                    listing.insert(name, text);
                } else {
                    self.settle(&name, text, reading, &mut changed);
                }
            }
            if listing.is_empty() || listing.len() == before {
                break;
            }
        }
        for (name, text) in listing {
            let reading = self.read(&name, &text);
            let verdict = self.clash_of(&name, &reading).map_or(reading, Err);
            self.settle(&name, text, verdict, &mut changed);
        }
        changed.into_iter().collect()
    }

    /// Every policy in force, by identity.
    pub fn objects(&self) -> impl Iterator<Item = &PolicyObject> {
        self.files.values().flat_map(|entry| &entry.status.objects)
    }

    pub fn files(&self) -> impl Iterator<Item = (&str, &FileStatus)> {
        self.files
            .iter()
            .map(|(name, entry)| (name.as_str(), &entry.status))
    }

    /// Files with policies that are in force, or could be.
    pub fn written(&self) -> impl Iterator<Item = &str> {
        let written = self
            .files
            .iter()
            .filter(|(_, entry)| entry.status.state != FileState::Removed);
        written.map(|(name, _)| name.as_str())
    }

    /// Forgets files that were removed: the names of a cluster's objects come and go.
    pub(super) fn forget_removed(&mut self) {
        self.files
            .retain(|_, entry| entry.status.state != FileState::Removed);
    }

    #[must_use]
    pub fn status(&self, file: &str) -> Option<&FileStatus> {
        self.files.get(file).map(|entry| &entry.status)
    }

    /// Texts that came into force since the last call, for keeping beyond a restart.
    pub fn take_unsaved(&mut self) -> Vec<(String, Vec<u8>)> {
        self.files
            .iter_mut()
            .filter_map(|(name, entry)| {
                let is_due = std::mem::take(&mut entry.unsaved);
                let text = entry.text.as_ref().ok().filter(|_| is_due)?;
                Some((name.clone(), text.clone()))
            })
            .collect()
    }

    /// The objects of a text, or the problem that makes the whole text unusable.
    fn read(&self, name: &str, text: &FileText) -> Result<Reading, Problem> {
        let bytes = text.as_ref().map_err(|message| Problem {
            message: message.clone(),
            diagnostics: Vec::new(),
        })?;
        (self.reader)(name, bytes, &self.facts).checked()
    }

    fn clash_of(&self, file: &str, reading: &Result<Reading, Problem>) -> Option<Problem> {
        reading
            .as_ref()
            .ok()
            .and_then(|reading| self.clash(file, &reading.objects))
    }

    /// An object that another file has already.
    fn clash(&self, file: &str, objects: &[PolicyObject]) -> Option<Problem> {
        let mut own = BTreeSet::new();
        for object in objects {
            // Different objects may share a profile name (`a/b-c` and `a-b/c`): one would replace the other's
            // rules, so that is the same error.
            let taken = |other: &PolicyObject| {
                other.identity == object.identity || other.profile.name == object.profile.name
            };
            let other = self
                .files
                .iter()
                .filter(|(name, _)| *name != file)
                .find_map(|(name, entry)| {
                    entry
                        .status
                        .objects
                        .iter()
                        .find(|known| taken(known))
                        .map(|known| (name, known))
                });
            if let Some((name, known)) = other {
                let message = if known.identity == object.identity {
                    format!(
                        "{} is defined in both `{name}` and `{file}`; the one in `{name}` is in force",
                        object.identity
                    )
                } else {
                    format!(
                        "{} (`{file}`) and {} (`{name}`) have the same profile name `{}`; rename one of them",
                        object.identity, known.identity, known.profile.name
                    )
                };
                return Some(Problem {
                    message,
                    diagnostics: Vec::new(),
                });
            }
            if !own.insert(&object.profile.name) {
                let message = format!("{} is defined twice in `{file}`; remove one", object.identity);
                return Some(Problem {
                    message,
                    diagnostics: Vec::new(),
                });
            }
        }
        None
    }

    fn settle(
        &mut self,
        name: &str,
        text: FileText,
        verdict: Result<Reading, Problem>,
        changed: &mut BTreeSet<String>,
    ) {
        let previous = self.files.remove(name);
        let entry = match verdict {
            Ok(reading) => {
                let warnings = reading
                    .diagnostics
                    .iter()
                    .filter(|diagnostic| diagnostic.severity == Severity::Warning)
                    .count();
                let policies = reading.objects.len();
                let status = FileStatus {
                    state: FileState::Ok,
                    message: format!("{policies} policies, {warnings} warnings"),
                    diagnostics: reading.diagnostics,
                    objects: reading.objects,
                };
                Entry {
                    text,
                    status,
                    unsaved: true,
                }
            }
            Err(problem) => {
                let objects = previous
                    .as_ref()
                    .map(|entry| entry.status.objects.clone())
                    .unwrap_or_default();
                let kept = if objects.is_empty() {
                    "nothing from this file is in force"
                } else {
                    "the last good version stays in force"
                };
                let status = FileStatus {
                    state: FileState::Invalid,
                    message: format!("{}; {kept}", problem.message),
                    diagnostics: problem.diagnostics,
                    objects,
                };
                Entry {
                    text,
                    status,
                    unsaved: false,
                }
            }
        };
        let same = previous.as_ref().is_some_and(|previous| {
            previous.text == entry.text
                && previous.status.state == entry.status.state
                && previous.status.message == entry.status.message
        });
        if !same {
            changed.insert(name.to_owned());
        }
        self.files.insert(name.to_owned(), entry);
    }
}

impl Entry {
    /// Bad files are read again each time: what made them bad may be in another file.
    fn needs_reading(&self, text: &FileText) -> bool {
        self.text != *text || self.status.state != FileState::Ok
    }
}

#[cfg(test)]
mod tests;
