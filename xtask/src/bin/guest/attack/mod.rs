//! The attacks and benign operations of the demo, each done by its own system calls inside a container.

mod exec;
mod files;
mod network;
mod outcomes;
mod privilege;

use std::{
    fmt, io,
    process::{Command, ExitCode},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
pub(crate) use outcomes::{Outcomes, outcomes};
use serde::{Deserialize, Serialize};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The operation's name
    #[arg(required_unless_present = "all")]
    name: Option<String>,
    /// Try every operation, each in a process of its own, and print one line for each
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// With --all: wait this long before each attack, so that each has its own line in the violation log
    #[arg(long, default_value_t = 0)]
    pause_ms: u64,
    /// Repeat for this many seconds and print how often each outcome was seen
    #[arg(long, conflicts_with = "all")]
    seconds: Option<u64>,
}

/// Whether the operation is one that a policy should stop.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Attack,
    Benign,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Attack => "attack",
            Self::Benign => "benign",
        })
    }
}

/// One operation. It leaves the container as it was, so that it can be repeated.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// One line for people.
    pub(crate) text: &'static str,
    run: fn() -> Result<(), Failure>,
}

/// Why an operation did not do what it wanted.
pub(crate) enum Failure {
    /// The kernel refused: EPERM or EACCES.
    Refused(String),
    /// Anything else: the demo itself is wrong.
    Broken(String),
}

/// What is printed for one try.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase", tag = "outcome", content = "detail")]
pub(crate) enum Outcome {
    Allowed,
    Denied(String),
    Broken(String),
}

impl Outcome {
    pub(crate) fn of(done: Result<(), Failure>) -> Self {
        match done {
            Ok(()) => Self::Allowed,
            Err(Failure::Refused(detail)) => Self::Denied(detail),
            Err(Failure::Broken(detail)) => Self::Broken(detail),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allowed => "allowed",
            Self::Denied(_) => "denied",
            Self::Broken(_) => "broken",
        })
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

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::EPERM | Errno::EACCES => Self::Refused(errno.to_string()),
            _ => Self::Broken(errno.to_string()),
        }
    }
}

/// Every operation, in the order of the report.
pub(crate) fn operations() -> Vec<Operation> {
    [
        files::OPERATIONS,
        exec::OPERATIONS,
        network::OPERATIONS,
        privilege::OPERATIONS,
    ]
    .into_iter()
    .flatten()
    .map(
        |&Operation {
             name,
             kind,
             text,
             run,
         }| Operation {
            name,
            kind,
            text,
            run,
        },
    )
    .collect()
}

impl Operation {
    const fn attack(name: &'static str, text: &'static str, run: fn() -> Result<(), Failure>) -> Self {
        Self {
            name,
            kind: Kind::Attack,
            text,
            run,
        }
    }

    const fn benign(name: &'static str, text: &'static str, run: fn() -> Result<(), Failure>) -> Self {
        Self {
            name,
            kind: Kind::Benign,
            text,
            run,
        }
    }

    fn attempt(&self) -> Outcome {
        match (self.run)() {
            Ok(()) => Outcome::Allowed,
            Err(Failure::Refused(detail)) => Outcome::Denied(detail),
            Err(Failure::Broken(detail)) => Outcome::Broken(detail),
        }
    }
}

/// One line of `attack --all`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Tried {
    pub(crate) name: String,
    /// Nanoseconds since the epoch.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) outcome: Outcome,
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    let Some(name) = &args.name else {
        return try_all(Duration::from_millis(args.pause_ms));
    };
    let all = operations();
    let Some(operation) = all.iter().find(|operation| operation.name == name) else {
        let names: Vec<&str> = all.iter().map(|operation| operation.name).collect();
        bail!("no operation `{name}`; there are: {}", names.join(" "));
    };
    match args.seconds {
        None => println!(
            "{}",
            serde_json::to_string(&operation.attempt()).context("print the outcome")?
        ),
        Some(seconds) => repeat(operation, Duration::from_secs(seconds)),
    }
    Ok(ExitCode::SUCCESS)
}

fn repeat(operation: &Operation, time: Duration) {
    let end = Instant::now() + time;
    let (mut allowed, mut denied, mut broken) = (0_u64, 0_u64, 0_u64);
    while Instant::now() < end {
        match operation.attempt() {
            Outcome::Allowed => allowed += 1,
            Outcome::Denied(_) => denied += 1,
            Outcome::Broken(_) => broken += 1,
        }
    }
    println!(
        "{}",
        serde_json::json!({ "allowed": allowed, "denied": denied, "broken": broken })
    );
}

/// Some operations change the process for good (its namespaces), so each gets a fresh one.
fn try_all(pause: Duration) -> Result<ExitCode> {
    for operation in operations() {
        if operation.kind == Kind::Attack {
            std::thread::sleep(pause);
        }
        let begin = now();
        let output = Command::new("/proc/self/exe")
            .args(["attack", operation.name])
            .output();
        let end = now();
        let outcome = match output {
            Ok(output) => serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                Outcome::Broken(format!("{}: {errors}", output.status))
            }),
            Err(error) => Outcome::Broken(format!("start the operation: {error}")),
        };
        let tried = Tried {
            name: operation.name.to_owned(),
            begin,
            end,
            outcome,
        };
        println!("{}", serde_json::to_string(&tried).context("print the outcome")?);
    }
    Ok(ExitCode::SUCCESS)
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Kind, operations};

    #[test]
    fn names_are_unique_and_the_list_is_as_long_as_promised() {
        let all = operations();
        let names: BTreeSet<&str> = all.iter().map(|operation| operation.name).collect();
        assert_eq!(names.len(), all.len());
        assert!(
            all.iter()
                .filter(|operation| operation.kind == Kind::Attack)
                .count()
                >= 15
        );
        assert!(
            all.iter()
                .filter(|operation| operation.kind == Kind::Benign)
                .count()
                >= 5
        );
    }
}
