//! What came of a look at a policy, and what such looks need.

use crate::object::ProfileKey;

/// What came of the last reconciling of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub uid: String,
    pub generation: i64,
    pub profile: Option<ProfileKey>,
    pub problem: Option<Problem>,
}

/// Why a policy is not in force as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// One of `crate::reasons`.
    pub reason: &'static str,
    pub message: String,
}

/// The kinds of addresses that some policy needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub services: bool,
    pub pods: bool,
}
