//! Says what is going on, how far it is and how long it took.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

/// A known number of steps with a title.
pub(crate) struct Progress {
    title: &'static str,
    done: usize,
    total: usize,
    start: Instant,
}

impl Progress {
    pub(crate) fn new(title: &'static str, total: usize) -> Self {
        Self {
            title,
            done: 0,
            total,
            start: Instant::now(),
        }
    }

    /// Runs one step; its result is passed on, with the step's name added to an error.
    pub(crate) fn step<T>(&mut self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.done += 1;
        let label = format!("{} {}/{}: {what}", self.title, self.done, self.total);
        eprintln!("[{label}]");
        timed(&label, work)
    }

    /// Says how long all of it took.
    pub(crate) fn finish(self) {
        eprintln!("[{}: done in {}]", self.title, seconds(self.start.elapsed()));
    }
}

/// Runs `work`; says every ten seconds that it still does, and at the end how long it took when that was
/// longer than two seconds.
pub(crate) fn timed<T>(label: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let (end, ended) = mpsc::channel::<()>();
    let result = thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(Duration::from_secs(10)) == Err(RecvTimeoutError::Timeout) {
                eprintln!("[{label}: still running, {}]", seconds(start.elapsed()));
            }
        });
        let result = work();
        drop(end);
        result
    });
    if start.elapsed() > Duration::from_secs(2) {
        let state = if result.is_ok() { "done" } else { "failed" };
        eprintln!("[{label}: {state} in {}]", seconds(start.elapsed()));
    }
    result.with_context(|| label.to_owned())
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
