//! Reading what the enforcers say about violations, and deciding it again under another policy.
//!
//! The bytes of the BPF enforcer's ring are read by the agent, which cannot be built before the kernel programs are; a
//! fresh machine has none, so its events are read here as they stand in `violations.log`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use varmor_benches::policies::{document, language, numbered};
use varmor_benches::records::{FILE, LONGEST_PATH, SYSTEM_CALL, kernel_line, longest_file, violation};
use varmor_common::analysis::{Judge, Outcome, Recorded};
use varmor_common::audit::{AVC, KernelLine, Record, SECCOMP, parse, parse_body};
use varmor_common::policy::Enforcers;
use varmor_common::profile::{NodeFacts, build};

/// Lines of a log that is read at once.
const LINES: u32 = 100;
/// Rules of the policy under which a log is decided again; they deny the files of the first tenants.
const SIZES: &[u32] = &[10, 1_000];

/// A record that netlink carries.
struct Case<'t> {
    name: &'static str,
    kind: u32,
    text: &'t str,
    is_right: fn(&Record) -> bool,
}

/// Records of the kernel's audit.
fn audit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events/audit");
    let longest = longest_file();
    let cases = [
        Case {
            name: "apparmor",
            kind: AVC,
            text: FILE,
            is_right: |record| record.get("name") == Some(b"/etc/shadow"),
        },
        Case {
            name: "apparmor-longest-path",
            kind: AVC,
            text: &longest,
            is_right: |record| record.get("name").map(<[u8]>::len) == Some(LONGEST_PATH),
        },
        Case {
            name: "seccomp",
            kind: SECCOMP,
            text: SYSTEM_CALL,
            is_right: |record| record.number("syscall") == Some(101),
        },
    ];
    for case in cases {
        group.throughput(Throughput::Bytes(bytes(case.text)));
        group.bench_function(case.name, |bencher| {
            bencher.iter(|| {
                let text = black_box(case.text.as_bytes());
                let record = parse_body(case.kind, text).expect("the record can be read");
                assert!((case.is_right)(&record));
                record
            });
        });
    }
    let line = kernel_line();
    group.throughput(Throughput::Bytes(bytes(&line)));
    group.bench_function("kernel-log", |bencher| {
        bencher.iter(|| {
            let line = KernelLine::parse(black_box(line.as_bytes())).expect("the line can be read");
            let record = parse(&line.message).expect("the record can be read");
            assert_eq!(record.get("name"), Some(&b"/etc/shadow"[..]));
            record
        });
    });
    group.finish();
}

/// Lines of `violations.log`.
fn log(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events/log");
    let lines: Vec<String> = (0..LINES).map(violation).collect();
    group.throughput(Throughput::Elements(LINES.into()));
    group.bench_function(BenchmarkId::new("read", LINES), |bencher| {
        bencher.iter(|| {
            let count: u64 = lines.iter().map(|line| read(black_box(line)).count).sum();
            assert_eq!(count, 3 * u64::from(LINES));
        });
    });
    let recorded: Vec<Recorded> = lines.iter().map(|line| read(line)).collect();
    for &size in SIZES {
        let judge = judge(size);
        // Of every four lines one is about a tenant's file, and still denied if the tenant has a rule.
        let flipped = LINES - size.min(LINES).div_ceil(4);
        group.bench_function(BenchmarkId::new("decide-again", size), |bencher| {
            bencher.iter(|| {
                let flips = black_box(&recorded).iter().filter_map(|line| line.flips(&judge));
                let count = flips.filter(|outcome| *outcome == Outcome::Allowed).count();
                assert_eq!(u32::try_from(count), Ok(flipped));
            });
        });
    }
    group.finish();
}

fn read(line: &str) -> Recorded {
    Recorded::parse(line).expect("the line can be read")
}

fn judge(rules: u32) -> Judge {
    let document = document(&numbered(language(Enforcers::BPF), rules));
    let built = build(&document, &NodeFacts::default());
    Judge::new(built.profile.expect("the policy is valid"), Vec::new()).expect("the policy compiles")
}

fn bytes(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

criterion_group! {
    name = benches;
    config = varmor_benches::settings();
    targets = audit, log
}
criterion_main!(benches);
