//! Patterns: one line, one test, both engines.

use super::{Component, Pattern};
use crate::abi::{PERM_READ, PERM_STRUCT};
use crate::compile::bpf::compile;
use crate::matcher::{PathView, Walk, reference};
use crate::profile::{Access, Object, Origin, Profile, Rule, Verdict};

const KEY: u64 = 7;

#[track_caller]
fn check(pattern: &str, path: &str, expected: bool) {
    assert_eq!(
        denied(pattern, path) & PERM_READ != 0,
        expected,
        "compiled: `{pattern}` on `{path}`"
    );
    assert_eq!(
        reference::matches(pattern, path.as_bytes()),
        expected,
        "reference: `{pattern}` on `{path}`"
    );
}

fn denied(pattern: &str, path: &str) -> u32 {
    let rule = Rule {
        id: "test".to_owned(),
        origin: Origin::default(),
        verdict: Verdict::Deny,
        object: Object::Path {
            pattern: pattern.to_owned(),
            access: Access::READ,
        },
        enforcers: crate::policy::Enforcers::BPF,
    };
    let profile = Profile {
        name: "test".to_owned(),
        rules: vec![rule],
        ..Profile::default()
    };
    let artefact = compile(&profile, KEY).expect("the pattern is valid");
    let view = PathView::from_path(path.as_bytes());
    Walk::new(&artefact, KEY)
        .files(&view, PERM_READ | PERM_STRUCT)
        .denied
}

macro_rules! matches {
    ($($name:ident: $pattern:expr, $path:expr;)*) => {
        mod matches { $(#[test] fn $name() { super::check($pattern, $path, true); })* }
    };
}

macro_rules! differs {
    ($($name:ident: $pattern:expr, $path:expr;)*) => {
        mod differs { $(#[test] fn $name() { super::check($pattern, $path, false); })* }
    };
}

matches! {
    exact: "/etc/passwd", "/etc/passwd";
    root: "/", "/";
    doubled_slashes: "//etc///passwd", "/etc/passwd";
    everything: "**", "/a/b";
    everything_is_the_root_too: "**", "/";
    rooted_everything: "/**", "/a";
    rooted_everything_is_the_root_too: "/**", "/";
    below: "/etc/**", "/etc/ssl/key.pem";
    directly_below: "/etc/**", "/etc/hosts";
    anywhere_at_the_root: "/**/sh", "/sh";
    anywhere_deep: "/**/sh", "/usr/local/bin/sh";
    gap_of_nothing: "/tmp/**/33", "/tmp/33";
    gap_of_many: "/tmp/**/33", "/tmp/1/2/33";
    prefix_itself: "/proc**", "/proc";
    prefix_of_a_name: "/proc**", "/procfoo";
    prefix_of_a_path: "/proc**", "/proc/1/mem";
    prefix_of_a_path_below_a_longer_name: "/proc**", "/procfoo/x";
    suffix_in_a_name: "/a/**.log", "/a/x.log";
    suffix_in_a_deeper_name: "/a/**.log", "/a/b/x.log";
    middle_within_a_name: "/a**b", "/axb";
    middle_over_names: "/a**b", "/ax/y/zb";
    bare_name: "shadow", "/etc/shadow";
    bare_glob: "*.log", "/var/log/x.log";
    bare_glob_at_the_root: "*.log", "/x.log";
    bare_suffix: "**.log", "/a/x.log";
    one_star: "/a/*", "/a/b";
    star_of_nothing: "/a/x*", "/a/x";
    star_before_and_behind: "/a/*x*", "/a/1x2";
    several_stars: "/*/b*/c", "/a/bb/c";
    question: "/a/?", "/a/b";
    question_is_one_byte: "/a/??", "/a/é";
    set: "/a/[b-d]", "/a/c";
    set_negated: "/a/[!b]", "/a/c";
    set_negated_by_caret: "/a/[^b]", "/a/c";
    set_holds_bracket: "/a/[]]", "/a/]";
    set_holds_dash: "/a/[a-]", "/a/-";
    set_with_escape: r"/a/[\]-_]", "/a/^";
    braces: "/{etc,usr}/x", "/usr/x";
    braces_nested: "/{a,b{c,d}}", "/bd";
    braces_with_slash: "/{a/b,c}/d", "/a/b/d";
    braces_with_nothing: "/a{,b}", "/a";
    braces_make_a_doubled_slash: "/a/{,b}/c", "/a/c";
    braces_with_gap: "/{a/**,b}/c", "/a/x/y/c";
    escaped_star: r"/a\*", "/a*";
    escaped_brace: r"/\{a\}", "/{a}";
    escaped_letter: r"/\a", "/a";
    three_stars: "/a/***/b", "/a/b";
    two_gaps: "/a/**/b/**/c", "/a/x/b/y/c";
    overlapping_gaps: "/a/**/b/**/b", "/a/b/b";
    non_ascii: "/ä/*", "/ä/ö";
    gap_then_one: "/a/**/*/b", "/a/x/b";
    one_then_gap: "/a/*/**", "/a/x/y";
}

differs! {
    exact_is_not_a_prefix: "/etc/passwd", "/etc/passwd-";
    exact_is_not_a_folder: "/etc/passwd", "/etc/passwd/x";
    exact_is_anchored: "/etc/passwd", "/x/etc/passwd";
    root_only: "/", "/a";
    folder_itself: "/etc/**", "/etc";
    sibling: "/etc/**", "/etcetera";
    anywhere_is_the_whole_name: "/**/sh", "/bin/bash";
    anywhere_is_the_last_name: "/**/sh", "/sh/x";
    gap_is_whole_names: "/tmp/**/33", "/tmp/x33";
    prefix_is_anchored: "/proc**", "/x/proc";
    middle_needs_the_end: "/a**b", "/axbc";
    bare_name_is_the_last_one: "shadow", "/shadow/x";
    star_is_one_name: "/a/*", "/a/b/c";
    star_is_not_none: "/a/*", "/a";
    star_at_the_root: "/*", "/";
    question_is_not_two: "/a/?", "/a/bb";
    question_is_not_a_slash: "/a?b", "/a/b";
    set_is_one: "/a/[b-d]", "/a/cc";
    set_outside: "/a/[b-d]", "/a/e";
    set_negated_is_not_none: "/a/b[!c]", "/a/b";
    set_negated_is_not_a_slash: "/a[!c]b", "/a/b";
    braces_other: "/{etc,usr}/x", "/var/x";
    escaped_is_literal: r"/a\*", "/ab";
    two_gaps_need_the_order: "/a/**/b/**/c", "/a/c/b";
    one_then_gap_needs_two: "/a/*/**", "/a/x";
    upper_case: "/etc/Passwd", "/etc/passwd";
}

#[test]
fn longest_name_is_matched_exactly() {
    let name = "n".repeat(255);
    check(&format!("/a/{name}"), &format!("/a/{name}"), true);
    check(&format!("/a/{}*", &name[..254]), &format!("/a/{name}"), true);
    check(&format!("/a/{name}"), &format!("/a/{}", &name[..254]), false);
}

#[test]
fn documented_bpf_patterns_of_varmor_keep_their_meaning() {
    for (pattern, path) in [
        ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/core_pattern"),
        ("/sys/fs/cgroup/**/release_agent", "/sys/fs/cgroup/release_agent"),
        (
            "/sys/fs/cgroup/**/release_agent",
            "/sys/fs/cgroup/memory/pod/release_agent",
        ),
        (
            "/run/secrets/kubernetes.io/serviceaccount/**",
            "/run/secrets/kubernetes.io/serviceaccount/..data/token",
        ),
        ("/proc/**/mem", "/proc/1/mem"),
        ("/proc/**/mem", "/proc/mem"),
        ("/proc/**/net/arp", "/proc/1/task/1/net/arp"),
        ("/**/busybox", "/bin/busybox"),
        ("/**/containerd.sock", "/run/containerd/containerd.sock"),
        ("/tmp/**/33", "/tmp/33"),
        ("*.log", "/var/log/messages.log"),
    ] {
        check(pattern, path, true);
    }
}

#[test]
fn folders_on_the_way_to_a_denied_path_are_protected() {
    for (pattern, path, protected) in [
        ("/prot/**", "/prot", true),
        ("/prot/**", "/prot/a", false),
        ("/prot/a/secret", "/prot", true),
        ("/prot/a/secret", "/prot/a", true),
        ("/prot/a/secret", "/prot/b", false),
        ("/prot/a/secret", "/", false),
        ("/home/*/.ssh/**", "/home/user", true),
        ("/home/*/.ssh/**", "/home/user/.ssh", true),
        ("/srv/**/keys/**", "/srv/x/y/keys", true),
        ("/srv/**/keys/**", "/srv/x/y", false),
        ("/**/.ssh/**", "/root/.ssh", false),
        ("*.key", "/a", false),
        ("/{etc,usr/local}/x", "/usr/local", true),
    ] {
        assert_eq!(
            denied(pattern, path) & PERM_STRUCT != 0,
            protected,
            "compiled: {pattern} {path}"
        );
        assert_eq!(
            reference::protects_folder(pattern, path.as_bytes()),
            protected,
            "reference: {pattern} {path}"
        );
    }
}

#[test]
fn bad_patterns_name_the_place_and_the_fix() {
    for (pattern, offset, message, help) in [
        ("", 0, "empty", "**"),
        ("etc/passwd", 0, "does not start with `/`", "/**/"),
        ("/etc/", 4, "ends with `/`", "/**"),
        ("/a/../b", 3, "never match", "without it"),
        ("/a/./b", 3, "never match", "without it"),
        ("/a/[b", 3, "never closed", r"\["),
        ("/a/[]", 3, "never closed", r"\["),
        ("/a/[z-a]", 3, "backwards", "[a-z]"),
        ("/a/[b/c]", 5, "can never match", "braces"),
        ("/a/[é]", 4, "several bytes", "{é,è}"),
        ("/a/{b,c", 3, "never closed", r"\{"),
        ("/a/b}", 4, "closes no brace", r"\}"),
        (r"/a\", 2, "nothing behind", r"\\"),
        ("/a\0b", 2, "zero byte", "remove"),
        ("{/a,}", 0, "empty", "remove"),
        ("{/a,b/c}", 4, "does not start with `/`", "/**/"),
    ] {
        let error = Pattern::parse(pattern).expect_err(pattern);
        assert_eq!(error.offset, offset, "{pattern}: {error}");
        assert!(error.message.contains(message), "{pattern}: {error}");
        assert!(error.help.contains(help), "{pattern}: {}", error.help);
    }
}

#[test]
fn oversized_patterns_are_refused() {
    for (pattern, message) in [
        (format!("/{}", "a".repeat(1 << 20)), "at most 4096"),
        (format!("/{}", "a".repeat(256)), "at most 255"),
        ("/a".repeat(65), "more than 64 names"),
        (format!("/{}", "{a,b}".repeat(11)), "more than 1024 alternatives"),
        (format!("/{}", "a**".repeat(11)), "more than 1024 alternatives"),
        (format!("/{}", "{".repeat(4000)), "nested"),
        (format!("/{}{}", "a{".repeat(17), "}".repeat(17)), "nested"),
    ] {
        let error = Pattern::parse(&pattern).expect_err(&pattern[..20]);
        assert!(error.message.contains(message), "{error}");
    }
}

#[test]
fn alternatives_at_the_limit_are_accepted() {
    assert_eq!(
        Pattern::parse(&format!("/{}", "{a,b}".repeat(10)))
            .expect("1024")
            .alternatives()
            .len(),
        1024
    );
}

#[test]
fn equal_alternatives_are_stored_once() {
    let pattern = Pattern::parse("/{a,a,b}/{c,c}").expect("valid");
    assert_eq!(pattern.alternatives().len(), 2);
    let literal = |name: &str| Component::Literal(name.as_bytes().to_vec());
    assert_eq!(pattern.alternatives()[0], [literal("a"), literal("c")]);
}
