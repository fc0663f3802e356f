//! Reading policies, and checking them as `varmor check` does, at 1 to 10,000 rules.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use varmor_benches::policies::{LANGUAGES, built_in, built_in_count, language, numbered, of_fleet};
use varmor_common::analysis::lint::lint;
use varmor_common::compile::{apparmor, bpf};
use varmor_common::policy::{self, Diagnostic, Enforcers, Loaded};
use varmor_common::profile::{self, NodeFacts};

const FILE: &str = "bench.yaml";
const SIZES: &[u32] = &[1, 10, 100, 1_000];
const MANY: u32 = 10_000;

/// From bytes to typed objects, which includes the check against the schema.
fn parse(criterion: &mut Criterion) {
    for language in LANGUAGES {
        let mut group = criterion.benchmark_group(format!("policy/parse/{}", language.name));
        group.sample_size(10);
        for &size in SIZES.iter().chain(&[MANY]) {
            let text = numbered(language, size);
            group.throughput(Throughput::Bytes(bytes(&text)));
            group.bench_with_input(BenchmarkId::from_parameter(size), &text, |bencher, text| {
                bencher.iter(|| accepted(black_box(text)));
            });
        }
        group.finish();
    }
}

/// A policy whose last rule has a mistake: the diagnostic names its line.
fn refuse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("policy/refuse");
    group.sample_size(10);
    for &size in SIZES {
        let good = numbered(language(Enforcers::BPF), size);
        let mut lines: Vec<&str> = good.lines().collect();
        let last = lines.pop().unwrap_or_default().replace("write]", "wrote]");
        lines.push(&last);
        let (text, line) = (lines.join("\n"), lines.len());
        group.bench_with_input(BenchmarkId::from_parameter(size), &text, |bencher, text| {
            bencher.iter(|| {
                let loaded = policy::load(FILE, black_box(text.as_bytes()));
                let [error] = &loaded.diagnostics[..] else {
                    panic!("one mistake makes one diagnostic: {:?}", loaded.diagnostics);
                };
                assert_eq!(usize::try_from(error.line), Ok(line));
                loaded
            });
        });
    }
    group.finish();
}

/// Everything that `varmor check` says: what cannot be read, what is odd, what an enforcer cannot hold.
fn check(criterion: &mut Criterion) {
    for language in LANGUAGES {
        let mut group = criterion.benchmark_group(format!("policy/check/{}", language.name));
        group.sample_size(10);
        for &size in SIZES {
            let text = numbered(language, size);
            assert_eq!(found(&text), [], "a policy of {} has no problems", language.name);
            group.bench_with_input(BenchmarkId::from_parameter(size), &text, |bencher, text| {
                bencher.iter(|| assert!(found(black_box(text)).is_empty()));
            });
        }
        let text = built_in(language);
        assert!(!found(&text).iter().any(Diagnostic::is_error));
        let id = format!("built-in-{}", built_in_count(language));
        group.bench_with_input(BenchmarkId::from_parameter(id), &text, |bencher, text| {
            bencher.iter(|| assert!(!found(black_box(text)).iter().any(Diagnostic::is_error)));
        });
        group.finish();
    }
}

/// The policies of a thousand workloads, one after the other; `varmor check` shares them out among the processors.
fn check_fleet(criterion: &mut Criterion) {
    let fleet: Vec<String> = (0..1_000).map(of_fleet).collect();
    let mut group = criterion.benchmark_group("policy/check");
    group.sample_size(10);
    group.throughput(Throughput::Elements(1_000));
    group.bench_function("fleet-1000", |bencher| {
        bencher.iter(|| {
            for text in &fleet {
                assert!(!found(black_box(text)).iter().any(Diagnostic::is_error));
            }
        });
    });
    group.finish();
}

fn accepted(text: &str) -> Loaded {
    let loaded = policy::load(FILE, text.as_bytes());
    assert_eq!((loaded.documents.len(), loaded.diagnostics.len()), (1, 0));
    loaded
}

fn found(text: &str) -> Vec<Diagnostic> {
    let loaded = policy::load(FILE, text.as_bytes());
    let mut all = loaded.diagnostics;
    let [document] = &loaded.documents[..] else {
        panic!("the text is one policy");
    };
    let built = profile::build(document, &NodeFacts::default());
    all.extend(built.diagnostics);
    all.extend(lint(document, built.profile.as_ref()));
    if let Some(profile) = &built.profile {
        all.extend(bpf::diagnose(document, profile));
        all.extend(apparmor::diagnose(document, profile));
    }
    all
}

fn bytes(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

criterion_group! {
    name = benches;
    config = varmor_benches::settings();
    targets = parse, refuse, check, check_fleet
}
criterion_main!(benches);
