//! Rules that meet.

use super::*;

fn with(rules: &str, raw: &str) -> Compiled {
    enhanced(&format!(
        "      hardeningRules: [{rules}]\n      syscallRawRules:\n{raw}"
    ))
}

#[test]
fn an_allow_that_undoes_a_built_in_refusal_is_an_error_at_its_place() {
    for raw in [
        "      - {names: [read, unshare], action: SCMP_ACT_ALLOW}\n",
        "      - {names: [unshare], action: SCMP_ACT_LOG, args: [{index: 0, value: 268435456, op: SCMP_CMP_EQ}]}\n",
    ] {
        let compiled = with("disallow-create-user-ns", raw);
        let error = compiled
            .diagnostics
            .iter()
            .find(|one| one.is_error())
            .expect("contradiction");
        assert_eq!((error.line, error.column), (12, 9), "{error:?}");
        assert!(
            error.message.contains("disallow-create-user-ns"),
            "{}",
            error.message
        );
        assert!(compiled.profile.is_none());
    }
}

#[test]
fn conditions_that_exclude_each_other_live_together() {
    let raw = "      - {names: [unshare], action: SCMP_ACT_LOG, args: [{index: 0, value: 268435456, valueTwo: 0, op: \
               SCMP_CMP_MASKED_EQ}]}\n";
    let profile = clean(with("disallow-create-user-ns", raw));
    let unshare = profile
        .syscalls
        .iter()
        .filter(|rule| rule.names.iter().any(|name| name == "unshare"));
    assert_eq!(unshare.count(), 2);
}

#[test]
fn a_raw_refusal_covers_a_built_in_one() {
    let profile = clean(with(
        "disallow-create-user-ns",
        "      - {names: [unshare, clone3], action: SCMP_ACT_KILL_PROCESS}\n",
    ));
    for name in ["unshare", "clone3"] {
        let rules: Vec<_> = profile
            .syscalls
            .iter()
            .filter(|rule| rule.names.iter().any(|one| one == name))
            .collect();
        assert_eq!(rules.len(), 1, "{name}: {rules:?}");
        assert!(rules[0].args.is_empty() && rules[0].action == Action::KillProcess);
    }
}

#[test]
fn a_raw_refusal_is_stronger_than_a_logged_built_in_rule() {
    let compiled = enhanced(
        "      allowViolations: true\n      hardeningRules: [disallow-userfaultfd-creation]\n      syscallRawRules: \
         [{names: [userfaultfd], action: SCMP_ACT_ERRNO, errnoRet: 13}]\n",
    );
    assert!(
        only(&compiled).2.contains("not logged"),
        "{:?}",
        compiled.diagnostics
    );
    let profile = compiled.profile.expect("a warning only");
    let rule = profile
        .syscalls
        .iter()
        .find(|rule| rule.names == ["userfaultfd"])
        .expect("kept");
    assert_eq!((rule.action, rule.errno_ret), (Action::Errno, Some(13)));
}

#[test]
fn raw_rules_that_contradict_each_other_are_an_error() {
    let compiled = with(
        "",
        "      - {names: [ptrace], action: SCMP_ACT_ERRNO}\n      - {names: [ptrace], action: SCMP_ACT_LOG, args: \
         [{index: 0, value: 0, op: SCMP_CMP_EQ}]}\n",
    );
    let (line, _, message, _) = only(&compiled);
    assert_eq!(line, 13);
    assert!(message.contains("syscallRawRules[0]"), "{message}");
}

#[test]
fn a_rule_that_changes_nothing_is_said() {
    let compiled = with("", "      - {names: [read], action: SCMP_ACT_ALLOW}\n");
    assert!(only(&compiled).2.contains("changes nothing"));
    assert_eq!(compiled.profile.expect("a warning only").syscalls, []);
}
