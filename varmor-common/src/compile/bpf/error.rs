//! Why a profile cannot be compiled.

use crate::matcher::PatternError;
use crate::matcher::automaton::{STATE_BUDGET, TRANSITION_BUDGET};
use crate::profile::{Profile, Rule};

/// Names the rules at fault and what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error("rule `{rule}` ({field}): pattern `{pattern}`, byte {}: {source}; {}", .source.offset, .source.help)]
    Pattern {
        rule: String,
        field: String,
        pattern: String,
        source: Box<PatternError>,
    },
    #[error(
        "the path patterns multiply beyond {STATE_BUDGET} states or {TRANSITION_BUDGET} transitions; the worst \
         are {}: split the policy, or write fewer `**` between names", .patterns.join(", ")
    )]
    TooManyStates { patterns: Vec<String> },
    #[error(
        "the name globs multiply beyond {} states; the worst are {}: write fewer `*` within names",
        crate::abi::MAX_GLOB_STATES, .patterns.join(", ")
    )]
    TooManyGlobs { patterns: Vec<String> },
    #[error(
        "the mount rules have {count} different combinations of flags, type and verdict, at most {} are possible; \
         the first too many is rule `{rule}` ({field}): use the same flags in more rules",
        crate::abi::MAX_MOUNT_CLASSES
    )]
    TooManyMountClasses {
        count: usize,
        rule: String,
        field: String,
    },
    #[error(
        "the {what} rules multiply beyond {} rows or {} tests, at rule `{rule}` ({field}): rules about many ports \
         and rules about many networks need a table each for every pair of them; name the ports in fewer ranges",
        super::network::ROW_BUDGET,
        super::network::TEST_BUDGET
    )]
    TooManyDestinations {
        what: &'static str,
        rule: String,
        field: String,
    },
    #[error(
        "rule `{rule}` ({field}): port range {first}-{last} runs backwards: write the smaller port first"
    )]
    PortRange {
        rule: String,
        field: String,
        first: u16,
        last: u16,
    },
    #[error("rule `{0}` is not for the BPF enforcer: compile what `Profile::part_for` makes of the profile")]
    Foreign(String),
    #[error("target `{pattern}`, byte {}: {source}; {}", .source.offset, .source.help)]
    Target {
        pattern: String,
        source: Box<PatternError>,
    },
    #[error(
        "the profile has {count} groups of `targets`, at most {} are possible; the first too many begins with \
         `{first}`: give more rules the same targets",
        crate::abi::MAX_TARGETS
    )]
    TooManyTargets { count: usize, first: String },
    #[error(
        "the names `{first}` and `{second}` have one hash under this boot key: compile again under another key"
    )]
    Collision { first: String, second: String },
}

impl CompileError {
    /// The field of the rule at fault, if one rule is.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Pattern { field, .. }
            | Self::TooManyMountClasses { field, .. }
            | Self::TooManyDestinations { field, .. }
            | Self::PortRange { field, .. } => Some(field),
            _ => None,
        }
    }
}

/// Patterns named in a message about many.
const NAMED: usize = 5;

/// `` `pattern` (rule) `` of the first few rules, each once.
pub(super) fn name_patterns(profile: &Profile, rules: impl Iterator<Item = u32>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let described = rules
        .filter_map(|rule| profile.rules.get(rule as usize))
        .filter_map(describe);
    for name in described {
        if !names.contains(&name) {
            names.push(name);
        }
        if names.len() == NAMED {
            break;
        }
    }
    names
}

fn describe(rule: &Rule) -> Option<String> {
    super::paths::pattern_text(rule).map(|text| format!("`{text}` of rule `{}`", rule.id))
}
