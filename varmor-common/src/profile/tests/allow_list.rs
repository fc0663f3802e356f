//! The mode `DefenseInDepth` with a custom profile.

use super::{built, objects, profile, refused, said};
use crate::abi::{PERM_APPEND, PERM_EXEC, PERM_READ, PERM_WRITE};
use crate::compile::bpf::compile;
use crate::matcher::{PathView, Walk};
use crate::policy::{load, render};
use crate::profile::{Kinds, NodeFacts, Profile, ProfileMode, Verdict, build};

/// A policy of the mode with these fields below `customProfile`.
fn custom(fields: &str) -> String {
    let fields = fields.replace('\n', "\n      ");
    format!(
        "enforcer: BPF\nmode: DefenseInDepth\ndefenseInDepth:\n  bpf:\n    profileType: Custom\n    customProfile:\n      \
         {fields}\n"
    )
}

const RUN: &str = "processes: [{pattern: /app, permissions: [x]}]";

#[test]
fn rules_of_an_allow_list_allow_unless_they_deny() {
    let profile = profile(&custom(&format!(
        "{RUN}\nfiles:\n- {{pattern: /a, permissions: [r]}}\n- {{qualifiers: [audit], pattern: /b, permissions: [r]}}\n- \
         {{qualifiers: [deny], pattern: /c, permissions: [r]}}\n- {{qualifiers: [allow, audit], pattern: /d, permissions: [r]}}"
    )));
    let rules: Vec<(&str, Verdict)> = profile
        .rules
        .iter()
        .map(|rule| (rule.id.as_str(), rule.verdict))
        .collect();
    assert_eq!(
        rules,
        [
            ("customProfile.files[0]", Verdict::Allow),
            ("customProfile.files[1]", Verdict::Audit),
            ("customProfile.files[1]", Verdict::Allow),
            ("customProfile.files[2]", Verdict::Deny),
            ("customProfile.files[3]", Verdict::Audit),
            ("customProfile.files[3]", Verdict::Allow),
            ("customProfile.processes[0]", Verdict::Allow),
        ]
    );
    assert_eq!(
        (profile.default.denied, profile.mode),
        (Kinds::ALL, ProfileMode::Enforce)
    );
    assert_eq!(profile.default.origin.field, "spec.policy.defenseInDepth.bpf");
}

#[test]
fn capabilities_are_named_in_any_spelling() {
    for words in ["[chown, net_admin]", "[CAP_CHOWN, NET-ADMIN]"] {
        let profile = profile(&custom(&format!("{RUN}\ncapabilities: {words}")));
        assert_eq!(objects(&profile)[1], "cap 1001", "{words}");
    }
    assert_eq!(
        refused(&custom(&format!("{RUN}\ncapabilities: [net_admn]"))),
        ["p.yaml:14:26: error: `net_admn` is not known in `capabilities`\n  help: did you mean `net_admin`?"]
    );
}

#[test]
fn ptrace_is_allowed_within_the_container_unless_strict_mode_is_set() {
    for (strict, scope) in [("false", "Inside"), ("true", "All")] {
        let rule = format!("ptrace: {{strictMode: {strict}, permissions: [trace]}}");
        let profile = profile(&custom(&format!("{RUN}\n{rule}")));
        assert_eq!(objects(&profile)[1], format!("ptrace 2 {scope}"));
    }
}

#[test]
fn allowed_violations_are_logged() {
    let policy = custom(RUN).replace("  bpf:", "  allowViolations: true\n  bpf:");
    assert_eq!(profile(&policy).mode, ProfileMode::Complain);
}

#[test]
fn what_the_mode_lacks_is_said_at_its_place() {
    for (policy, expected) in [
        (
            "enforcer: BPF\nmode: DefenseInDepth\ndefenseInDepth: {}".to_owned(),
            "p.yaml:8:11: error: the mode DefenseInDepth with the enforcer BPF needs the field `defenseInDepth.bpf`\n  help: add \
             `bpf:` with `profileType: Custom` and `customProfile:` below `spec.policy.defenseInDepth`",
        ),
        (
            "enforcer: BPF\nmode: DefenseInDepth\ndefenseInDepth: {bpf: {profileType: Custom}}".to_owned(),
            "p.yaml:9:41: error: the profile type Custom needs the field `customProfile`\n  help: add `customProfile:` with what \
             the container may do, at least `processes:` and `files:`",
        ),
        (
            "enforcer: BPF\nmode: DefenseInDepth\ndefenseInDepth: {bpf: {profileType: BehaviorModel}}"
                .to_owned(),
            "p.yaml:9:41: error: there is no behaviour model for this policy\n  help: record one with `varmor learn`, and give \
             it with `--model` or in the same file",
        ),
    ] {
        assert_eq!(said(&policy), [expected]);
        assert!(built(&policy).profile.is_none());
    }
}

#[test]
fn a_list_that_lets_nothing_run_is_warned_of() {
    assert_eq!(
        said(&custom("files: [{pattern: '/**', permissions: [r]}]")),
        [
            "p.yaml:13:11: warning: no rule allows running any program: the container cannot start\n  help: add `processes:` with \
         the program, its loader and its libraries"
        ]
    );
}

#[test]
fn qualifiers_that_contradict_each_other_are_refused() {
    assert_eq!(
        refused(&custom(
            "files: [{qualifiers: [allow, deny], pattern: /a, permissions: [r]}]"
        )),
        [
            "p.yaml:13:20: error: the rule both allows and denies\n  help: keep `allow` or `deny`; a denying rule wins over every \
         allowing one"
        ]
    );
}

#[test]
fn rules_of_a_deny_list_need_qualifiers_and_cannot_allow() {
    let with = |rule: &str| super::enhance(&format!("bpfRawRules: {{files: [{rule}]}}"));
    assert_eq!(
        refused(&with("{pattern: /a, permissions: [r]}")),
        [
            "p.yaml:11:29: error: `spec.policy.enhanceProtect.bpfRawRules.files[0]` has no field `qualifiers`\n  help: add \
         `qualifiers: [deny]`, or `[audit]` to log only"
        ]
    );
    assert_eq!(
        refused(&with("{qualifiers: [allow], pattern: /a, permissions: [r]}")).len(),
        1
    );
}

#[test]
fn the_documented_policies_mean_what_the_text_says() {
    let page = include_str!("../../../../docs/allow-lists.md");
    let texts: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    let profiles: Vec<Profile> = texts
        .iter()
        .map(|text| {
            let loaded = load("allow-lists.md", text.as_bytes());
            let said: Vec<String> = loaded.diagnostics.iter().map(render).collect();
            assert_eq!(said, [""; 0]);
            let built = build(&loaded.documents[0], &NodeFacts::default());
            assert_eq!(built.diagnostics, [], "{text}");
            built.profile.expect("no diagnostics")
        })
        .collect();
    let [web, jobs] = &profiles[..] else {
        panic!("{} policies", profiles.len())
    };
    let artefact = compile(web, 1).expect("the policy compiles");
    let walk = Walk::new(&artefact, 1);
    for (path, requested, denied) in [
        ("/usr/sbin/nginx", PERM_EXEC, 0),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", PERM_EXEC | PERM_READ, 0),
        ("/lib64/ld-linux-x86-64.so.2", PERM_EXEC | PERM_READ, 0),
        ("/bin/sh", PERM_EXEC, PERM_EXEC),
        ("/etc/shadow", PERM_READ, PERM_READ),
        ("/etc/nginx/nginx.conf", PERM_READ | PERM_WRITE, PERM_WRITE),
        ("/var/cache/nginx/a/b", PERM_READ | PERM_WRITE, 0),
        ("/var/log/nginx/access.log", PERM_APPEND, 0),
        ("/var/log/nginx/access.log", PERM_WRITE, PERM_WRITE),
        ("/run/nginx.pid", PERM_WRITE, 0),
    ] {
        let view = PathView::from_path(path.as_bytes());
        assert_eq!(walk.files(&view, requested).denied, denied, "{path}");
    }
    let artefact = compile(jobs, 1).expect("the policy compiles");
    let walk = Walk::new(&artefact, 1);
    for (path, groups) in [
        ("/usr/bin/python3.12", 1),
        ("/usr/bin/perl", 1),
        ("/usr/bin/ruby", 0),
    ] {
        assert_eq!(
            walk.targets(&PathView::from_path(path.as_bytes())),
            groups,
            "{path}"
        );
    }
}
