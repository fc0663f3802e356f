//! What several nodes, or several recordings, have seen of one workload.

use super::behaviour::Behaviour;
use super::format::{ModelError, dynamic_result};
use crate::policy::{Learning, ModelData};

/// Adds what a recording has seen to a model. `None` if the model has all of it already: then the recording counts for
/// nothing, so that one that comes twice is not counted twice. What the model says besides is kept.
pub fn merge(old: &ModelData, new: &ModelData, name: &str) -> Result<Option<ModelData>, ModelError> {
    let read = |data: &ModelData| {
        let result = data.dynamic_result.as_ref();
        result.map_or_else(|| Ok(Behaviour::default()), Behaviour::read)
    };
    let before = read(old)?;
    let mut together = before.clone();
    together.join(&read(new)?);
    if together == before && old.dynamic_result.is_some() {
        return Ok(None);
    }
    let mut learning = old.learning.clone().unwrap_or_default();
    if let Some(more) = &new.learning {
        join_learning(&mut learning, more);
    }
    Ok(Some(ModelData {
        dynamic_result: Some(dynamic_result(&together, name)),
        learning: Some(learning),
        ..old.clone()
    }))
}

impl Behaviour {
    fn join(&mut self, other: &Self) {
        for (pattern, seen) in &other.files {
            let known = self.files.entry(pattern.clone()).or_default();
            // How often is not comparable between recordings.
            let examples = known.examples.max(seen.examples);
            known.join(seen);
            known.examples = examples;
            if known.example.is_none() {
                known.example.clone_from(&seen.example);
            }
        }
        self.capabilities.extend(&other.capabilities);
        self.sockets.extend(&other.sockets);
        self.connects.extend(&other.connects);
        self.binds.extend(&other.binds);
        self.ptraces.extend(&other.ptraces);
        self.mounts.extend(other.mounts.iter().cloned());
        self.syscalls.extend(other.syscalls.iter().cloned());
        self.unhandled.extend(other.unhandled.iter().cloned());
    }
}

fn join_learning(learning: &mut Learning, more: &Learning) {
    learning.events += more.events;
    learning.losses.lost += more.losses.lost;
    learning.losses.limited += more.losses.limited;
    learning.losses.unreadable += more.losses.unreadable;
    learning.losses.overflow += more.losses.overflow;
    for one in &more.generalisations {
        match learning
            .generalisations
            .iter_mut()
            .find(|known| known.to == one.to && known.why == one.why)
        {
            Some(known) => known.examples = known.examples.max(one.examples),
            None => learning.generalisations.push(one.clone()),
        }
    }
    // The worst of all: a profile has to do for each of them.
    for one in &more.held_out {
        match learning.held_out.iter_mut().find(|known| known.part == one.part) {
            Some(known) if known.percent < one.percent => known.clone_from(one),
            Some(_) => {}
            None => learning.held_out.push(one.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{PERM_APPEND, PERM_READ, PERM_WRITE};
    use crate::model::FileUse;
    use crate::policy::{Generalisation, HeldOut, Losses, StaticResult};

    fn seen(files: &[(&str, u32)], syscalls: &[&str], events: u64) -> ModelData {
        let file = |(path, access): &(&str, u32)| {
            let seen = FileUse {
                access: *access,
                examples: 1,
                ..FileUse::default()
            };
            ((*path).to_owned(), seen)
        };
        let behaviour = Behaviour {
            files: files.iter().map(file).collect(),
            syscalls: syscalls.iter().map(|name| (*name).to_owned()).collect(),
            ..Behaviour::default()
        };
        ModelData {
            dynamic_result: Some(dynamic_result(&behaviour, "p")),
            learning: Some(Learning {
                events,
                ..Learning::default()
            }),
            ..ModelData::default()
        }
    }

    fn files(data: &ModelData) -> Vec<(String, u32)> {
        let behaviour = Behaviour::read(data.dynamic_result.as_ref().unwrap()).unwrap();
        let files = behaviour.files.into_iter();
        files.map(|(path, seen)| (path, seen.access)).collect()
    }

    #[test]
    fn nodes_add_to_one_another() {
        let first = seen(&[("/a", PERM_READ), ("/b", PERM_READ)], &["read"], 5);
        let second = seen(&[("/b", PERM_WRITE), ("/c", PERM_READ)], &["write"], 7);
        let both = merge(&first, &second, "p").unwrap().unwrap();
        assert_eq!(
            files(&both),
            [
                ("/a".to_owned(), PERM_READ),
                ("/b".to_owned(), PERM_READ | PERM_WRITE | PERM_APPEND),
                ("/c".to_owned(), PERM_READ)
            ]
        );
        let calls = both.dynamic_result.as_ref().unwrap().seccomp.clone().unwrap();
        assert_eq!(calls.syscalls, ["read", "write"]);
        assert_eq!(both.learning.unwrap().events, 12);
    }

    #[test]
    fn what_is_known_changes_nothing() {
        let first = seen(&[("/a", PERM_READ | PERM_WRITE)], &["read", "write"], 5);
        let again = seen(&[("/a", PERM_READ)], &["read"], 3);
        assert_eq!(merge(&first, &again, "p").unwrap(), None);
        assert_eq!(merge(&first, &first, "p").unwrap(), None);
    }

    #[test]
    fn an_empty_model_takes_everything_and_other_parts_stay() {
        let mut old = ModelData {
            static_result: Some(StaticResult {}),
            ..ModelData::default()
        };
        let new = seen(&[("/a", PERM_READ)], &[], 1);
        let merged = merge(&old, &new, "p").unwrap().unwrap();
        assert_eq!(files(&merged), [("/a".to_owned(), PERM_READ)]);
        assert!(merged.static_result.is_some());
        old.dynamic_result = Some(dynamic_result(&Behaviour::default(), "p"));
        assert!(merge(&old, &new, "p").unwrap().is_some());
    }

    #[test]
    fn a_model_that_cannot_be_read_is_named() {
        let mut bad = seen(&[("/a", PERM_READ)], &[], 1);
        let bpf = bad.dynamic_result.as_mut().unwrap().bpf.as_mut().unwrap();
        bpf.capabilities.push("fly".to_owned());
        let error = merge(&bad, &seen(&[], &[], 1), "p").unwrap_err();
        assert_eq!(
            error.to_string(),
            "dynamicResult.bpf.capabilities: `fly` is not known"
        );
    }

    #[test]
    fn the_worst_that_was_held_out_counts() {
        let learned = |percent, examples| ModelData {
            learning: Some(Learning {
                events: 1,
                losses: Losses {
                    lost: 1,
                    ..Losses::default()
                },
                generalisations: vec![Generalisation {
                    to: "/proc/*".to_owned(),
                    examples,
                    ..Generalisation::default()
                }],
                held_out: vec![HeldOut {
                    part: "the end".to_owned(),
                    percent,
                    ..HeldOut::default()
                }],
            }),
            ..seen(&[("/x", PERM_READ)], &[], 1)
        };
        let mut old = learned(2.0, 3);
        old.dynamic_result = None;
        let learning = merge(&old, &learned(9.0, 2), "p")
            .unwrap()
            .unwrap()
            .learning
            .unwrap();
        assert_eq!((learning.losses.lost, learning.held_out[0].percent), (2, 9.0));
        assert_eq!(
            (
                learning.generalisations.len(),
                learning.generalisations[0].examples
            ),
            (1, 3)
        );
    }
}
