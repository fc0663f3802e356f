//! One row of the table: a rule, what it forbids, and a neighbour that it must not forbid.

use super::operations::Done;

pub(super) struct Entry {
    /// Id of the built-in rule.
    pub(super) rule: &'static str,
    pub(super) forbidden: fn() -> Done,
    pub(super) benign: fn() -> Done,
    /// Why the rule cannot be shown on this kernel, if so.
    pub(super) missing: fn() -> Option<String>,
}

impl Entry {
    pub(super) const fn new(rule: &'static str, forbidden: fn() -> Done, benign: fn() -> Done) -> Self {
        Self {
            rule,
            forbidden,
            benign,
            missing: || None,
        }
    }

    pub(super) const fn unless(self, missing: fn() -> Option<String>) -> Self {
        Self { missing, ..self }
    }
}
