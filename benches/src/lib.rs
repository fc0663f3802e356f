//! What the benches have in common: how they measure, and what they measure with.
//!
//! Times of a process on a machine that does other things as well show a trend and are no claim: what enforcement costs
//! is counted in instructions, in a guest (`cargo xtask bench hooks`). Every bench asserts its answer before it is timed
//! and, where that costs nothing beside the work, each time; a wrong answer ends the run.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod policies;
pub mod records;
pub mod rules;

use std::time::Duration;

use criterion::Criterion;

/// Any key will do: decisions do not depend on it, and times hardly.
pub const KEY: u64 = 0x5eed;

/// How all benches measure.
#[must_use]
pub fn settings() -> Criterion {
    Criterion::default()
        // Less than this is the machine and not the code.
        .noise_threshold(0.05)
        .sample_size(30)
        .measurement_time(Duration::from_secs(3))
        // The reports draw the resamples, which takes longer than to measure if there are as many as by default.
        .nresamples(10_000)
}
