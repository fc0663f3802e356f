//! The suites of the comparison with a hardened kernel: what is run for each, and how much of it.

use crate::bench::preset::programs::suite::{Sense, Suite, column};

pub(super) const STRESS: Suite = Suite {
    name: "stress-ng",
    title: "stress-ng",
    sense: Sense::Rate("bogo operations"),
    packages: &["stress-ng"],
    memory: 1536,
    columns: &[
        column("stress-cpu", "CPU", 400, 4_000),
        column("stress-io", "I/O", 2_000, 20_000),
    ],
    runs: (1, 5),
    command: "`stress-ng --cpu 1 --cpu-ops N`, `stress-ng --io 1 --io-ops N`",
    differences: "a fixed number of operations instead of 300 seconds, one worker at a time instead of 4, 2 and 2; sync(2) finds files \
                  in memory only; one processor",
    unproven: None,
    profile: None,
};

pub(super) const AB: Suite = Suite {
    name: "ab",
    title: "ab",
    sense: Sense::Time,
    packages: &["apache2-bin", "apache2-utils"],
    memory: 1536,
    columns: &[column("ab-100", "requests", 2_000, 20_000)],
    runs: (1, 5),
    command: "httpd (event), default settings; `ab -n N -c 100 http://127.0.0.1:8088/test.html`",
    differences: "a page of 4,096 bytes instead of a PHP script; fewer requests than 700,000; one processor",
    unproven: None,
    profile: None,
};

pub(super) const FIO: Suite = Suite {
    name: "fio",
    title: "fio",
    sense: Sense::Rate("reads and writes"),
    packages: &["fio"],
    memory: 3072,
    columns: &[column("fio", "reads and writes", 4_000, 40_000)],
    runs: (1, 5),
    command: "`fio fio-async.job`: {read, randread, write, randwrite, rw, randrw} in blocks of 4 and 32 KiB, four threads each, all at once, \
              through the page cache",
    differences: "smaller files, in the guest's memory: there is no disk whose statistics could be compared, so what is counted is divided \
                  by the reads and writes that fio has done",
    unproven: None,
    profile: None,
};

pub(super) const ALL: [&Suite; 3] = [&STRESS, &AB, &FIO];
