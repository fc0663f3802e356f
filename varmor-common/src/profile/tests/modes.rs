//! Modes, switches and names.

use super::{built, enhance, objects, profile, said, text, verdicts};
use crate::compile::seccomp::{self, Inputs};
use crate::policy::{DynamicResult, Enforcers, ObservedSyscalls, load, render};
use crate::profile::{Kinds, NodeFacts, ProfileMode, Verdict, build_with, profile_name};

#[test]
fn profiles_are_named_after_their_policy() {
    assert_eq!(
        profile("enforcer: BPF\nmode: AlwaysAllow").name,
        "varmor-demo-web"
    );
    assert_eq!(profile_name(Some("Demo"), "Web"), "varmor-demo-web");
    assert_eq!(profile_name(None, "web"), "varmor-cluster-varmor-web");
}

#[test]
fn always_allow_has_no_rules() {
    let profile = profile("enforcer: BPF\nmode: AlwaysAllow");
    assert_eq!(objects(&profile), [""; 0]);
    assert_eq!(profile.mode, ProfileMode::Enforce);
}

#[test]
fn runtime_default_refuses_what_the_runtimes_refuse() {
    let profile = profile("enforcer: BPF\nmode: RuntimeDefault");
    let objects = objects(&profile);
    for expected in [
        "rwax /proc/{sysrq-trigger,mem,kmem,kcore}",
        "mount ** * 0 200",
        "ptrace 6 Outside",
        "rwax /sys/firmware/**",
    ] {
        assert!(
            objects.iter().any(|one| one == expected),
            "{expected} in {objects:?}"
        );
    }
    assert!(
        profile
            .rules
            .iter()
            .all(|rule| rule.verdict == Verdict::Deny && rule.id == "runtime-default")
    );
}

#[test]
fn enhance_protect_stands_on_runtime_default_unless_privileged() {
    let rules = "attackProtectionRules: [{rules: [disable-write-etc]}]";
    let privileged = profile(&enhance(rules));
    assert_eq!(objects(&privileged), ["wa /etc/**"]);
    let ordinary = profile(&enhance(rules).replace("privileged: true", "privileged: false"));
    let base = profile("enforcer: BPF\nmode: RuntimeDefault");
    assert_eq!(
        objects(&ordinary),
        [objects(&base), objects(&privileged)].concat()
    );
}

#[test]
fn the_switches_decide_between_refusing_and_logging() {
    let with = |switches: &str| enhance(&format!("hardeningRules: [disallow-insmod]\n{switches}"));
    assert_eq!(
        verdicts(&profile(&with("auditViolations: false"))),
        [Verdict::Deny]
    );
    assert_eq!(
        verdicts(&profile(&with("auditViolations: true"))),
        [Verdict::Deny]
    );
    assert_eq!(
        verdicts(&profile(&with("auditViolations: true\nallowViolations: true"))),
        [Verdict::Audit]
    );
    assert_eq!(verdicts(&profile(&with("allowViolations: true"))), []);
    let said = said(&with("allowViolations: true"));
    assert_eq!(
        said,
        [
            "p.yaml:12:24: warning: violations of built-in rules are neither refused nor logged: the rules have no effect\n  \
          help: add `auditViolations: true` to log them"
        ]
    );
}

#[test]
fn raw_rules_follow_their_own_qualifiers() {
    let fields = "allowViolations: true\nauditViolations: true\nbpfRawRules: {files: [{qualifiers: [deny, audit], pattern: /a, \
                  permissions: [r]}, {qualifiers: [AUDIT], pattern: /b, permissions: [r]}]}";
    assert_eq!(
        verdicts(&profile(&enhance(fields))),
        [Verdict::Deny, Verdict::Audit]
    );
}

#[test]
fn recording_is_an_empty_allow_list_that_complains() {
    let profile = profile("enforcer: AppArmorBPF\nmode: BehaviorModeling\nmodelingOptions: {duration: 5}");
    assert_eq!((profile.mode, profile.rules.len()), (ProfileMode::Complain, 0));
    assert_eq!(profile.default.denied, Kinds::ALL);
    assert_eq!(
        said("enforcer: AppArmor\nmode: BehaviorModeling\nmodelingOptions: {duration: 5}"),
        [
            "p.yaml:8:11: error: the mode BehaviorModeling records through the BPF enforcer, which the policy does not name\n  \
             help: add BPF to `enforcer`; the model holds for every enforcer"
        ]
    );
}

#[test]
fn a_policy_is_for_the_enforcers_that_it_names() {
    for (enforcer, bpf, app_armor) in [
        ("AppArmor", false, true),
        ("Seccomp", false, false),
        ("BPF", true, false),
        ("AppArmorBPFSeccomp", true, true),
    ] {
        let profile = profile(&format!("enforcer: {enforcer}\nmode: RuntimeDefault"));
        assert_eq!(profile.part_for(Enforcers::BPF).is_some(), bpf, "{enforcer}");
        assert_eq!(
            profile.part_for(Enforcers::APPARMOR).is_some(),
            app_armor,
            "{enforcer}"
        );
        assert_eq!(profile.rules.is_empty(), !bpf && !app_armor, "{enforcer}");
        let filters = usize::from(enforcer.contains("Seccomp"));
        assert_eq!(profile.seccomp.len(), filters, "{enforcer}");
        for (part, count) in [
            (Enforcers::BPF, 0),
            (Enforcers::APPARMOR, 0),
            (Enforcers::SECCOMP, filters),
        ] {
            let part = profile.part_for(part);
            assert_eq!(part.map_or(0, |part| part.seccomp.len()), count, "{enforcer}");
        }
        assert_eq!(
            said(&format!("enforcer: {enforcer}\nmode: RuntimeDefault")),
            [""; 0]
        );
    }
    assert_eq!(
        said("enforcer: NetworkProxy\nmode: AlwaysAllow"),
        [
            "p.yaml:7:15: error: the enforcer NetworkProxy is not supported yet\n  help: add AppArmor, BPF or Seccomp to \
          `enforcer`"
        ]
    );
}

#[test]
fn rules_of_enforcers_that_the_policy_does_not_name_are_named_and_not_dropped_silently() {
    let said = said(&enhance(
        "appArmorRawRules: [{rules: 'deny /x r,'}]\nsyscallRawRules: [{names: [x], action: SCMP_ACT_ERRNO}]",
    ));
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("add AppArmor to `enforcer`"), "{}", said[0]);
}

#[test]
fn a_rule_that_only_some_of_the_enforcers_hold_is_noted_and_one_that_none_holds_is_warned_of() {
    let rules =
        "attackProtectionRules: [{rules: [disable-chmod-s-bit, block-access-to-aws-metadata-service]}]";
    let with = |enforcer: &str| enhance(rules).replace("enforcer: BPF", &format!("enforcer: {enforcer}"));
    let lines = said(&with("AppArmorBPF"));
    assert!(
        lines[0].contains("warning: the AppArmor and BPF enforcer cannot hold"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].contains("note:") && lines[1].contains("is held by BPF only"),
        "{}",
        lines[1]
    );
    let lines = said(&with("AppArmor"));
    assert!(
        lines.iter().all(|line| line.contains("it has no effect")),
        "{lines:?}"
    );
    let lines = said(&with("BPFSeccomp"));
    assert!(lines.iter().all(|line| line.contains("note:")), "{lines:?}");
}

#[test]
fn of_a_policy_for_seccomp_its_compiler_says_what_is_held_and_nothing_is_said_twice() {
    let fields = "hardeningRules: [disallow-create-user-ns, disallow-umount, \
                  disable-cap-privileged]\nattackProtectionRules: [{rules: [disable-shell], targets: \
                  [/bin/x]}]\nsyscallRawRules: [{names: [mkdir], action: SCMP_ACT_LOG, errnoRet: 1}]\nallowViolations: true";
    let policy = enhance(fields).replace("enforcer: BPF", "enforcer: Seccomp");
    let lines = said(&policy);
    assert!(lines.len() >= 3, "{lines:?}");
    let loaded = load("p.yaml", text(&policy).as_bytes());
    let compiled = seccomp::compile(&loaded.documents[0], Inputs::default());
    assert_eq!(lines, compiled.diagnostics.iter().map(render).collect::<Vec<_>>());
    assert_eq!(profile(&policy).seccomp, [compiled.profile.expect("no errors")]);
}

#[test]
fn a_filter_that_needs_a_recording_is_built_with_one_and_refused_without() {
    let policy =
        "enforcer: Seccomp\nmode: DefenseInDepth\ndefenseInDepth: {seccomp: {profileType: BehaviorModel}}";
    let lines = said(policy);
    assert!(
        lines.len() == 1 && lines[0].contains("no behaviour model for this policy yet"),
        "{lines:?}"
    );
    let observed = DynamicResult {
        seccomp: Some(ObservedSyscalls {
            syscalls: vec!["mkdir".to_owned()],
        }),
        ..DynamicResult::default()
    };
    let inputs = Inputs {
        model: Some(&observed),
        ..Inputs::default()
    };
    let loaded = load("p.yaml", text(policy).as_bytes());
    let built = build_with(&loaded.documents[0], &NodeFacts::default(), inputs);
    let filter = &built.profile.expect("a recording").seccomp[0];
    let allowed = filter.syscalls.iter().flat_map(|rule| &rule.names);
    assert_eq!(allowed.filter(|name| *name == "mkdir").count(), 1);
}

#[test]
fn rules_for_single_executables_are_kept_apart() {
    let fields = "attackProtectionRules:\n- {rules: [disable-shell], targets: [/bin/b, /bin/a]}\n- {rules: \
                  [disable-wget]}\n- {rules: [disable-curl], targets: [/bin/a, /bin/b]}";
    let profile = profile(&enhance(fields));
    assert_eq!(objects(&profile), ["x /**/wget"]);
    let [group] = &profile.targets[..] else {
        panic!("the same targets twice are one group: {:?}", profile.targets)
    };
    assert_eq!(group.executables, ["/bin/a", "/bin/b"]);
    let ids: Vec<&str> = group.rules.iter().map(|rule| rule.id.as_str()).collect();
    assert_eq!(
        ids,
        ["disable-shell", "disable-shell", "disable-shell", "disable-curl"]
    );
    assert_eq!(said(&enhance(fields)), [""; 0]);
}

#[test]
fn a_seventh_group_of_targets_is_an_error_at_its_place() {
    let groups: Vec<String> = (0..7)
        .map(|number| format!("- {{rules: [disable-shell], targets: [/bin/{number}]}}"))
        .collect();
    let fields = format!("attackProtectionRules:\n{}", groups.join("\n"));
    assert!(built(&enhance(&fields)).profile.is_none());
    assert_eq!(
        said(&enhance(&fields)),
        [
            "p.yaml:18:43: error: these are more than 6 different lists of `targets`\n  help: give more rules the same targets, \
          or the whole container"
        ]
    );
}
