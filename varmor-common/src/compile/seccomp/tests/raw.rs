//! Raw rules, good and bad.

use super::*;

fn raw(rules: &str) -> Compiled {
    enhanced(&format!("      syscallRawRules:\n{rules}"))
}

#[test]
fn every_field_reaches_the_filter() {
    let profile = clean(raw(
        "      - {names: [fsync, fdatasync], action: SCMP_ACT_ERRNO, errnoRet: 5, args: [{index: 0, value: 3, op: \
         SCMP_CMP_GE}, {index: 1, value: 15, valueTwo: 4, op: SCMP_CMP_MASKED_EQ}]}\n",
    ));
    let [rule] = &profile.syscalls[..] else {
        panic!("{:?}", profile.syscalls)
    };
    assert_eq!(rule.names, ["fdatasync", "fsync"]);
    assert_eq!((rule.action, rule.errno_ret), (Action::Errno, Some(5)));
    assert_eq!(rule.args[1], Condition::masked(1, 15, 4));
    assert_eq!(
        (rule.args[0].op, rule.args[0].value),
        (Comparison::GreaterOrEqual, 3)
    );
}

#[test]
fn conditions_on_one_argument_are_alternatives() {
    let compiled = raw(
        "      - {names: [fsync], action: SCMP_ACT_ERRNO, args: [{index: 0, value: 3, op: SCMP_CMP_EQ}, {index: 0, \
         value: 4, op: SCMP_CMP_EQ}]}\n",
    );
    assert!(only(&compiled).2.contains("any of its conditions"));
    assert_eq!(compiled.profile.expect("a note only").syscalls.len(), 2);
}

#[test]
fn bad_rules_are_refused_with_place_and_repair() {
    for (rule, expected, help) in [
        (
            "{names: [unshar], action: SCMP_ACT_ERRNO}",
            "`unshar`",
            "`unshare`",
        ),
        ("{names: [], action: SCMP_ACT_ERRNO}", "no system call", "names"),
        ("{names: ['read; rm'], action: SCMP_ACT_ERRNO}", "`read; rm`", ""),
        (
            "{names: [read], action: SCMP_ACT_ERNO}",
            "no action",
            "`SCMP_ACT_ERRNO`",
        ),
        (
            "{names: [read], action: SCMP_ACT_NOTIFY}",
            "answers",
            "SCMP_ACT_LOG",
        ),
        (
            "{names: [read], action: SCMP_ACT_ERRNO, errnoRet: 5000}",
            "5000",
            "EPERM",
        ),
        (
            "{names: [read], action: SCMP_ACT_ERRNO, args: [{index: 0, value: 1, op: SCMP_CMP_EQL}]}",
            "no comparison",
            "`SCMP_CMP_EQ`",
        ),
        (
            "{names: [read], action: SCMP_ACT_ERRNO, args: [{index: 0, value: 1, valueTwo: 2, op: SCMP_CMP_MASKED_EQ}]}",
            "never holds",
            "mask",
        ),
        (
            "{names: [read], action: SCMP_ACT_ERRNO, args: [{index: 0, value: 1, valueTwo: 2, op: SCMP_CMP_EQ}]}",
            "no meaning",
            "MASKED",
        ),
    ] {
        let compiled = raw(&format!("      - {rule}\n"));
        let (line, column, message, repair) = only(&compiled);
        assert!(
            message.contains(expected) && repair.contains(help),
            "{rule}: {message} / {repair}"
        );
        assert!(line == 11 && column > 8, "{rule}: {line}:{column}");
        assert!(compiled.profile.is_none());
    }
}

#[test]
fn a_comparison_that_a_high_bit_passes_is_said() {
    let compiled = raw(
        "      - {names: [socket], action: SCMP_ACT_ERRNO, args: [{index: 0, value: 38, op: SCMP_CMP_EQ}]}\n",
    );
    let (_, _, message, help) = only(&compiled);
    assert!(
        message.contains("32 bits") && help.contains("valueTwo: 38"),
        "{message} {help}"
    );
}
