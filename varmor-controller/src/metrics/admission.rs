//! What is counted of admission, under vArmor's names: requests about workloads and pods, not those about policies.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{family, line};
use crate::admission::{Outcome, Served};

/// Seconds, as in vArmor.
const BUCKETS: [f64; 7] = [0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0];
/// What the webhooks are registered for. Whoever reaches the port can ask about anything, and each label is memory.
const KINDS: [&str; 4] = ["DaemonSet", "Deployment", "Pod", "StatefulSet"];
const OPERATIONS: [&str; 2] = ["CREATE", "UPDATE"];
const OTHER: &str = "other";

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Admissions {
    /// By kind, operation and whether the object was changed.
    served: Mutex<BTreeMap<(&'static str, &'static str, bool), Latency>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Latency {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

impl Admissions {
    pub(super) fn add(&self, served: &Served<'_>) {
        if served.webhook != "mutate" {
            return;
        }
        let key = (
            known(&KINDS, served.kind),
            known(&OPERATIONS, served.operation),
            served.outcome == Outcome::Mutated,
        );
        let mut all = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let latency = all.entry(key).or_default();
        let seconds = served.elapsed.as_secs_f64();
        for (bucket, limit) in latency.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= limit);
        }
        latency.count += 1;
        latency.seconds += seconds;
    }

    pub(super) fn write(&self, text: &mut String) {
        let all = self.served.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let count = |wanted: Option<bool>| -> u64 {
            all.iter()
                .filter(|((_, _, mutated), _)| wanted.is_none_or(|wanted| wanted == *mutated))
                .map(|(_, latency)| latency.count)
                .sum()
        };
        for (name, help, value) in [
            (
                "varmor_admission_requests_total",
                "Questions about workloads and pods",
                count(None),
            ),
            (
                "varmor_mutated_requests_total",
                "Objects that were changed",
                count(Some(true)),
            ),
            (
                "varmor_non_mutated_requests_total",
                "Objects that were left as they are",
                count(Some(false)),
            ),
        ] {
            family(text, name, help, "counter");
            line(text, format_args!("{name} {value}"));
        }
        let name = "varmor_webhook_latency";
        family(text, name, "Seconds until an answer", "histogram");
        for ((kind, operation, mutated), latency) in &all {
            let labels = format!(
                "request_kind=\"{kind}\",request_operation=\"{operation}\",request_mutated=\"{mutated}\""
            );
            for (bucket, limit) in latency.buckets.iter().zip(BUCKETS) {
                line(
                    text,
                    format_args!("{name}_bucket{{{labels},le=\"{limit}\"}} {bucket}"),
                );
            }
            line(
                text,
                format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {}", latency.count),
            );
            line(
                text,
                format_args!("{name}_sum{{{labels}}} {:.6}", latency.seconds),
            );
            line(text, format_args!("{name}_count{{{labels}}} {}", latency.count));
        }
    }
}

fn known(all: &[&'static str], word: &str) -> &'static str {
    all.iter().find(|one| **one == word).copied().unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn served(webhook: &'static str, kind: &'static str, outcome: Outcome) -> Served<'static> {
        Served {
            webhook,
            kind,
            operation: "CREATE",
            outcome,
            elapsed: Duration::from_millis(700),
        }
    }

    #[test]
    fn requests_are_counted_under_the_names_of_varmor() {
        let admissions = Admissions::default();
        admissions.add(&served("mutate", "Pod", Outcome::Mutated));
        admissions.add(&served("mutate", "Invented", Outcome::Admitted));
        admissions.add(&served("validate", "VarmorPolicy", Outcome::Refused));
        let mut text = String::new();
        admissions.write(&mut text);
        let labels = "request_kind=\"Pod\",request_operation=\"CREATE\",request_mutated=\"true\"";
        for expected in [
            "varmor_admission_requests_total 2".to_owned(),
            "varmor_mutated_requests_total 1".to_owned(),
            "varmor_non_mutated_requests_total 1".to_owned(),
            format!("varmor_webhook_latency_bucket{{{labels},le=\"0.5\"}} 0"),
            format!("varmor_webhook_latency_bucket{{{labels},le=\"1\"}} 1"),
            format!("varmor_webhook_latency_count{{{labels}}} 1"),
        ] {
            assert!(
                text.lines().any(|one| one == expected),
                "{expected} is missing in {text}"
            );
        }
        assert!(text.contains("request_kind=\"other\"") && !text.contains("Invented"));
    }
}
