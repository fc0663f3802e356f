//! What the worker lets others see of it: its last reports, and that it is alive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::metrics::Loads;
use super::state::{Policies, Status};
use crate::events::Tally;
use crate::reconcile::Load;

/// The worker's loop turns at least once a second; loading a large profile may hold it for some seconds. What is
/// silent for longer than this is not healthy.
pub(super) const STALE: Duration = Duration::from_secs(30);

/// Shared by the worker, which writes, and the services, which read.
#[derive(Debug)]
pub(super) struct View {
    started: Instant,
    /// Milliseconds after the start.
    beat: AtomicU64,
    snapshot: Mutex<Snapshot>,
    pub(super) loads: Loads,
}

/// What the worker reported last.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) node: String,
    pub(super) status: Arc<Status>,
    pub(super) policies: Arc<Policies>,
    pub(super) tally: Arc<Tally>,
    /// What stands between here and ready; empty = ready.
    pub(super) missing: Vec<String>,
}

impl View {
    pub(super) fn new(node: &str) -> Arc<Self> {
        let snapshot = Snapshot {
            node: node.to_owned(),
            missing: vec!["policies were not read yet".to_owned()],
            ..Snapshot::default()
        };
        Arc::new(Self {
            started: Instant::now(),
            beat: AtomicU64::new(0),
            snapshot: Mutex::new(snapshot),
            loads: Loads::default(),
        })
    }

    /// The loop of the worker goes round.
    pub(super) fn beat(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.beat.store(now, Ordering::Relaxed);
    }

    /// How long ago the loop went round.
    pub(super) fn silence(&self) -> Duration {
        let beat = Duration::from_millis(self.beat.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(beat)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.silence() < STALE
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.snapshot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.snapshot.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn loaded(&self, loads: impl IntoIterator<Item = Load>) {
        for load in loads {
            self.loads.add(load);
        }
    }

    #[cfg(test)]
    pub(super) fn silent_for(silence: Duration) -> Arc<Self> {
        let mut view = Arc::into_inner(Self::new("node-1")).unwrap();
        view.started = Instant::now().checked_sub(silence).unwrap();
        Arc::new(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_without_a_beat_is_not_alive() {
        let view = View::silent_for(STALE * 2);
        assert!(!view.is_alive());
        view.beat();
        assert!(view.is_alive());
    }

    #[test]
    fn the_last_report_is_seen() {
        let view = View::new("node-1");
        assert_eq!(view.snapshot().missing.len(), 1);
        view.update(|snapshot| snapshot.missing.clear());
        assert!(view.snapshot().missing.is_empty());
        assert_eq!(view.snapshot().node, "node-1");
    }
}
