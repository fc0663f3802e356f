//! From a policy to its profile, and from that to what each enforcer gets.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use varmor_benches::KEY;
use varmor_benches::policies::{LANGUAGES, built_in, document, language, numbered};
use varmor_common::abi::PERM_READ;
use varmor_common::compile::apparmor::{self, Features};
use varmor_common::compile::bpf;
use varmor_common::compile::seccomp::{self, Inputs};
use varmor_common::matcher::{PathView, Walk};
use varmor_common::policy::{Document, Enforcers};
use varmor_common::profile::{self, NodeFacts, Profile};

const SIZES: &[u32] = &[1, 10, 100, 1_000];

/// Calls `measure` with policies of more and more rules, and with one of all built-in rules.
fn each(
    criterion: &mut Criterion,
    stage: &str,
    enforcer: Enforcers,
    measure: fn(&mut BenchmarkGroup<'_, WallTime>, &str, &Document, Option<u32>),
) {
    let language = language(enforcer);
    let mut group = criterion.benchmark_group(format!("compile/{stage}/{}", language.name));
    group.sample_size(10);
    for &size in SIZES {
        let document = document(&numbered(language, size));
        measure(&mut group, &size.to_string(), &document, Some(size));
    }
    measure(&mut group, "built-in", &document(&built_in(language)), None);
    group.finish();
}

/// Policy -> profile. With Seccomp the filter is a part of that.
fn profiles(criterion: &mut Criterion) {
    for language in LANGUAGES {
        each(
            criterion,
            "profile",
            language.enforcer,
            |group, id, document, _| {
                let rules = weight(&profile(document));
                assert!(rules > 0);
                group.bench_function(BenchmarkId::from_parameter(id), |bencher| {
                    bencher.iter(|| {
                        let profile = profile(black_box(document));
                        assert_eq!(weight(&profile), rules);
                        profile
                    });
                });
            },
        );
    }
}

fn to_bpf(criterion: &mut Criterion) {
    each(
        criterion,
        "enforcer",
        Enforcers::BPF,
        |group, id, document, size| {
            let profile = profile(document);
            let part = profile.part_for(Enforcers::BPF).expect("the policy names BPF");
            let artefact = bpf::compile(&part, KEY).expect("the policy compiles");
            if let Some(size) = size {
                let walk = Walk::new(&artefact, KEY);
                let denied = |tenant: u32| {
                    let path = format!("/srv/tenant{tenant}/d/file");
                    walk.files(&PathView::from_path(path.as_bytes()), PERM_READ)
                        .denied
                };
                assert_eq!((denied(size - 1), denied(size)), (PERM_READ, 0));
            }
            let (states, points) = (artefact.states.len(), artefact.points.len());
            group.bench_function(BenchmarkId::from_parameter(id), |bencher| {
                bencher.iter(|| {
                    let artefact = bpf::compile(black_box(&part), KEY).expect("the policy compiles");
                    assert_eq!((artefact.states.len(), artefact.points.len()), (states, points));
                    artefact
                });
            });
        },
    );
}

fn to_apparmor(criterion: &mut Criterion) {
    each(
        criterion,
        "enforcer",
        Enforcers::APPARMOR,
        |group, id, document, size| {
            let profile = profile(document);
            let compile = |profile: &Profile| {
                let artefact = apparmor::compile(profile, Features::ALL).expect("the policy compiles");
                artefact.expect("the policy names AppArmor")
            };
            let text = compile(&profile).text;
            if let Some(size) = size {
                let has = |tenant: u32| text.contains(&format!("\"/srv/tenant{tenant}/**\""));
                let plain = |tenant: u32| text.contains(&format!(" /srv/tenant{tenant}/** "));
                let holds = |tenant: u32| has(tenant) || plain(tenant);
                assert!(holds(size - 1) && !holds(size), "{text}");
            }
            group.bench_function(BenchmarkId::from_parameter(id), |bencher| {
                bencher.iter(|| {
                    let artefact = compile(black_box(&profile));
                    assert_eq!(artefact.text.len(), text.len());
                    artefact
                });
            });
        },
    );
}

fn to_seccomp(criterion: &mut Criterion) {
    each(
        criterion,
        "enforcer",
        Enforcers::SECCOMP,
        |group, id, document, size| {
            let compile = |document: &Document| {
                let compiled = seccomp::compile(document, Inputs::default());
                compiled.profile.expect("the policy compiles")
            };
            let rules = compile(document).rules();
            match size {
                Some(size) => assert_eq!(u32::try_from(rules), Ok(size)),
                None => assert!(rules > 0),
            }
            group.bench_function(BenchmarkId::from_parameter(id), |bencher| {
                bencher.iter(|| {
                    let filter = compile(black_box(document));
                    assert_eq!(filter.rules(), rules);
                    filter
                });
            });
        },
    );
}

fn profile(document: &Document) -> Profile {
    let built = profile::build(document, &NodeFacts::default());
    built.profile.expect("the policy is valid")
}

/// What a profile holds for all enforcers together.
fn weight(profile: &Profile) -> usize {
    let raw = profile.app_armor.as_ref().map_or(0, |part| part.raw.len());
    let calls: usize = profile.seccomp.iter().map(seccomp::OciSeccomp::rules).sum();
    profile.rules.len() + raw + calls
}

criterion_group! {
    name = benches;
    config = varmor_benches::settings();
    targets = profiles, to_bpf, to_apparmor, to_seccomp
}
criterion_main!(benches);
