//! What the lab and its program in the guest say to each other: a plan goes in as one JSON file, results come out
//! as JSON lines. Both programs compile this file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where the plan and the files that it names are in the guest.
pub(crate) const FOLDER: &str = "/bench";
/// The plan's name in that folder.
pub(crate) const PLAN: &str = "plan.json";

/// What to measure, in this order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) systems: Vec<System>,
    pub(crate) operations: Vec<Work>,
    /// Also tell which hooks each operation passes, and how often.
    pub(crate) count_hooks: bool,
    /// Also what each program of the product takes of an operation.
    #[serde(default)]
    pub(crate) by_program: bool,
    /// Moves the measuring process in memory and in time: what a boot happens to look like is in every number of it, and is
    /// different with another salt.
    #[serde(default)]
    pub(crate) salt: u32,
    #[serde(default)]
    pub(crate) clock: Clock,
}

/// What tells how much a measurement is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Clock {
    /// That of a guest with one processor, which counts instructions: idle time is no work.
    #[default]
    Instructions,
    /// That of a machine at its own work: what a user waits for.
    Time,
}

/// Something that is active while operations are measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct System {
    pub(crate) name: String,
    pub(crate) setup: Setup,
}

/// How a system is brought about. Files are names in the folder of the plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Setup {
    /// The kernel as it booted.
    Nothing,
    /// A program that does nothing on each hook that the product attaches under this policy.
    Empty { policy: String },
    /// The product with this policy for another task than the measured one.
    Beside { policy: String },
    /// The product with this policy for the measured task.
    Under { policy: String },
    /// An `AppArmor` profile, compiled in this file.
    AppArmor { profile: String, file: String },
    /// A seccomp filter that allows every call but this many.
    Seccomp { rules: usize },
}

/// An operation and how often it is repeated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) name: String,
    /// Repetitions between two looks at the clock.
    pub(crate) rounds: u32,
    pub(crate) batches: u32,
    /// Units of work in one repetition, for programs that are told how much to do.
    #[serde(default)]
    pub(crate) amount: u32,
}

/// What the kernel counted of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Runs {
    pub(crate) runs: u64,
    /// With some 50 for each run that the kernel's own clock takes.
    pub(crate) instructions: u64,
}

/// One line of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// Instructions, or nanoseconds, of each batch of one operation under one system.
    Sample {
        #[serde(default)]
        system: String,
        operation: String,
        rounds: u32,
        batches: Vec<u64>,
    },
    /// How often a thousand operations pass each hook.
    Hooks {
        operation: String,
        passes: BTreeMap<String, u64>,
    },
    /// What a thousand operations cost in each program of the product.
    Programs {
        system: String,
        operation: String,
        programs: BTreeMap<String, Runs>,
    },
    /// How a system was brought about, for the report.
    Note { system: String, text: String },
    /// What could not be measured, and why.
    Problem {
        system: String,
        operation: Option<String>,
        text: String,
    },
}
