//! What each mode makes.

use super::*;
use crate::policy::ObservedSyscalls;

#[test]
fn always_allow_names_nothing_and_every_architecture() {
    let profile = clean(compile(&document("    mode: AlwaysAllow\n"), Inputs::default()));
    assert_eq!(profile.default_action, Action::Allow);
    assert_eq!(profile.architectures, Architecture::HERE);
    assert_eq!(profile.syscalls, []);
}

#[test]
fn runtime_default_refuses_what_it_does_not_name() {
    let profile = clean(compile(
        &document("    mode: RuntimeDefault\n"),
        Inputs::default(),
    ));
    assert_eq!(
        (profile.default_action, profile.default_errno_ret),
        (Action::Errno, Some(1))
    );
    let allowed: usize = profile.syscalls.iter().map(|rule| rule.names.len()).sum();
    assert!(allowed > 330, "{allowed}");
}

#[test]
fn the_text_of_a_profile_is_stable_and_reads_back() {
    let one = clean(enhanced(
        "      hardeningRules: [disallow-insmod, disallow-create-user-ns]\n",
    ));
    let two = clean(enhanced(
        "      hardeningRules: [disallow-create-user-ns, disallow-insmod]\n",
    ));
    assert_eq!(one.to_json(), two.to_json());
    let back: OciSeccomp = serde_json::from_str(&one.to_json()).unwrap();
    assert_eq!(back, one);
    assert!(one.to_json().contains("\"errnoRet\": 38"), "{}", one.to_json());
}

#[test]
fn rules_of_one_system_call_do_not_cover_each_other() {
    let profile = clean(enhanced(
        "      attackProtectionRules: [{rules: [disable-chmod-x-bit, disable-chmod-s-bit]}]\n",
    ));
    let chmod = profile
        .syscalls
        .iter()
        .filter(|rule| rule.names.iter().any(|name| name == "chmod"));
    assert_eq!(chmod.count(), 5, "three x bits and two s bits");
}

#[test]
fn allowed_violations_are_logged_and_audited_refusals_too() {
    let rules = "      hardeningRules: [disallow-userfaultfd-creation]\n";
    let logged = clean(enhanced(&format!("{rules}      allowViolations: true\n")));
    assert!(
        logged
            .syscalls
            .iter()
            .all(|rule| rule.action == Action::Log && rule.errno_ret.is_none())
    );
    let audited = clean(enhanced(&format!("{rules}      auditViolations: true\n")));
    assert!(audited.syscalls.iter().all(|rule| rule.action == Action::Errno));
    assert_eq!(audited.flags, [Flag::Log]);
}

#[test]
fn what_the_enforcer_cannot_hold_alone_is_said() {
    let compiled = enhanced("      hardeningRules: [disallow-mount-procfs, disable-cap-all]\n");
    let messages: Vec<&str> = compiled
        .diagnostics
        .iter()
        .map(|one| one.message.as_str())
        .collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(
        messages[0].contains("in part") && messages[1].contains("no effect"),
        "{messages:?}"
    );
    let compiled =
        enhanced("      attackProtectionRules: [{rules: [disable-chmod-x-bit], targets: [/bin/sh]}]\n");
    assert!(only(&compiled).2.contains("targets"));
    assert_eq!(compiled.profile.unwrap().syscalls, []);
}

#[test]
fn behaviour_modeling_logs_all_but_the_commonest() {
    let profile = clean(compile(
        &document("    mode: BehaviorModeling\n    modelingOptions: {duration: 1}\n"),
        Inputs::default(),
    ));
    assert_eq!(profile.default_action, Action::Log);
    assert_eq!(profile.syscalls.len(), 1);
    assert_eq!(profile.syscalls[0].names, ALWAYS_NEEDED);
}

const MODEL: &str =
    "    mode: DefenseInDepth\n    defenseInDepth:\n      seccomp: {profileType: BehaviorModel}\n";

#[test]
fn a_learned_filter_allows_what_was_seen_and_what_a_runtime_needs() {
    let observed = DynamicResult {
        seccomp: Some(ObservedSyscalls {
            syscalls: vec!["epoll_wait".into(), "accept4".into()],
        }),
        ..DynamicResult::default()
    };
    let inputs = Inputs {
        model: Some(&observed),
        ..Inputs::default()
    };
    let profile = clean(compile(&document(MODEL), inputs));
    let [allowed] = &profile.syscalls[..] else {
        panic!("{:?}", profile.syscalls)
    };
    for name in ["accept4", "epoll_wait", "execve", "read", "openat2"] {
        assert!(allowed.names.iter().any(|one| one == name), "{name}");
    }
    assert!(!allowed.names.iter().any(|name| name == "ptrace"));
    let missing = compile(&document(MODEL), Inputs::default());
    assert!(only(&missing).2.contains("no behaviour model"));
    let strange = DynamicResult {
        seccomp: Some(ObservedSyscalls {
            syscalls: vec!["opn".into()],
        }),
        ..DynamicResult::default()
    };
    let inputs = Inputs {
        model: Some(&strange),
        ..Inputs::default()
    };
    assert!(only(&compile(&document(MODEL), inputs)).2.contains("`opn`"));
}

fn custom(profile: &str, more: &str) -> Compiled {
    compile(
        &document(&format!(
            "    mode: DefenseInDepth\n    defenseInDepth:\n      seccomp:\n        profileType: Custom\n        \
             customProfile: '{profile}'\n{more}"
        )),
        Inputs::default(),
    )
}

#[test]
fn a_custom_profile_is_read_strictly_and_extended() {
    let text = r#"{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["read","write"],"action":"SCMP_ACT_ALLOW"}]}"#;
    let more = "        syscallRawRules: [{names: [socket], action: SCMP_ACT_ALLOW}]\n";
    let profile = clean(custom(text, more));
    assert_eq!(profile.syscalls[0].names, ["read", "socket", "write"]);
    assert_eq!(profile.architectures, Architecture::HERE);
    let logging = clean(custom(text, "      allowViolations: true\n"));
    assert_eq!(logging.default_action, Action::Log);
    for (bad, expected) in [
        ("{", "cannot be read"),
        (r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#, "SCMP_ACT_NOTIFY"),
        (
            r#"{"defaultAction":"SCMP_ACT_ERRNO","listenerPath":"/x"}"#,
            "listenerPath",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#,
            "allows what it does not name",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ERRNO","architectures":["SCMP_ARCH_ARM"]}"#,
            "does not name SCMP_ARCH",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ERRNO","architectures":["SCMP_ARCH_MIPS"]}"#,
            "SCMP_ARCH_MIPS",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["raed"],"action":"SCMP_ACT_ALLOW"}]}"#,
            "`raed`",
        ),
    ] {
        let compiled = custom(bad, "");
        assert!(
            only(&compiled).2.contains(expected),
            "{bad}: {:?}",
            compiled.diagnostics
        );
    }
}
