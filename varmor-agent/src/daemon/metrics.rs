//! The metrics, as text for Prometheus. Labels come from policies and from ourselves, never from a workload.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::state::{Policies, Status};
use super::view::{Snapshot, View};
use crate::events::Action;
use crate::reconcile::Load;

/// Seconds: AppArmor's parser takes tens of milliseconds, a first profile waits for the kernel's verifier.
const BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0,
];

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;

/// How loading went since the start.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    good: Counter,
    bad: Counter,
}

impl Default for Loads {
    fn default() -> Self {
        Self {
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            good: Counter::default(),
            bad: Counter::default(),
        }
    }
}

impl Loads {
    pub(super) fn add(&self, load: Load) {
        let labels = vec![("enforcer", load.enforcer.to_owned())];
        self.seconds
            .get_or_create(&labels)
            .observe(load.took.as_secs_f64());
        let counter = if load.is_loaded { &self.good } else { &self.bad };
        counter.inc();
    }
}

/// All metrics of this moment. They are made anew for each question, so what is gone has no series any more.
pub(super) fn text(view: &View) -> String {
    let snapshot = view.snapshot();
    let mut registry = Registry::default();
    loads(&mut registry, &snapshot, &view.loads);
    violations(&mut registry, &snapshot);
    let status = &snapshot.status;
    verdicts(&mut registry, status);
    losses(&mut registry, status);
    policies(&mut registry, &snapshot.policies);
    let containers = gauge(status.containers.len());
    registry.register(
        "varmor_protected_containers",
        "Containers under a BPF profile",
        containers,
    );
    if let Some(tasks) = status.counters.labelled_tasks {
        let tasks = gauge(usize::try_from(tasks).unwrap_or(usize::MAX));
        registry.register("varmor_protected_tasks", "Tasks under a BPF profile", tasks);
    }
    let silence = Gauge::<f64, AtomicU64>::default();
    silence.set(view.silence().as_secs_f64());
    registry.register(
        "varmor_agent_silence_seconds",
        "Time since the agent's loop went round",
        silence,
    );
    let ready = gauge(usize::from(snapshot.missing.is_empty()));
    registry.register("varmor_agent_ready", "1 if everything is applied", ready);
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a String cannot fail");
    text
}

fn loads(registry: &mut Registry, snapshot: &Snapshot, loads: &Loads) {
    let of_node = |count: u64| {
        let family = Counters::default();
        let labels = vec![("node_name", snapshot.node.clone())];
        family.get_or_create(&labels).inc_by(count);
        family
    };
    let (good, bad) = (loads.good.get(), loads.bad.get());
    for (name, help, count) in [
        (
            "varmor_profile_processing_success",
            "Profiles that were loaded",
            good,
        ),
        (
            "varmor_profile_processing_failure",
            "Profiles that were refused",
            bad,
        ),
        (
            "varmor_profile_change_count",
            "Profiles that were loaded or refused",
            good + bad,
        ),
    ] {
        registry.register(name, help, of_node(count));
    }
    registry.register(
        "varmor_profile_load_seconds",
        "Time from a changed policy's profile to its tables in force",
        loads.seconds.clone(),
    );
}

fn violations(registry: &mut Registry, snapshot: &Snapshot) {
    let family = Counters::default();
    for (series, count) in snapshot.tally.series() {
        let action = match series.action {
            Action::Denied => "denied",
            Action::Audit => "audit",
            Action::Allowed => "allowed",
            Action::AuditAllowed => "audit-allowed",
        };
        let labels = vec![
            ("policy_namespace", series.namespace.clone()),
            ("policy", series.policy.clone()),
            ("rule", series.rule.clone()),
            ("enforcer", series.enforcer.to_owned()),
            ("action", action.to_owned()),
        ];
        family.get_or_create(&labels).inc_by(count);
    }
    registry.register(
        "varmor_violations",
        "Violations by policy, rule, enforcer and action, as far as their events came through",
        family,
    );
}

/// Counted in the kernel, also where no event was written.
fn verdicts(registry: &mut Registry, status: &Status) {
    let family = Counters::default();
    for activity in &status.activity {
        for (verdict, count) in [("denied", activity.denied), ("audited", activity.audited)] {
            let labels = vec![
                ("profile", activity.profile.clone()),
                ("verdict", verdict.to_owned()),
            ];
            family.get_or_create(&labels).inc_by(count);
        }
    }
    registry.register(
        "varmor_profile_verdicts",
        "Verdicts of the BPF enforcer, of which every one is counted",
        family,
    );
    let faults = Counters::default();
    for (reason, count) in &status.counters.faults {
        let labels = vec![("reason", reason.clone())];
        faults.get_or_create(&labels).inc_by(*count);
    }
    registry.register(
        "varmor_faults",
        "Denials because an operation could not be judged",
        faults,
    );
}

fn losses(registry: &mut Registry, status: &Status) {
    let limited = status.activity.iter().map(|activity| activity.limited).sum();
    let lost = &status.records.lost;
    let mut kinds = BTreeMap::from([
        ("ring", status.counters.lost),
        ("rate-limit", limited),
        ("file", status.lost_lines),
        ("audit-overruns", lost.overruns),
        ("audit-log-gaps", lost.log_gaps),
        ("audit-kernel", lost.kernel),
        ("audit-queue", lost.queue),
        ("audit-unreadable", lost.unreadable),
        ("audit-gone", lost.gone),
    ]);
    for (output, count) in &status.lost_by_output {
        kinds.insert(output, *count);
    }
    let family = Counters::default();
    for (kind, count) in kinds {
        let labels = vec![("kind", kind.to_owned())];
        family.get_or_create(&labels).inc_by(count);
    }
    registry.register("varmor_event_losses", "Events that an output has not got", family);
}

fn policies(registry: &mut Registry, policies: &Policies) {
    let mut states: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for object in policies.files.iter().flat_map(|file| &file.objects) {
        if object.enforced != "not for BPF" {
            *states.entry(("BPF", &object.enforced)).or_default() += 1;
        }
        for held in &object.by_runtime {
            *states.entry((&held.enforcer, &held.state)).or_default() += 1;
        }
    }
    let family = Family::<Labels, Gauge>::default();
    for ((enforcer, state), count) in states {
        let labels = vec![("enforcer", enforcer.to_owned()), ("state", state.to_owned())];
        family
            .get_or_create(&labels)
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    registry.register("varmor_policies", "Policies by enforcer and state", family);
    let invalid = policies
        .files
        .iter()
        .filter(|file| file.state == "invalid")
        .count();
    registry.register(
        "varmor_invalid_policy_files",
        "Policy files that cannot be read",
        gauge(invalid),
    );
}

fn gauge(value: usize) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    gauge
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use varmor_common::abi;
    use varmor_common::profile::Origin;

    use super::*;
    use crate::daemon::state::{PolicyFile, PolicyState};
    use crate::enforcer::{Activity, Resolution};
    use crate::events::{Event, Node, Tally, Violation, raw_event};

    #[test]
    fn every_metric_is_in_the_text() {
        let view = View::new("node-1");
        view.loaded([
            Load {
                enforcer: "BPF",
                is_loaded: true,
                took: Duration::from_millis(4),
            },
            Load {
                enforcer: "AppArmor",
                is_loaded: false,
                took: Duration::from_millis(90),
            },
        ]);
        let event = Event::try_from(&raw_event(abi::EVENT_FILE, abi::operation::OPEN, "/a")).unwrap();
        let resolution = Resolution {
            rule: Some("disable-write-etc".to_owned()),
            origin: Some(Origin {
                policy: "VarmorPolicy demo/web".to_owned(),
                field: String::new(),
            }),
            ..Resolution::default()
        };
        let mut tally = Tally::default();
        tally.add(&Violation::new(
            event,
            resolution,
            None,
            &Node::default(),
            1,
            SystemTime::now(),
        ));
        view.update(|snapshot| {
            snapshot.tally = Arc::new(tally);
            snapshot.status = Arc::new(Status {
                activity: vec![Activity {
                    profile: "varmor-demo-web".to_owned(),
                    denied: 7,
                    limited: 2,
                    ..Activity::default()
                }],
                lost_by_output: vec![("otlp".to_owned(), 5)],
                lost_lines: 1,
                ..Status::default()
            });
            snapshot.policies = Arc::new(Policies {
                files: vec![PolicyFile {
                    state: "ok".to_owned(),
                    objects: vec![PolicyState {
                        enforced: "current".to_owned(),
                        ..PolicyState::default()
                    }],
                    ..PolicyFile::default()
                }],
            });
        });
        let text = text(&view);
        for line in [
            "varmor_profile_processing_success_total{node_name=\"node-1\"} 1",
            "varmor_profile_processing_failure_total{node_name=\"node-1\"} 1",
            "varmor_profile_change_count_total{node_name=\"node-1\"} 2",
            "varmor_profile_load_seconds_bucket{le=\"0.005\",enforcer=\"BPF\"} 1",
            "varmor_profile_verdicts_total{profile=\"varmor-demo-web\",verdict=\"denied\"} 7",
            "varmor_event_losses_total{kind=\"rate-limit\"} 2",
            "varmor_event_losses_total{kind=\"otlp\"} 5",
            "varmor_event_losses_total{kind=\"file\"} 1",
            "varmor_policies{enforcer=\"BPF\",state=\"current\"} 1",
            "varmor_protected_containers 0",
            "varmor_agent_ready 0",
            "varmor_violations_total{policy_namespace=\"demo\",policy=\"web\",rule=\"disable-write-etc\",enforcer=\"BPF\",action=\"denied\"} 1",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
    }

    #[test]
    fn label_values_cannot_break_a_line() {
        let view = View::new("a\"\nb");
        assert!(text(&view).contains(r#"node_name="a\"\nb""#));
    }
}
