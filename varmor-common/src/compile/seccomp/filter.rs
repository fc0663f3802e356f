//! Entries of many origins -> one filter that libseccomp takes and that means what was written.
//!
//! libseccomp keeps a tree for each system call. A rule without conditions makes it forget those with conditions, two
//! actions for equal conditions are an error, and for overlapping ones the order is its own affair. So everything
//! of that kind is settled or refused here.

use std::collections::BTreeMap;

use super::DEFAULT_ERRNO;
use super::oci::{Action, Architecture, Condition, Flag, OciSeccomp, Syscalls};
use crate::policy::Severity;

/// A filter while it is collected.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) default: Action,
    pub(super) architectures: Vec<Architecture>,
    pub(super) flags: Vec<Flag>,
    entries: Vec<Entry>,
}

/// What happens at one system call if all conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) action: Action,
    pub(super) errno: Option<u32>,
    pub(super) args: Vec<Condition>,
    /// Built-in id, or the field of a raw rule.
    pub(super) rule: String,
    pub(super) field: String,
    pub(super) built_in: bool,
}

/// Where a system call of a filter comes from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Origin {
    pub name: String,
    pub action: Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<Condition>,
    /// Built-in id, or the field of a raw rule.
    pub rule: String,
}

/// What is wrong with the entries.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) severity: Severity,
    pub(super) field: String,
    pub(super) message: String,
    pub(super) help: &'static str,
}

/// The filter, and what happened on the way to it.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) profile: OciSeccomp,
    pub(super) origins: Vec<Origin>,
    pub(super) problems: Vec<Problem>,
}

impl Entry {
    pub(super) fn allow(name: &str, rule: &str) -> Self {
        Self {
            name: name.to_owned(),
            action: Action::Allow,
            errno: None,
            args: Vec::new(),
            rule: rule.to_owned(),
            field: String::new(),
            built_in: true,
        }
    }

    /// Both can hold for the same call.
    fn meets(&self, other: &Self) -> bool {
        !self
            .args
            .iter()
            .any(|one| other.args.iter().any(|two| one.excludes(two)))
    }
}

impl Filter {
    pub(super) fn new(default: Action, architectures: &[Architecture]) -> Self {
        Self {
            default,
            architectures: architectures.to_vec(),
            flags: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Adds an entry. As runtimes read it, a rule with two conditions on one argument holds if any condition does;
    /// it becomes several, so that no reader has to know that.
    pub(super) fn push(&mut self, mut entry: Entry) {
        entry.args.sort_unstable();
        entry.args.dedup();
        let ambiguous = entry.args.windows(2).any(|pair| pair[0].index == pair[1].index);
        if ambiguous {
            for condition in entry.args.clone() {
                self.entries.push(Entry {
                    args: vec![condition],
                    ..entry.clone()
                });
            }
        } else {
            self.entries.push(entry);
        }
    }

    /// Settles the entries of each system call.
    pub(super) fn resolve(self) -> Resolved {
        let mut problems = Vec::new();
        let mut by_name: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in &self.entries {
            by_name.entry(&entry.name).or_default().push(entry);
        }
        let mut kept: Vec<&Entry> = Vec::new();
        for entries in by_name.values() {
            kept.extend(settle(entries, self.default, &mut problems));
        }
        let profile = OciSeccomp {
            default_action: self.default,
            default_errno_ret: (self.default == Action::Errno).then_some(DEFAULT_ERRNO),
            architectures: self.architectures,
            flags: self.flags,
            syscalls: group(&kept),
        };
        let origins = kept.into_iter().map(origin).collect();
        Resolved {
            profile,
            origins,
            problems,
        }
    }
}

fn origin(entry: &Entry) -> Origin {
    Origin {
        name: entry.name.clone(),
        action: entry.action,
        errno: entry.errno,
        args: entry.args.clone(),
        rule: entry.rule.clone(),
    }
}

/// The entries of one system call that stay.
fn settle<'e>(entries: &[&'e Entry], default: Action, problems: &mut Vec<Problem>) -> Vec<&'e Entry> {
    let mut kept: Vec<&Entry> = Vec::new();
    'entries: for entry in entries {
        let mut loses = Vec::new();
        for (place, earlier) in kept.iter().enumerate() {
            match decide(earlier, entry) {
                Decision::Both => {}
                Decision::First => continue 'entries,
                Decision::Second => loses.push(place),
                Decision::FirstSaying(message) => {
                    problems.push(warning(entry, message));
                    continue 'entries;
                }
                Decision::SecondSaying(message) => {
                    problems.push(warning(earlier, message));
                    loses.push(place);
                }
                Decision::Contradiction => {
                    problems.push(contradiction(earlier, entry));
                    continue 'entries;
                }
            }
        }
        for place in loses.into_iter().rev() {
            kept.remove(place);
        }
        kept.push(entry);
    }
    kept.retain(|entry| {
        let says_nothing =
            entry.action == default && (default != Action::Errno || entry.errno == Some(DEFAULT_ERRNO));
        if says_nothing && !entry.built_in {
            let message = format!(
                "this rule changes nothing: `{}` is answered with {default} anyway",
                entry.name
            );
            problems.push(warning(entry, message));
        }
        !says_nothing
    });
    kept.sort_by(|a, b| a.args.cmp(&b.args));
    kept
}

enum Decision {
    Both,
    First,
    Second,
    FirstSaying(String),
    SecondSaying(String),
    Contradiction,
}

/// What two entries of one system call are to each other.
fn decide(first: &Entry, second: &Entry) -> Decision {
    if !first.meets(second) {
        return Decision::Both;
    }
    if first.action.permits() != second.action.permits() {
        // A refusal of the policy's author is stronger than a built-in rule that is set to log.
        return if first.built_in && first.action == Action::Log {
            Decision::SecondSaying(unlogged(second))
        } else if second.built_in && second.action == Action::Log {
            Decision::FirstSaying(unlogged(first))
        } else {
            Decision::Contradiction
        };
    }
    if first.args == second.args {
        // The stricter action, and among equal ones the number that the policy's author chose.
        let chosen = second.action == first.action && first.built_in && !second.built_in;
        return if second.action > first.action || chosen {
            Decision::Second
        } else {
            Decision::First
        };
    }
    match (first.args.is_empty(), second.args.is_empty()) {
        (true, false) if first.action == second.action || second.built_in => Decision::First,
        (false, true) if first.action == second.action || first.built_in => Decision::Second,
        (true, false) | (false, true) => Decision::Contradiction,
        _ => Decision::Both,
    }
}

fn unlogged(refusal: &Entry) -> String {
    format!(
        "`{}` is refused by `{}`, so its use is not logged here",
        refusal.name, refusal.rule
    )
}

fn warning(entry: &Entry, message: String) -> Problem {
    Problem {
        severity: Severity::Warning,
        field: entry.field.clone(),
        message,
        help: "remove the rule",
    }
}

fn contradiction(first: &Entry, second: &Entry) -> Problem {
    // The built-in rule is what it is; the raw rule can be changed.
    let (changed, other) = if second.built_in {
        (first, second)
    } else {
        (second, first)
    };
    let verb = |entry: &Entry| match (entry.action.permits(), entry.args.is_empty()) {
        (true, true) => "allows",
        (true, false) => "allows some calls of",
        (false, true) => "refuses",
        (false, false) => "refuses some calls of",
    };
    Problem {
        severity: Severity::Error,
        field: changed.field.clone(),
        message: format!(
            "this {} `{}` ({}), but `{}` {} it ({})",
            verb(changed),
            changed.name,
            changed.action,
            other.rule,
            verb(other),
            other.action
        ),
        help: "remove one of the two, or give both `args` that exclude each other",
    }
}

/// One rule for all names that are treated alike, in an order that depends on nothing but the content.
fn group(entries: &[&Entry]) -> Vec<Syscalls> {
    type Treatment<'e> = (Action, Option<u32>, &'e [Condition]);
    let mut groups: BTreeMap<Treatment<'_>, Vec<String>> = BTreeMap::new();
    for entry in entries {
        groups
            .entry((entry.action, entry.errno, &entry.args))
            .or_default()
            .push(entry.name.clone());
    }
    groups
        .into_iter()
        .map(|((action, errno_ret, args), mut names)| {
            names.sort_unstable();
            names.dedup();
            Syscalls {
                names,
                action,
                errno_ret,
                args: args.to_vec(),
            }
        })
        .collect()
}
