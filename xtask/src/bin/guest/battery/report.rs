//! The battery's report: the cases that it must hold, and its rows. The lab reads what the guests print.

use serde::{Deserialize, Serialize};

/// Every case, once, in the order of the report.
pub(crate) const IDS: &[&str] = &[
    "I-1", "I-2", "I-3", "I-4", "I-5", "I-6", "I-7", "I-8", "I-9", "I-10", "I-11", "I-12", "I-17", "I-18",
    "C-1", "C-2", "C-3", "E-1", "E-2", "E-3", "E-4", "E-5", "E-6", "E-9", "E-10", "E-11", "E-12", "F-1",
    "F-2", "F-3", "F-4", "F-5", "F-6", "F-7", "F-8", "F-12", "F-16", "F-18", "N-1", "N-2", "N-3", "N-4",
    "N-6", "N-8", "N-10", "M-1", "M-2", "M-3", "M-6", "M-7", "P-3", "P-4", "P-5", "A-1", "A-2", "A-3", "A-4",
    "Q-1", "Q-2", "Q-3", "Q-4", "Q-5", "Q-6", "S1", "S2", "S3", "S4", "S5",
];

/// One line of the report.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) what: String,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    pub(crate) control: Control,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Skipped,
    Closed,
    Open,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Control {
    Ok,
    Broken,
}

impl Row {
    pub(crate) fn new(id: &str, what: &str, verdict: Verdict, reason: impl Into<String>) -> Self {
        Self {
            id: id.to_owned(),
            what: what.to_owned(),
            verdict,
            reason: reason.into(),
            control: Control::Ok,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.verdict != Verdict::Open && self.control == Control::Ok
    }
}
