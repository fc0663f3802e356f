//! Building the tables of path rules, and deciding paths, by number of rules and by length of the path.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use varmor_benches::KEY;
use varmor_benches::rules::{SHAPES, Shape, deep, long, profile};
use varmor_common::abi::PERM_READ;
use varmor_common::compile::bpf::{Artefact, compile};
use varmor_common::matcher::{PathView, Walk};

const SIZES: &[u32] = &[1, 100, 10_000];
/// Rules in force while the path grows.
const RULES: u32 = 1_000;
/// Names of a path, up to the deepest that the kernel's half judges.
const DEPTHS: &[usize] = &[3, 9, 32, 64];
/// Bytes of a name, up to the longest that a filesystem has.
const LENGTHS: &[usize] = &[8, 64, 255];

fn build(criterion: &mut Criterion) {
    for shape in SHAPES {
        let mut group = criterion.benchmark_group(format!("matcher/build/{}", shape.name));
        // The largest take so long that more samples would say no more.
        group.sample_size(10);
        for &size in SIZES {
            let profile = profile(shape, size);
            let states = artefact(shape, size).states.len();
            group.bench_with_input(BenchmarkId::from_parameter(size), &profile, |bencher, profile| {
                bencher.iter(|| {
                    let artefact = compile(black_box(profile), KEY).expect("the shapes compile");
                    assert_eq!(artefact.states.len(), states);
                    artefact
                });
            });
        }
        group.finish();
    }
}

/// Paths of nine names, whatever the number of rules.
fn decide(criterion: &mut Criterion) {
    for shape in SHAPES {
        for &size in SIZES {
            let artefact = artefact(shape, size);
            let paths = [shape.denied, shape.allowed].map(str::to_owned);
            let group = format!("matcher/match/{}", shape.name);
            measure(criterion, &group, &artefact, size, &paths);
        }
    }
}

/// Paths of more and more names.
fn depth(criterion: &mut Criterion) {
    let artefact = artefact(named("folder"), RULES);
    for &names in DEPTHS {
        measure(criterion, "matcher/depth", &artefact, names, &deep(names));
    }
}

/// Paths with a longer and longer name, which the globs of names read byte by byte.
fn length(criterion: &mut Criterion) {
    let artefact = artefact(named("ending"), RULES);
    for &bytes in LENGTHS {
        measure(criterion, "matcher/length", &artefact, bytes, &long(bytes));
    }
}

/// Decides a path that a rule denies and one that no rule concerns.
fn measure(
    criterion: &mut Criterion,
    group: &str,
    artefact: &Artefact,
    parameter: impl std::fmt::Display,
    paths: &[String; 2],
) {
    let walk = Walk::new(artefact, KEY);
    let mut group = criterion.benchmark_group(group);
    for (path, answer, denied) in [(&paths[0], "denied", PERM_READ), (&paths[1], "allowed", 0)] {
        let view = PathView::from_path(path.as_bytes());
        assert_eq!(walk.files(&view, PERM_READ).denied, denied, "{path}");
        group.bench_with_input(BenchmarkId::new(answer, &parameter), &view, |bencher, view| {
            bencher.iter(|| {
                let verdict = walk.files(black_box(view), PERM_READ);
                assert_eq!(verdict.denied, denied);
                verdict
            });
        });
    }
    group.finish();
}

fn artefact(shape: &Shape, size: u32) -> Artefact {
    compile(&profile(shape, size), KEY).expect("the shapes compile")
}

fn named(name: &str) -> &'static Shape {
    let shape = SHAPES.iter().find(|shape| shape.name == name);
    shape.expect("the benches name shapes that there are")
}

criterion_group! {
    name = benches;
    config = varmor_benches::settings();
    targets = build, decide, depth, length
}
criterion_main!(benches);
