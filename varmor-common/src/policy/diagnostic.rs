//! One problem of a policy file: where it is, what it is, what to do about it.

use std::fmt;

use serde::Serialize;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// The policy works, but not as far as it seems to.
    Warning,
    /// The policy is refused.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One problem of a policy file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub severity: Severity,
    /// As the caller named it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// `spec.policy.mode`; empty = the whole document.
    pub field: String,
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// The problem as text: `file:line:column: error: message`, and the help on a second line.
#[must_use]
pub fn render(diagnostic: &Diagnostic) -> String {
    let Diagnostic {
        severity,
        file,
        line,
        column,
        message,
        help,
        ..
    } = diagnostic;
    let mut text = format!(
        "{}:{line}:{column}: {severity}: {}",
        printable(file),
        printable(message)
    );
    if let Some(help) = help {
        text.push_str("\n  help: ");
        text.push_str(&printable(help));
    }
    text
}

/// Messages quote what users wrote: control characters must not reach a terminal or break a log line.
fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if c.is_control() {
                c.escape_default().collect()
            } else {
                vec![c]
            }
        })
        .collect()
}

/// Text of a user, cut so that it can stand in a message.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        return format!("`{text}`");
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("`{start}...` ({} bytes)", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_is_rendered_as_place_problem_and_help() {
        let diagnostic = Diagnostic {
            severity: Severity::Error,
            file: "web.yaml".into(),
            line: 12,
            column: 7,
            field: "spec".into(),
            message: "unknown field `x\u{1b}[2J`".into(),
            help: Some("remove it".into()),
        };
        assert_eq!(
            render(&diagnostic),
            "web.yaml:12:7: error: unknown field `x\\u{1b}[2J`\n  help: remove it"
        );
    }
}
