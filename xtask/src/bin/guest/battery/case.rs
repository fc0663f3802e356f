//! A case of the battery: attempts that a policy must stop, and their controls.

use std::io;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::place::Place;

/// One row of the report before it is tried.
pub(super) struct Case {
    pub(super) id: &'static str,
    pub(super) what: &'static str,
    pub(super) steps: Vec<Step>,
    /// Why nothing of this case is tried.
    pub(super) skip: Option<&'static str>,
    /// What the reader of a closed row should know.
    pub(super) note: &'static str,
}

/// One attempt, made unconfined and under the policy, each time in a fresh place.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) policy: &'static str,
    pub(super) place: Place,
    pub(super) kind: Kind,
    /// What the runtime or the pod's specification did before the container started.
    pub(super) prepare: fn() -> Done,
    pub(super) run: fn() -> Done,
    /// The kernel facility without which nothing can refuse the attempt, and what covers it.
    pub(super) missing: fn() -> Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The operation that the rule names, in its plain form: refused.
    Plain,
    /// A way round the rule: refused.
    Attack,
    /// A neighbour that must go on working.
    Benign,
}

/// Why an attempt did not do what it wanted.
#[derive(Debug)]
pub(super) enum Failure {
    /// EPERM or EACCES, or the process was killed.
    Refused(String),
    /// This kernel does not have the operation.
    Missing(String),
    /// Anything else.
    Broken(String),
}

pub(super) type Done = Result<(), Failure>;

/// What one attempt came to.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase", tag = "outcome", content = "detail")]
pub(super) enum Outcome {
    Allowed,
    Denied(String),
    Missing(String),
    Broken(String),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        let text = errno.to_string();
        match errno {
            Errno::EPERM | Errno::EACCES => Self::Refused(text),
            Errno::ENOSYS
            | Errno::EOPNOTSUPP
            | Errno::ENOTTY
            | Errno::EAFNOSUPPORT
            | Errno::EPROTONOSUPPORT
            | Errno::ESOCKTNOSUPPORT => Self::Missing(text),
            _ => Self::Broken(text),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) => Errno::from_raw(number).into(),
            None => Self::Broken(error.to_string()),
        }
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(errno: rustix::io::Errno) -> Self {
        Errno::from_raw(errno.raw_os_error()).into()
    }
}

impl From<Done> for Outcome {
    fn from(done: Done) -> Self {
        match done {
            Ok(()) => Self::Allowed,
            Err(Failure::Refused(detail)) => Self::Denied(detail),
            Err(Failure::Missing(detail)) => Self::Missing(detail),
            Err(Failure::Broken(detail)) => Self::Broken(detail),
        }
    }
}

impl Case {
    pub(super) fn new(id: &'static str, what: &'static str, steps: Vec<Step>) -> Self {
        Self {
            id,
            what,
            steps,
            skip: None,
            note: "",
        }
    }

    pub(super) fn skipped(id: &'static str, what: &'static str, why: &'static str) -> Self {
        Self {
            skip: Some(why),
            ..Self::new(id, what, Vec::new())
        }
    }

    pub(super) fn note(self, note: &'static str) -> Self {
        Self { note, ..self }
    }
}

/// The policy and the place that a group of steps share.
#[derive(Clone, Copy)]
pub(super) struct Under(pub(super) &'static str, pub(super) Place);

impl Under {
    pub(super) fn plain(self, name: &'static str, run: fn() -> Done) -> Step {
        self.step(Kind::Plain, name, run)
    }

    pub(super) fn attack(self, name: &'static str, run: fn() -> Done) -> Step {
        self.step(Kind::Attack, name, run)
    }

    pub(super) fn benign(self, name: &'static str, run: fn() -> Done) -> Step {
        self.step(Kind::Benign, name, run)
    }

    fn step(self, kind: Kind, name: &'static str, run: fn() -> Done) -> Step {
        Step {
            name,
            policy: self.0,
            place: self.1,
            kind,
            prepare: || Ok(()),
            run,
            missing: || None,
        }
    }
}

impl Step {
    pub(super) fn after(self, prepare: fn() -> Done) -> Self {
        Self { prepare, ..self }
    }

    pub(super) fn unless(self, missing: fn() -> Option<String>) -> Self {
        Self { missing, ..self }
    }
}

/// For results that only the test itself can cause.
pub(super) fn broken(text: impl Into<String>) -> Failure {
    Failure::Broken(text.into())
}

/// For kernels without the operation.
pub(super) fn missing(text: impl Into<String>) -> Failure {
    Failure::Missing(text.into())
}

/// What comes before the attempt is no part of it: its failure is the test's.
pub(super) fn setup<T, E: Into<Failure>>(what: &str, result: Result<T, E>) -> Result<T, Failure> {
    result.map_err(|error| match error.into() {
        Failure::Refused(detail) | Failure::Broken(detail) => broken(format!("{what}: {detail}")),
        Failure::Missing(detail) => missing(format!("{what}: {detail}")),
    })
}
