//! Path patterns as users write them, and the sequences of components that they mean.
//!
//! A pattern names whole paths. `*` is any run of bytes within a name, `**` any run of bytes, `?` one byte of a
//! name, `[a-z]` and `[!a]` one byte of a set, `{a,b}` alternatives (nested, with `/` if wanted), `\` takes the
//! next byte literally. A pattern starts with `/`, or has no `/` and names files in any folder (`*.log` is
//! `/**/*.log`). `/**/` stands for zero or more whole names; `/etc/**` is everything below `/etc` but not `/etc`;
//! `/proc**` is everything whose path begins so; `/**` and `**` are everything, the root too.

mod lower;
mod parse;
#[cfg(test)]
mod tests;

use super::glob::Glob;

/// Longest pattern in bytes (`PATH_MAX`).
const MAX_PATTERN: usize = 4096;
/// Most sequences of components that one pattern may mean.
const MAX_ALTERNATIVES: usize = 1024;

/// A checked pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    alternatives: Vec<Vec<Component>>,
}

/// One element of a path, from the root to the leaf.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// Exactly this name.
    Literal(Vec<u8>),
    /// One name that the glob matches.
    Glob(Glob),
    /// Any one name.
    Any,
    /// Zero or more names.
    Deep,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatternError {
    /// Byte of the text where the problem is.
    pub offset: usize,
    pub message: String,
    /// What to write instead.
    pub help: String,
}

impl PatternError {
    fn new(offset: usize, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            offset,
            message: message.into(),
            help: help.into(),
        }
    }
}

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::new(
                0,
                "pattern is empty",
                "write a path such as `/etc/**`, or `**` for everything",
            ));
        }
        if text.len() > MAX_PATTERN {
            return Err(PatternError::new(
                MAX_PATTERN,
                format!(
                    "pattern has {} bytes, a path has at most {MAX_PATTERN}",
                    text.len()
                ),
                "split it into several rules, or shorten it with `**`",
            ));
        }
        let mut alternatives = Vec::new();
        for tokens in parse::alternatives(text.as_bytes())? {
            alternatives.extend(lower::lower(&tokens)?);
            if alternatives.len() > MAX_ALTERNATIVES {
                return Err(too_many(0));
            }
        }
        alternatives.sort();
        alternatives.dedup();
        Ok(Self {
            text: text.to_owned(),
            alternatives,
        })
    }

    /// The text it was read from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The sequences of components, each from the root to the leaf, one of which a matching path follows. The
    /// empty sequence is the root itself.
    #[must_use]
    pub fn alternatives(&self) -> &[Vec<Component>] {
        &self.alternatives
    }

    /// Whether every path matches.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.alternatives
            .iter()
            .any(|alternative| alternative[..] == [Component::Deep, Component::Any])
            && self.alternatives.iter().any(Vec::is_empty)
    }
}

fn too_many(offset: usize) -> PatternError {
    PatternError::new(
        offset,
        format!("pattern stands for more than {MAX_ALTERNATIVES} alternatives"),
        "use fewer braces and fewer `**` inside names, or split it into several rules",
    )
}
