//! Many rules stay linear; what multiplies is refused by name.

use super::{KEY, compiled, path_rule, profile};
use crate::abi::{PERM_READ, PERM_STRUCT, PERM_WRITE};
use crate::compile::bpf::{CompileError, compile};
use crate::matcher::{PathView, Walk};
use crate::profile::{Access, Profile, Verdict};

fn numbered(count: u32, pattern: impl Fn(u32) -> String) -> Profile {
    profile(
        (0..count)
            .map(|number| path_rule(Verdict::Deny, &pattern(number), Access::READ_WRITE))
            .collect(),
    )
}

#[track_caller]
fn check(profile: &Profile, states: usize, transitions: usize, denied: &[&str], allowed: &[&str]) {
    let artefact = compiled(profile);
    assert!(
        artefact.states.len() <= states,
        "{} states",
        artefact.states.len()
    );
    assert!(
        artefact.transitions.len() <= transitions,
        "{} transitions",
        artefact.transitions.len()
    );
    let walk = Walk::new(&artefact, KEY);
    let judge = |path: &&str| {
        walk.files(&PathView::from_path(path.as_bytes()), PERM_READ | PERM_WRITE)
            .denied
    };
    for path in denied {
        assert_eq!(judge(path), PERM_READ | PERM_WRITE, "{path}");
    }
    for path in allowed {
        assert_eq!(judge(path), 0, "{path}");
    }
}

#[test]
fn ten_thousand_literal_rules_are_linear() {
    let profile = numbered(10_000, |n| {
        format!("/srv/data{}/folder{}/file{n}", n % 10, n % 100)
    });
    check(
        &profile,
        45_000,
        45_000,
        &["/srv/data0/folder0/file0", "/srv/data9/folder99/file9999"],
        &[
            "/srv/data1/folder0/file0",
            "/file0",
            "/srv/data0/folder0/file0/below",
        ],
    );
}

#[test]
fn ten_thousand_folder_rules_are_linear() {
    let profile = numbered(10_000, |n| format!("/srv/tenant{n}/**"));
    check(
        &profile,
        45_000,
        85_000,
        &[
            "/srv/tenant0/a",
            "/srv/tenant9999/a/b/c",
            "/srv/tenant7/srv/tenant8",
        ],
        &["/srv/tenant0", "/srv/other/tenant7/a", "/tenant7/a"],
    );
}

#[test]
fn thousand_rules_with_a_gap_are_linear() {
    let profile = numbered(1_000, |n| format!("/a{n}/**/b{n}"));
    check(
        &profile,
        8_000,
        10_000,
        &["/a0/b0", "/a999/x/y/b999", "/a5/a6/b5"],
        &["/a0/b1", "/b0", "/x/a0/b0", "/a0/b0/c"],
    );
}

#[test]
fn thousand_endings_are_linear() {
    let profile = numbered(1_000, |n| format!("*.ext{n}"));
    check(
        &profile,
        1_010,
        2_010,
        &["/a/x.ext0", "/y.ext999", "/d/.ext5", "/d/a.ext1.ext55"],
        &["/a.ext0/file", "/a.ext", "/a.ext1000", "/a.ext1.gz"],
    );
}

#[test]
fn rules_of_many_kinds_together_stay_small() {
    let profile = numbered(4_000, |n| match n % 4 {
        0 => format!("/opt/app{n}/bin/tool"),
        1 => format!("/opt/app{n}/**"),
        2 => format!("/**/tool{n}"),
        _ => format!("/etc/conf{n}.d/*.conf"),
    });
    check(
        &profile,
        40_000,
        60_000,
        &[
            "/opt/app0/bin/tool",
            "/opt/app1/x",
            "/x/y/tool2",
            "/etc/conf3.d/a.conf",
        ],
        &[
            "/opt/app0/bin",
            "/opt/app0/x",
            "/etc/conf3.d/a.conf/b",
            "/etc/conf4.d/a.conf",
        ],
    );
}

#[test]
fn folders_above_many_rules_are_protected_once() {
    let profile = numbered(5_000, |n| format!("/srv/deep/folder/file{n}"));
    let artefact = compiled(&profile);
    let walk = Walk::new(&artefact, KEY);
    for (path, protected) in [
        ("/srv", true),
        ("/srv/deep", true),
        ("/srv/deep/folder", true),
        ("/srv/x", false),
    ] {
        let verdict = walk.files(&PathView::from_path(path.as_bytes()), PERM_STRUCT);
        assert_eq!(verdict.denied != 0, protected, "{path}");
    }
    assert!(artefact.sites.iter().all(|site| site.rules.len() <= 1));
}

#[test]
fn path_patterns_that_multiply_are_refused_by_name() {
    let profile = numbered(24, |n| format!("/**/a{n}/**/b{n}/**/leaf"));
    let error = compile(&profile, KEY).expect_err("2^24 combinations");
    let CompileError::TooManyStates { patterns } = &error else {
        panic!("{error}")
    };
    assert!(
        !patterns.is_empty() && patterns.iter().all(|pattern| pattern.contains("/**/leaf")),
        "{patterns:?}"
    );
    assert!(error.to_string().contains("split the policy"), "{error}");
}

#[test]
fn name_globs_that_multiply_are_refused_by_name() {
    let letters: Vec<char> = ('a'..='t').collect();
    let profile = numbered(20, |n| format!("/x/*{}*", letters[n as usize]));
    let error = compile(&profile, KEY).expect_err("2^20 combinations");
    let CompileError::TooManyGlobs { patterns } = &error else {
        panic!("{error}")
    };
    assert_eq!(patterns.len(), 5);
}

#[test]
fn long_patterns_of_every_kind_are_linear() {
    let name = "n".repeat(200);
    let deep = format!("/{name}").repeat(20);
    check(&numbered(1, |_| deep.clone()), 60, 60, &[&deep], &[&deep[201..]]);
    let globs = format!("/{name}*").repeat(20);
    check(&numbered(1, |_| globs.clone()), 60, 60, &[&deep], &[&deep[201..]]);
}
