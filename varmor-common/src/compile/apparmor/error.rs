//! Why a profile cannot be compiled.

use crate::matcher::PatternError;

/// Names the rule at fault and what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error("rule `{rule}` ({field}): pattern `{pattern}`, byte {}: {source}; {}", .source.offset, .source.help)]
    Pattern {
        rule: String,
        field: String,
        pattern: String,
        source: Box<PatternError>,
    },
    #[error("target `{pattern}`, byte {}: {source}; {}", .source.offset, .source.help)]
    Target {
        pattern: String,
        source: Box<PatternError>,
    },
    #[error(
        "target `{0}`: AppArmor enters a target by its exact path; list the executables, without wildcards"
    )]
    WildTarget(String),
    #[error("`{0}` is no name for an AppArmor profile: rename the policy to letters, digits, `-` and `.`")]
    Name(String),
}

impl CompileError {
    /// The field of the rule at fault, if one rule is.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Pattern { field, .. } => Some(field),
            _ => None,
        }
    }
}
