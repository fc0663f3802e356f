//! One attempt: an operation, and what a policy should make of it.

use crate::attack::{Failure, Outcome};

/// An operation under one of the suite's policies. It leaves the guest as it was.
pub(super) struct Attempt {
    pub(super) name: &'static str,
    pub(super) policy: &'static str,
    pub(super) expect: Expect,
    pub(super) run: fn() -> Result<(), Failure>,
    /// The kernel facility without which nothing refuses the operation, if this kernel lacks it.
    pub(super) missing: fn() -> Option<String>,
    /// What the enforcer must say when it refuses; empty = anything.
    pub(super) says: &'static str,
}

/// What happens under the policy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Denied,
    Allowed,
}

impl Attempt {
    pub(super) fn attack(name: &'static str, policy: &'static str, run: fn() -> Result<(), Failure>) -> Self {
        Self {
            name,
            policy,
            expect: Expect::Denied,
            run,
            missing: || None,
            says: "",
        }
    }

    pub(super) fn benign(name: &'static str, policy: &'static str, run: fn() -> Result<(), Failure>) -> Self {
        Self {
            name,
            policy,
            expect: Expect::Allowed,
            run,
            missing: || None,
            says: "",
        }
    }

    pub(super) fn unless(self, missing: fn() -> Option<String>) -> Self {
        Self { missing, ..self }
    }

    pub(super) fn saying(self, says: &'static str) -> Self {
        Self { says, ..self }
    }

    pub(super) fn outcome(&self) -> Outcome {
        match (self.run)() {
            Ok(()) => Outcome::Allowed,
            Err(Failure::Refused(detail)) => Outcome::Denied(detail),
            Err(Failure::Broken(detail)) => Outcome::Broken(detail),
        }
    }
}
