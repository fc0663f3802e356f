//! Collects the diagnostics of one file.

use super::node::Position;
use crate::policy::diagnostic::{Diagnostic, Severity};

/// The diagnostics of one file.
pub(super) struct Report<'f> {
    file: &'f str,
    diagnostics: Vec<Diagnostic>,
    /// Problems that were left out because there are too many.
    omitted: usize,
    errors: usize,
}

/// Most diagnostics of one file: a hostile file must not fill a log.
const MOST: usize = 200;

impl<'f> Report<'f> {
    pub(super) fn new(file: &'f str) -> Self {
        Self {
            file,
            diagnostics: Vec::new(),
            omitted: 0,
            errors: 0,
        }
    }

    pub(super) fn file(&self) -> &'f str {
        self.file
    }

    /// Errors so far.
    pub(super) fn errors(&self) -> usize {
        self.errors
    }

    pub(super) fn error(
        &mut self,
        at: Position,
        field: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.errors += 1;
        self.push(Severity::Error, at, field, message.into(), help.into());
    }

    pub(super) fn warning(
        &mut self,
        at: Position,
        field: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(Severity::Warning, at, field, message.into(), help.into());
    }

    fn push(&mut self, severity: Severity, at: Position, field: &str, message: String, help: String) {
        if self.diagnostics.len() >= MOST {
            self.omitted += 1;
            return;
        }
        self.diagnostics.push(Diagnostic {
            severity,
            file: self.file.to_owned(),
            line: at.line,
            column: at.column,
            field: field.to_owned(),
            message,
            help: (!help.is_empty()).then_some(help),
        });
    }

    /// The diagnostics in the order of the text.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|one| (one.line, one.column));
        if self.omitted > 0 {
            let severity = if self.errors > 0 {
                Severity::Error
            } else {
                Severity::Warning
            };
            self.diagnostics.push(Diagnostic {
                severity,
                file: self.file.to_owned(),
                line: 1,
                column: 1,
                field: String::new(),
                message: format!("{} more problems are not shown", self.omitted),
                help: None,
            });
        }
        self.diagnostics
    }
}
