//! The tests of the index, in the order of the seed's figure; the two that it leaves out come last.

use crate::bench::{preset::Scale, protocol::Work};

pub(super) struct Test {
    /// The name that the guest knows.
    pub(super) operation: &'static str,
    pub(super) title: &'static str,
    /// Units of the test's work in one repetition.
    pub(super) units: u32,
    /// What one unit is.
    pub(super) unit: &'static str,
    /// What is not as in the original.
    pub(super) remark: &'static str,
    /// Makes no system call, so no enforcer can cost it anything.
    pub(super) cpu: bool,
    rounds: u32,
    batches: u32,
}

impl Test {
    pub(super) fn work(&self, scale: Scale) -> Work {
        Work {
            name: self.operation.to_owned(),
            rounds: self.rounds,
            batches: match scale {
                Scale::Smoke => self.batches,
                Scale::Std => self.batches * 2 + 1,
            },
            amount: 0,
        }
    }
}

const fn test(operation: &'static str, title: &'static str, rounds: u32, unit: &'static str) -> Test {
    Test {
        operation,
        title,
        units: 1,
        unit,
        remark: "",
        cpu: false,
        rounds,
        batches: 9,
    }
}

const ONE_SHELL: &str = "shell and tools are the guest's busybox";
const STATIC: &str = "the program is static, so that no loader opens files, and larger than the original's; no runtime starts in it";

/// A batch is shorter than a tick of the kernel's clock (4,000,000) where a unit is.
pub(super) const ALL: &[Test] = &[
    Test {
        units: 8,
        remark: STATIC,
        batches: 11,
        ..test(
            "ubench-execl",
            "Execl Throughput",
            1,
            "a process becomes itself; 8 times in a child",
        )
    },
    test(
        "ubench-fstime",
        "File Copy 1024 bufsize 2000 maxblocks",
        600,
        "1 KiB read and written, tmpfs",
    ),
    test(
        "ubench-fsbuffer",
        "File Copy 256 bufsize 500 maxblocks",
        800,
        "256 bytes read and written, tmpfs",
    ),
    test(
        "ubench-fsdisk",
        "File Copy 4096 bufsize 8000 maxblocks",
        250,
        "4 KiB read and written, tmpfs",
    ),
    test(
        "ubench-pipe",
        "Pipe Throughput",
        800,
        "512 bytes into a pipe and out of it",
    ),
    test(
        "ubench-context1",
        "Pipe-based Context Switching",
        200,
        "a counter goes to another process and back, one processor",
    ),
    Test {
        batches: 21,
        ..test("ubench-spawn", "Process Creation", 6, "fork, exit, wait")
    },
    Test {
        remark: ONE_SHELL,
        batches: 5,
        ..test(
            "ubench-shell1",
            "Shell Scripts (1 concurrent)",
            1,
            "one run of the script",
        )
    },
    Test {
        remark: ONE_SHELL,
        batches: 3,
        ..test(
            "ubench-shell8",
            "Shell Scripts (8 concurrent)",
            1,
            "eight runs of the script at once",
        )
    },
    test(
        "ubench-syscall",
        "System Call Overhead",
        600,
        "dup, close, getpid, getuid, umask",
    ),
    Test {
        remark: "an equivalent, no Dhrystones",
        cpu: true,
        ..test(
            "ubench-dhry2reg",
            "Dhrystone 2 using register variables",
            2000,
            "one iteration of a like program",
        )
    },
    Test {
        remark: "an equivalent, no MWIPS",
        cpu: true,
        ..test(
            "ubench-whetstone",
            "Double-Precision Whetstone",
            10,
            "a hundredth of a pass of a like program",
        )
    },
];

/// What the seed's figure shows in percent of `Not installed`, for no rules, 1, 2, 4 and 8, read from its pixels (±0.1). The figure has these rows.
pub(super) const FIGURE: &[(&str, [f64; 5])] = &[
    ("Execl Throughput", [98.6, 97.9, 97.7, 97.7, 97.4]),
    (
        "File Copy 1024 bufsize 2000 maxblocks",
        [99.9, 99.7, 99.7, 99.9, 99.6],
    ),
    (
        "File Copy 256 bufsize 500 maxblocks",
        [99.7, 99.8, 99.7, 99.7, 99.7],
    ),
    (
        "File Copy 4096 bufsize 8000 maxblocks",
        [101.3, 99.7, 100.7, 101.5, 100.6],
    ),
    ("Pipe Throughput", [99.8, 99.8, 99.8, 99.7, 99.8]),
    ("Pipe-based Context Switching", [99.7, 99.8, 99.8, 99.7, 99.7]),
    ("Process Creation", [99.4, 99.1, 99.5, 97.9, 97.6]),
    ("Shell Scripts (1 concurrent)", [99.4, 98.8, 98.8, 98.7, 98.5]),
    ("Shell Scripts (8 concurrent)", [99.4, 98.9, 98.8, 98.7, 98.5]),
    ("System Call Overhead", [99.9, 99.9, 99.8, 99.9, 99.8]),
    ("System Benchmarks Index", [99.7, 99.4, 99.5, 99.4, 99.2]),
];
