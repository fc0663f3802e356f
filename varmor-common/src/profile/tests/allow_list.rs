//! The mode DefenseInDepth with a custom profile.

use super::{built, objects, profile, refused, said};
use crate::profile::{Kinds, ProfileMode, Verdict};

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
            "p.yaml:9:41: error: the profile type BehaviorModel is not supported by the BPF enforcer yet\n  help: use \
             `profileType: Custom` and write the `customProfile`",
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
