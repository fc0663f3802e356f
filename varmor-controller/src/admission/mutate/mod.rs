//! What admission makes of a workload or a pod: the settings of every policy that matches it, and nothing of those that
//! no longer do.
//!
//! The object as its owner wrote it is restored first and then edited, so the answer depends only on that object and on
//! the policies of the moment: asked twice, the second answer is empty.

mod app_armor;
mod assign;
mod bpf;
mod container;
mod difference;
mod keys;
mod matching;
mod pod;
mod record;
mod seccomp;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use json_patch::Patch;
use serde_json::Value;
use varmor_common::policy::TargetKind;

use super::policies::Candidate;
use assign::Assignment;
use slots::Slots;

/// What is to be decided about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'o> {
    pub(crate) kind: TargetKind,
    /// Of the request: an object that is created may not name its namespace.
    pub(crate) namespace: &'o str,
    pub(crate) object: &'o Value,
}

/// What holds for every object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Kubernetes has the field `securityContext.appArmorProfile` (1.30 and later).
    pub(crate) app_armor_field: bool,
    /// Labels that an object must carry to be protected; empty = every object.
    pub(crate) opt_in: BTreeMap<String, String>,
}

/// The answer.
#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    /// Empty if and only if the object is as it should be.
    pub(crate) patch: Patch,
    /// Sentences for whoever sent the object.
    pub(crate) warnings: Vec<String>,
}

/// Why nothing can be said about an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the {kind} has no `{field}`; send a complete object")]
    Incomplete { kind: TargetKind, field: &'static str },
}

/// Brings `subject` in line with the policies. `candidates` are those that may be about its namespace, in the order in
/// which they are preferred; `now` is written down if something changes.
pub(crate) fn mutate(
    subject: Subject<'_>,
    candidates: &[Candidate<'_>],
    facts: &Facts,
    now: &str,
) -> Result<Mutation, Error> {
    let unchanged = |warnings| Mutation {
        patch: Patch::default(),
        warnings,
    };
    if matching::is_left_alone(subject, candidates) {
        return Ok(unchanged(Vec::new()));
    }
    let matched = matching::matching(subject, candidates, facts);
    // A pod is decided about once, when it is created: what its template carries is not taken away from it.
    if matched.is_empty() && subject.kind == TargetKind::Pod {
        return Ok(unchanged(Vec::new()));
    }
    let mut object = subject.object.clone();
    let mut warnings = Vec::new();
    let known: BTreeSet<&str> = candidates.iter().map(|candidate| candidate.profile).collect();
    {
        let mut slots = Slots::open(&mut object, subject.kind, &known, &mut warnings)?;
        slots.restore();
        let Assignment { containers, notes } = assign::assign(&matched, &slots.containers());
        warnings.extend(notes);
        for assigned in &containers {
            container::protect(&mut slots, assigned, facts, &mut warnings);
        }
        slots.close(matched.iter().map(|candidate| candidate.identity()).collect());
    }
    if object == *subject.object {
        return Ok(unchanged(warnings));
    }
    keys::stamp(&mut object, (!matched.is_empty()).then_some(now));
    Ok(Mutation {
        patch: difference::difference(subject.object, &object),
        warnings,
    })
}

/// The policies that an object carries settings of and that `candidates` do not hold: deleted ones, or some that are too
/// new to be known. Whoever wants to take their settings away has to ask the API server first.
#[must_use]
pub(crate) fn unknown_policies(subject: Subject<'_>, candidates: &[Candidate<'_>]) -> Vec<String> {
    let known: BTreeSet<String> = candidates.iter().map(Candidate::identity).collect();
    let policies = record::read(subject.kind, subject.object).policies;
    policies.into_iter().filter(|one| !known.contains(one)).collect()
}
