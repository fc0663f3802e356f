//! Says what is going on, how far it is and how long it took.

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::process;

/// How many pieces of work are nested now: only the innermost one reports that it still runs.
static DEPTH: AtomicUsize = AtomicUsize::new(0);
/// The log that the running command writes; its last line says how far that command is.
static LOG: Mutex<Option<PathBuf>> = Mutex::new(None);

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

/// Runs `work`; says from time to time that it still does, and at the end how long it took when that was longer
/// than two seconds.
pub(crate) fn timed<T>(label: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let depth = DEPTH.fetch_add(1, Ordering::Relaxed) + 1;
    let (end, ended) = mpsc::channel::<()>();
    let result = thread::scope(|scope| {
        scope.spawn(move || {
            let mut pause = Duration::from_secs(5);
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = (pause * 2).min(Duration::from_mins(1));
                if DEPTH.load(Ordering::Relaxed) == depth {
                    eprintln!("[{label}: {}{}]", seconds(start.elapsed()), last_line());
                }
            }
        });
        let result = work();
        drop(end);
        result
    });
    DEPTH.fetch_sub(1, Ordering::Relaxed);
    if start.elapsed() > Duration::from_secs(2) {
        let state = if result.is_ok() { "done" } else { "failed" };
        eprintln!("[{label}: {state} in {}]", seconds(start.elapsed()));
    }
    result.with_context(|| label.to_owned())
}

/// Names the log of the command that runs now, or none.
pub(crate) fn follow(log: Option<&Path>) {
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = log.map(Path::to_path_buf);
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn last_line() -> String {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let line = log.map(|log| process::tail(&log, 1)).unwrap_or_default();
    let line: String = line.trim().chars().filter(|c| !c.is_control()).take(80).collect();
    if line.is_empty() {
        line
    } else {
        format!(", {line}")
    }
}
