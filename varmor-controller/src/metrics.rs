//! What the controller counts, as text for Prometheus (format 0.0.4), and whether it is alive and ready.

mod admission;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use self::admission::Admissions;
use crate::admission::Served;

/// Seconds.
const BUCKETS: [f64; 8] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];

/// A part that has not moved for so long is stuck.
const STUCK: Duration = Duration::from_mins(2);

/// The counters.
#[derive(Debug, Default)]
pub struct Metrics {
    reconciled: AtomicU64,
    failed: AtomicU64,
    micros: AtomicU64,
    buckets: [AtomicU64; BUCKETS.len()],
    reports: AtomicU64,
    refused: AtomicU64,
    status_writes: AtomicU64,
    status_failures: AtomicU64,
    watch_failures: AtomicU64,
    is_leader: AtomicBool,
    is_synced: AtomicBool,
    admissions: Admissions,
    /// Parts that say now and then that they move.
    pulses: Mutex<BTreeMap<&'static str, Instant>>,
}

/// Numbers that are asked for when somebody looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    pub policies: usize,
    pub profiles: usize,
    pub nodes: usize,
    pub lost: usize,
    pub queue: usize,
}

impl Metrics {
    pub fn reconciled(&self, took: Duration, is_good: bool) {
        let counter = if is_good { &self.reconciled } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(
            u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        let seconds = took.as_secs_f64();
        for (bucket, _) in self
            .buckets
            .iter()
            .zip(BUCKETS)
            .filter(|(_, limit)| seconds <= *limit)
        {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn admission(&self, served: &Served<'_>) {
        self.admissions.add(served);
    }

    pub fn report(&self, is_accepted: bool) {
        let counter = if is_accepted { &self.reports } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn status_write(&self, is_good: bool) {
        let counter = if is_good {
            &self.status_writes
        } else {
            &self.status_failures
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn watch_failure(&self) {
        self.watch_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub fn lead(&self) {
        self.is_leader.store(true, Ordering::Relaxed);
    }

    pub fn synced(&self) {
        self.is_synced.store(true, Ordering::Relaxed);
    }

    /// A part moves.
    pub fn pulse(&self, part: &'static str) {
        self.pulses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(part, Instant::now());
    }

    /// The part that has not moved for long.
    fn stuck(&self, now: Instant) -> Option<&'static str> {
        let pulses = self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
        pulses
            .iter()
            .find(|(_, at)| now.saturating_duration_since(**at) > STUCK)
            .map(|(part, _)| *part)
    }

    /// Why this replica does not do what is its to do. One that does not lead is ready: it waits, and serves admissions.
    fn unready(&self) -> Option<&'static str> {
        let waits = self.is_leader.load(Ordering::Relaxed) && !self.is_synced.load(Ordering::Relaxed);
        waits.then_some("the policies, profiles, workloads or agents of the cluster are not read yet")
    }

    /// All metrics of this moment.
    #[must_use]
    pub fn text(&self, gauges: Gauges) -> String {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (good, bad) = (of(&self.reconciled), of(&self.failed));
        let mut text = String::new();
        for (name, help, value) in [
            (
                "varmor_controller_reconcile_success_total",
                "Looks at policies that ended well",
                good,
            ),
            (
                "varmor_controller_reconcile_failure_total",
                "Looks at policies that failed and are repeated",
                bad,
            ),
            (
                "varmor_controller_reports_total",
                "Reports of nodes that were accepted",
                of(&self.reports),
            ),
            (
                "varmor_controller_reports_refused_total",
                "Reports that were refused",
                of(&self.refused),
            ),
            (
                "varmor_controller_status_writes_total",
                "Statuses that were written",
                of(&self.status_writes),
            ),
            (
                "varmor_controller_status_write_failures_total",
                "Statuses that could not be written",
                of(&self.status_failures),
            ),
            (
                "varmor_controller_watch_failures_total",
                "Watches that broke and were begun anew",
                of(&self.watch_failures),
            ),
        ] {
            family(&mut text, name, help, "counter");
            line(&mut text, format_args!("{name} {value}"));
        }
        for (name, help, value) in [
            (
                "varmor_controller_leader",
                "1 if this replica leads",
                usize::from(self.is_leader.load(Ordering::Relaxed)),
            ),
            (
                "varmor_controller_policies",
                "Policies of both kinds",
                gauges.policies,
            ),
            ("varmor_controller_profiles", "ArmorProfiles", gauges.profiles),
            ("varmor_controller_nodes", "Nodes with an agent", gauges.nodes),
            (
                "varmor_controller_nodes_lost",
                "Nodes whose agent does not report",
                gauges.lost,
            ),
            (
                "varmor_controller_queue_length",
                "Policies that wait for a look",
                gauges.queue,
            ),
        ] {
            family(&mut text, name, help, "gauge");
            line(&mut text, format_args!("{name} {value}"));
        }
        let name = "varmor_controller_reconcile_seconds";
        family(&mut text, name, "Time of a look at a policy", "histogram");
        for (bucket, limit) in self.buckets.iter().zip(BUCKETS) {
            line(
                &mut text,
                format_args!("{name}_bucket{{le=\"{limit}\"}} {}", of(bucket)),
            );
        }
        line(
            &mut text,
            format_args!("{name}_bucket{{le=\"+Inf\"}} {}", good + bad),
        );
        let micros = of(&self.micros);
        line(
            &mut text,
            format_args!("{name}_sum {}.{:06}", micros / 1_000_000, micros % 1_000_000),
        );
        line(&mut text, format_args!("{name}_count {}", good + bad));
        self.admissions.write(&mut text);
        text
    }
}

/// `GET /metrics`, `/healthz`, `/readyz`.
pub fn router(metrics: Arc<Metrics>, gauges: impl Fn() -> Gauges + Clone + Send + Sync + 'static) -> Router {
    let (alive, ready) = (Arc::clone(&metrics), Arc::clone(&metrics));
    let format = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Router::new()
        .route(
            "/metrics",
            get(move || async move { (format, metrics.text(gauges())) }),
        )
        .route(
            "/healthz",
            get(move || async move {
                told(
                    alive
                        .stuck(Instant::now())
                        .map(|part| format!("{part} has not moved for {STUCK:?}")),
                )
            }),
        )
        .route(
            "/readyz",
            get(move || async move { told(ready.unready().map(str::to_owned)) }),
        )
}

fn told(problem: Option<String>) -> Response {
    match problem {
        None => "ok".into_response(),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, problem).into_response(),
    }
}

fn family(text: &mut String, name: &str, help: &str, kind: &str) {
    line(text, format_args!("# HELP {name} {help}"));
    line(text, format_args!("# TYPE {name} {kind}"));
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_in_the_text() {
        let metrics = Metrics::default();
        metrics.reconciled(Duration::from_millis(7), true);
        metrics.reconciled(Duration::from_secs(9), false);
        metrics.report(true);
        let gauges = Gauges {
            nodes: 3,
            lost: 1,
            ..Gauges::default()
        };
        let text = metrics.text(gauges);
        for line in [
            "varmor_controller_reconcile_success_total 1",
            "varmor_controller_reconcile_failure_total 1",
            "varmor_controller_reports_total 1",
            "varmor_controller_nodes_lost 1",
            "varmor_controller_reconcile_seconds_bucket{le=\"0.01\"} 1",
            "varmor_controller_reconcile_seconds_bucket{le=\"+Inf\"} 2",
            "varmor_controller_reconcile_seconds_sum 9.007000",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is missing in {text}");
        }
    }

    #[test]
    fn health_tells_the_truth() {
        let metrics = Metrics::default();
        assert!(metrics.unready().is_none(), "a replica that waits is ready");
        metrics.lead();
        assert!(
            metrics.unready().is_some(),
            "a leader that has not read the cluster is not"
        );
        metrics.synced();
        assert!(metrics.unready().is_none());
        metrics.pulse("the status writer");
        assert!(metrics.stuck(Instant::now()).is_none());
        let later = Instant::now() + STUCK + Duration::from_secs(1);
        assert_eq!(metrics.stuck(later), Some("the status writer"));
    }
}
