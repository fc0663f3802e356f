//! Mount rules: sources as paths and as strings, flags, types, classes.

use super::random::Random;
use super::{KEY, compiled, profile, rule};
use crate::abi::{MOUNT_UMOUNT, VERDICT_AUDIT, VERDICT_DENY};
use crate::compile::bpf::{CompileError, compile};
use crate::matcher::{MountCall, MountSource, PathView, Walk, reference};
use crate::profile::{MountRule, Object, Rule, Verdict};

const MS_BIND: u32 = 0x1000;
const MS_REC: u32 = 0x4000;

fn mount(verdict: Verdict, source: &str, fstype: Option<&str>, any: u32, none: u32) -> Rule {
    let object = Object::Mount(MountRule {
        source: source.to_owned(),
        fstype: fstype.map(str::to_owned),
        any,
        none,
    });
    rule(source, verdict, object)
}

fn text_matches(pattern: &str, text: &str) -> bool {
    let artefact = compiled(&profile(vec![mount(Verdict::Deny, pattern, None, u32::MAX, 0)]));
    let source = MountSource::Text(text.as_bytes());
    Walk::new(&artefact, KEY)
        .mount(&MountCall {
            source,
            fstype: None,
            flags: 1,
        })
        .verdict
        & VERDICT_DENY
        != 0
}

#[test]
fn source_strings_match_as_they_are_written() {
    for (pattern, text, expected) in [
        ("**", "", true),
        ("**", "tmpfs", true),
        ("**", "/a//b/", true),
        ("/dev/sda", "/dev/sda", true),
        ("/dev/sda", "/dev//sda", true),
        ("/dev/sda", "/dev/./././sda", true),
        ("/dev/sda", "/dev/sda/", true),
        ("/dev/sda", "/dev/sda1", false),
        ("/dev/sda", "dev/sda", false),
        ("/dev/sd*", "/dev/sdb1", true),
        ("/dev/sd*", "/dev/sdb/x", false),
        ("/proc**", "/proc", true),
        ("/proc**", "/proc/sys", true),
        ("/proc**", "/procfoo", true),
        ("/proc**", "proc", false),
        ("proc", "proc", true),
        ("proc", "/x/proc", true),
        ("proc", "xproc", false),
        ("/**/disk", "disk", true),
        ("/**/disk", "/dev/mapper/disk", true),
        ("/a/**/b", "/a/b", true),
        ("/a/**/b", "/a/x/y/b", true),
        ("/a/**/b", "/a/xb", false),
        ("/", "/", true),
        ("/", "/a", false),
        ("/a/*", "/a/b", true),
        ("/a/*", "/a/", false),
    ] {
        assert_eq!(text_matches(pattern, text), expected, "`{pattern}` on `{text}`");
    }
}

#[test]
fn tidy_source_strings_match_like_paths() {
    let mut cases = 0;
    for seed in 0..400 {
        let random = &mut Random::new(seed);
        let pattern = random.pattern();
        let artefact = compiled(&profile(vec![mount(Verdict::Deny, &pattern, None, u32::MAX, 0)]));
        let walk = Walk::new(&artefact, KEY);
        for _ in 0..40 {
            let names: Vec<String> = (0..random.below(6)).map(|_| random.name()).collect();
            let text = format!("/{}", names.join("/"));
            let view = PathView::from_path(text.as_bytes());
            let expected = reference::matches(&pattern, text.as_bytes());
            for source in [MountSource::Path(&view), MountSource::Text(text.as_bytes())] {
                let point = walk.mount(&MountCall {
                    source,
                    fstype: None,
                    flags: 1,
                });
                assert_eq!(
                    point.verdict != 0,
                    expected,
                    "seed {seed}: `{pattern}` on {source:?}"
                );
                cases += 1;
            }
        }
    }
    eprintln!("mount source differential: {cases} cases");
    assert_eq!(cases, 32_000);
}

#[test]
fn class_needs_a_set_flag_or_a_clear_one() {
    let path = PathView::from_path(b"/proc/sys");
    for (rule, fstype, flags, denied) in [
        (
            mount(Verdict::Deny, "/proc**", None, MS_BIND, 0),
            None,
            MS_BIND | MS_REC,
            true,
        ),
        (
            mount(Verdict::Deny, "/proc**", None, MS_BIND, 0),
            None,
            MS_REC,
            false,
        ),
        (
            mount(Verdict::Deny, "/sys**", None, MS_BIND, 0),
            None,
            MS_BIND,
            false,
        ),
        (
            mount(Verdict::Deny, "**", None, MOUNT_UMOUNT, 0),
            None,
            MOUNT_UMOUNT,
            true,
        ),
        (mount(Verdict::Deny, "**", None, 0, MS_REC), None, MS_BIND, true),
        (mount(Verdict::Deny, "**", None, 0, MS_REC), None, MS_REC, false),
        (
            mount(Verdict::Deny, "**", Some("proc"), 0, u32::MAX),
            Some("proc"),
            0,
            true,
        ),
        (
            mount(Verdict::Deny, "**", Some("proc"), 0, u32::MAX),
            Some("procfs"),
            0,
            false,
        ),
        (
            mount(Verdict::Deny, "**", Some("proc"), 0, u32::MAX),
            None,
            0,
            false,
        ),
    ] {
        let described = format!("{rule:?} on {fstype:?} {flags:#x}");
        let artefact = compiled(&profile(vec![rule]));
        let fstype = fstype.map(str::as_bytes);
        let call = MountCall {
            source: MountSource::Path(&path),
            fstype,
            flags,
        };
        let point = Walk::new(&artefact, KEY).mount(&call);
        assert_eq!(point.verdict & VERDICT_DENY != 0, denied, "{described}");
    }
}

#[test]
fn denying_mount_rule_is_the_one_that_is_named() {
    let profile = profile(vec![
        mount(Verdict::Audit, "/a/**", None, MS_BIND, 0),
        mount(Verdict::Deny, "/a/b", None, MS_BIND, 0),
        mount(Verdict::Deny, "/c", None, MS_BIND, 0),
    ]);
    let artefact = compiled(&profile);
    let path = PathView::from_path(b"/a/b");
    let call = MountCall {
        source: MountSource::Path(&path),
        fstype: None,
        flags: MS_BIND,
    };
    let point = Walk::new(&artefact, KEY).mount(&call);
    assert_eq!(point.verdict, VERDICT_DENY | VERDICT_AUDIT);
    assert_eq!(
        artefact
            .rule_at(&profile, point.site, u32::MAX)
            .map(|rule| rule.id.as_str()),
        Some("/a/b")
    );
}

#[test]
fn many_mount_rules_share_classes_and_too_many_combinations_are_refused() {
    let alike = (0..500)
        .map(|n| mount(Verdict::Deny, &format!("/dev/disk{n}"), None, MS_BIND, 0))
        .collect();
    let artefact = compiled(&profile(alike));
    assert_eq!(artefact.descriptor.mount_classes, 1);
    let different = (0..64)
        .map(|n| mount(Verdict::Deny, "**", Some(&format!("type{n}")), 1, 0))
        .collect();
    let error = compile(&profile(different), KEY).expect_err("64 types");
    assert!(
        matches!(error, CompileError::TooManyMountClasses { count: 64, .. }),
        "{error}"
    );
}
