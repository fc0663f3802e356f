//! From the reports of 400 nodes to the statuses of 12,800 policies.

use std::hint::black_box;
use std::time::Instant;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use k8s_openapi::jiff::Timestamp;
use varmor_benches::cluster::{
    Health, NODES, Sums, TARGETS, TARGETS_PER_NODE, governed, judge, nodes, reports,
};
use varmor_common::report::NodeReport;
use varmor_controller::status::Nodes;

/// Reports as they come over the network.
fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("status/decode");
    for (name, health, problems) in [
        ("sound", Health::Sound, 0),
        ("failing", Health::Failing, TARGETS_PER_NODE),
    ] {
        let text = serde_json::to_vec(&reports(health)[0]).expect("a report is JSON");
        group.bench_with_input(BenchmarkId::from_parameter(name), &text, |bencher, text| {
            bencher.iter(|| {
                let report: NodeReport =
                    serde_json::from_slice(black_box(text)).expect("the report can be read");
                assert_eq!(report.exceptions.len(), problems);
                report
            });
        });
    }
    group.finish();
}

/// Every node speaks once.
fn hear(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("status/hear");
    let now = Instant::now();
    let (sound, failing) = (reports(Health::Sound), reports(Health::Failing));
    for (name, said) in [("sound-again", &sound), ("failing-again", &failing)] {
        let mut nodes = nodes(now);
        assert_eq!(news(&mut nodes, said.clone(), now), NODES);
        group.throughput(Throughput::Elements(count(NODES)));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || said.clone(),
                |said| assert_eq!(news(&mut nodes, said, now), 0),
                BatchSize::LargeInput,
            );
        });
    }
    let mut nodes = nodes(now);
    group.throughput(Throughput::Elements(count(2 * NODES)));
    group.bench_function("every-target-fails-and-recovers", |bencher| {
        bencher.iter_batched(
            || (failing.clone(), sound.clone()),
            |(failing, sound)| {
                assert_eq!(news(&mut nodes, failing, now), NODES);
                assert_eq!(news(&mut nodes, sound, now), NODES);
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

/// What one look at everything costs: the census of the nodes, then the statuses of each policy and its profile.
fn look(criterion: &mut Criterion) {
    let now = Instant::now();
    let everything = governed(TARGETS);
    for (name, health) in [("sound", Health::Sound), ("failing", Health::Failing)] {
        let mut nodes = nodes(now);
        assert_eq!(news(&mut nodes, reports(health), now), NODES);
        let mut group = criterion.benchmark_group(format!("status/look/{name}"));
        group.sample_size(10);
        for targets in [1, TARGETS] {
            let policies = &everything[..targets];
            let expected = match health {
                Health::Sound => Sums {
                    ready: targets,
                    loaded: targets * NODES,
                    named: 0,
                },
                Health::Failing => Sums {
                    ready: 0,
                    loaded: targets * (NODES - 1),
                    named: targets,
                },
            };
            group.throughput(Throughput::Elements(count(targets)));
            group.bench_function(BenchmarkId::from_parameter(targets), |bencher| {
                bencher.iter(|| {
                    let census = nodes.census(now);
                    let sums = judge(black_box(policies), &nodes, &census, Timestamp::UNIX_EPOCH);
                    assert_eq!(sums, expected);
                });
            });
        }
        group.finish();
    }
}

/// Hears the reports; how many of them were news.
fn news(nodes: &mut Nodes, reports: Vec<NodeReport>, now: Instant) -> usize {
    let heard = reports.into_iter().map(|report| nodes.hear(report, now));
    heard.filter(|is_news| *is_news).count()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

criterion_group! {
    name = benches;
    config = varmor_benches::settings();
    targets = decode, hear, look
}
criterion_main!(benches);
