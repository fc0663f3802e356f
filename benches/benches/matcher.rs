//! Building the tables, and deciding a path of nine names, at 1 to 10,000 rules of each shape.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use varmor_benches::{SHAPES, profile};
use varmor_common::abi::PERM_READ;
use varmor_common::compile::bpf::compile;
use varmor_common::matcher::{PathView, Walk};

const KEY: u64 = 0x5eed;
const SIZES: &[u32] = &[1, 10, 100, 1_000, 10_000];

fn build(criterion: &mut Criterion) {
    for shape in SHAPES {
        let mut group = criterion.benchmark_group(format!("build/{}", shape.name));
        group.sample_size(10);
        for &size in SIZES {
            let profile = profile(shape, size);
            group.bench_with_input(BenchmarkId::from_parameter(size), &profile, |bencher, profile| {
                bencher.iter(|| compile(black_box(profile), KEY).expect("the shapes compile"));
            });
        }
        group.finish();
    }
}

fn decide(criterion: &mut Criterion) {
    for shape in SHAPES {
        let mut group = criterion.benchmark_group(format!("match/{}", shape.name));
        for &size in SIZES {
            let artefact = compile(&profile(shape, size), KEY).expect("the shapes compile");
            let walk = Walk::new(&artefact, KEY);
            for (answer, path) in [("denied", shape.denied), ("allowed", shape.allowed)] {
                let path = PathView::from_path(path.as_bytes());
                let denied = if answer == "denied" { PERM_READ } else { 0 };
                assert_eq!(
                    walk.files(&path, PERM_READ).denied,
                    denied,
                    "{} at {size}",
                    shape.name
                );
                group.bench_with_input(BenchmarkId::new(answer, size), &path, |bencher, path| {
                    bencher.iter(|| walk.files(black_box(path), PERM_READ));
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, build, decide);
criterion_main!(benches);
