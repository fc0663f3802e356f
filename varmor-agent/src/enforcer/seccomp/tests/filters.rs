//! Every filter in the interpreter, on every architecture of the machine.

use varmor_common::compile::seccomp::{self as compiler, Action, Architecture};
use varmor_common::rules::syscalls::RULES;

use super::super::check::number;
use super::super::{Answer, Program, assemble};
use super::cases::{Asked, CASES};
use super::{profile, rules};

/// The program of a filter that libseccomp knows all names of, but those that are newer than it.
fn program(profile: &compiler::OciSeccomp) -> Program {
    let filter = assemble(profile).unwrap();
    for name in filter.skipped() {
        assert!(NEWER_THAN_LIBSECCOMP.contains(&name.as_str()), "{name}");
    }
    filter.program().unwrap()
}

/// Linux 6.8 to 6.17; libseccomp 2.5 is of 2022.
const NEWER_THAN_LIBSECCOMP: &[&str] = &[
    "file_getattr",
    "file_setattr",
    "getxattrat",
    "listmount",
    "listxattrat",
    "lsm_get_self_attr",
    "lsm_list_modules",
    "lsm_set_self_attr",
    "mseal",
    "open_tree_attr",
    "removexattrat",
    "setxattrat",
    "statmount",
    "uprobe",
    "uretprobe",
];

/// The answer, on each architecture that has the call.
fn ask(program: &Program, (name, arguments): Asked) -> Vec<(Architecture, Answer)> {
    let answers: Vec<_> = Architecture::X86_MACHINE
        .iter()
        .filter(|architecture| number(**architecture, name).is_ok())
        .map(|architecture| {
            (
                *architecture,
                program.ask(*architecture, name, arguments).unwrap(),
            )
        })
        .collect();
    assert!(!answers.is_empty(), "no architecture has {name}");
    answers
}

#[test]
fn every_rule_refuses_its_calls_and_no_others_on_every_architecture() {
    let mut asked = 0;
    for rule in RULES {
        let case = CASES
            .iter()
            .find(|case| case.rule == rule.id)
            .unwrap_or_else(|| panic!("{} has no case", rule.id));
        let program = program(&rules(&[rule.id]));
        for (call, errno) in case.refused {
            for (architecture, answer) in ask(&program, *call) {
                assert_eq!(
                    answer,
                    Answer::Errno(*errno),
                    "{} {call:?} {architecture}",
                    rule.id
                );
                asked += 1;
            }
        }
        for call in case.allowed {
            for (architecture, answer) in ask(&program, *call) {
                assert_eq!(answer, Answer::Allow, "{} {call:?} {architecture}", rule.id);
                asked += 1;
            }
        }
    }
    assert!(asked > 250, "{asked}");
}

/// A fixed sequence that looks random, so that a failure comes back.
fn shuffled(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn every_combination_of_rules_compiles_and_refuses_all_that_each_does() {
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let pairs = (0..CASES.len()).flat_map(|one| (0..one).map(move |two| (1u64 << one) | (1 << two)));
    let random = (0..150).map(|_| shuffled(&mut seed));
    for set in pairs.chain(random).chain([u64::MAX]) {
        let chosen: Vec<_> = CASES
            .iter()
            .enumerate()
            .filter(|(place, _)| set & (1 << place) != 0)
            .map(|(_, case)| case)
            .collect();
        let ids: Vec<&str> = chosen.iter().map(|case| case.rule).collect();
        let program = program(&rules(&ids));
        for case in &chosen {
            for (call, _) in case.refused {
                for (architecture, answer) in ask(&program, *call) {
                    assert!(
                        matches!(answer, Answer::Errno(_)),
                        "{ids:?} {call:?} {architecture} {answer:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_other_machine_has_filters_too() {
    for rule in RULES {
        let mut arm = rules(&[rule.id]);
        arm.architectures = Architecture::ARM_MACHINE.to_vec();
        let program = program(&arm);
        let case = CASES.iter().find(|case| case.rule == rule.id).unwrap();
        for ((name, arguments), errno) in case.refused {
            if number(Architecture::Aarch64, name).is_ok() {
                let answer = program.ask(Architecture::Aarch64, name, arguments).unwrap();
                assert_eq!(answer, Answer::Errno(*errno), "{} {name}", rule.id);
            }
        }
    }
}

#[test]
fn runtime_default_keeps_containers_from_what_needs_privileges() {
    let program = program(&profile("mode: RuntimeDefault"));
    for call in [
        ("mount", [0; 3]),
        ("bpf", [0; 3]),
        ("unshare", [0x1000_0000, 0, 0]),
        ("clone", [0x1000_0011, 0, 0]),
        ("keyctl", [0; 3]),
        ("add_key", [0; 3]),
        ("io_uring_setup", [0; 3]),
        ("userfaultfd", [0; 3]),
        ("kexec_load", [0; 3]),
        ("personality", [0x40000, 0, 0]),
        ("open_by_handle_at", [0; 3]),
        ("perf_event_open", [0; 3]),
    ] {
        for architecture in Architecture::X86_MACHINE {
            let answer = program.ask(*architecture, call.0, &call.1).unwrap();
            assert_eq!(answer, Answer::Errno(1), "{} {architecture}", call.0);
        }
    }
    let here = |name, arguments: &[u64]| program.ask(Architecture::X86_64, name, arguments).unwrap();
    for family in [38, 40, 0x1_0000_0026, 0x1_0000_0028, 46, 1 << 40] {
        assert_eq!(
            here("socket", &[family, 1, 0]),
            Answer::Errno(1),
            "family {family}"
        );
    }
    for family in [1, 2, 10, 16, 17, 39, 41, 44, 45] {
        assert_eq!(here("socket", &[family, 1, 0]), Answer::Allow, "family {family}");
    }
    assert_eq!(here("clone3", &[]), Answer::Errno(38));
    for (name, arguments) in [
        ("clone", &[0x3d_0f00u64][..]),
        ("execve", &[]),
        ("personality", &[0]),
        ("openat", &[]),
    ] {
        assert_eq!(here(name, arguments), Answer::Allow, "{name}");
    }
}

#[test]
fn other_architectures_and_unknown_calls_are_no_way_around() {
    use super::super::cbpf::Call;
    let program = program(&profile("mode: RuntimeDefault"));
    let foreign = Call {
        number: 0,
        architecture: 0x8000_0016,
        ..Call::default()
    };
    assert_eq!(program.run(&foreign), Ok(Answer::KillThread));
    let unknown = Call {
        number: 900,
        architecture: 0xc000_003e,
        ..Call::default()
    };
    assert_eq!(program.run(&unknown), Ok(Answer::Errno(1)));
    // x32 has numbers of its own for some calls: 512 and above.
    assert!(number(Architecture::X32, "execve").unwrap() > 0x4000_0200);
    assert_eq!(
        program.ask(Architecture::X32, "execve", &[]).unwrap(),
        Answer::Allow
    );
}

#[test]
fn modes_that_log_answer_log() {
    let logged = program(&profile(
        "mode: EnhanceProtect, enhanceProtect: {allowViolations: true, vulMitigationRules: [dirty-pipe-mitigation]}",
    ));
    assert_eq!(
        logged.ask(Architecture::X86_64, "splice", &[]).unwrap(),
        Answer::Log
    );
    let modelled = program(&profile("mode: BehaviorModeling, modelingOptions: {duration: 1}"));
    assert_eq!(
        modelled.ask(Architecture::X86_64, "mount", &[]).unwrap(),
        Answer::Log
    );
    assert_eq!(
        modelled.ask(Architecture::X86_64, "read", &[]).unwrap(),
        Answer::Allow
    );
}

#[test]
fn raw_rules_decide_as_they_say() {
    let program = program(&profile(
        "mode: EnhanceProtect, enhanceProtect: {syscallRawRules: [\
         {names: [kill], action: SCMP_ACT_ERRNO, errnoRet: 13, args: [{index: 1, value: 9, op: SCMP_CMP_GE}]}, \
         {names: [kill], action: SCMP_ACT_LOG, args: [{index: 1, value: 9, op: SCMP_CMP_LT}]}, \
         {names: [ptrace], action: SCMP_ACT_KILL_PROCESS}, {names: [tee], action: SCMP_ACT_TRAP}]}",
    ));
    let here = |name, arguments: &[u64]| program.ask(Architecture::X86_64, name, arguments).unwrap();
    assert_eq!(here("kill", &[1, 9]), Answer::Errno(13));
    assert_eq!(here("kill", &[1, 8]), Answer::Log);
    assert_eq!(here("ptrace", &[]), Answer::KillProcess);
    assert_eq!(here("tee", &[]), Answer::Trap);
    assert_eq!(here("read", &[]), Answer::Allow);
}

#[test]
fn libseccomp_and_our_table_know_the_same_names() {
    for name in compiler::syscalls() {
        let known = libseccomp::ScmpSyscall::from_name(name).is_ok();
        assert_eq!(known, !NEWER_THAN_LIBSECCOMP.contains(&name), "{name}");
    }
    for number in 0..1024 {
        for architecture in [
            libseccomp::ScmpArch::X8664,
            libseccomp::ScmpArch::X86,
            libseccomp::ScmpArch::Aarch64,
        ] {
            if let Ok(name) = libseccomp::ScmpSyscall::from(number).get_name_by_arch(architecture) {
                assert!(compiler::is_syscall(&name), "{name}");
            }
        }
    }
}

#[test]
fn an_empty_filter_allows_everything() {
    let open = profile("mode: AlwaysAllow");
    assert_eq!(open.default_action, Action::Allow);
    assert_eq!(
        program(&open).ask(Architecture::X86, "mount", &[]).unwrap(),
        Answer::Allow
    );
}

/// What `varmor explain` and `varmor simulate` say about system calls is what the kernel's program says.
#[test]
fn the_judge_agrees_with_the_program_on_generated_calls() {
    use varmor_common::analysis::{Judge, Operation, Outcome};
    use varmor_common::compile::seccomp::{Inputs, compile};
    use varmor_common::profile::Profile;
    let names: Vec<&str> = compiler::syscalls()
        .filter(|name| number(Architecture::X86_64, name).is_ok())
        .collect();
    let values = [
        0,
        1,
        5,
        26,
        38,
        0o755,
        0o4755,
        0o101,
        0x2_0000,
        0x1000_0000,
        0x1_0000_0005,
        u64::MAX,
    ];
    let mut seed = 0x1234_5678_9abc_def1;
    let mut asked = 0;
    let mut denied = 0;
    let mut policies = vec!["mode: RuntimeDefault".to_owned(), "mode: AlwaysAllow".to_owned()];
    policies.extend((0..30).map(|_| {
        let set = shuffled(&mut seed);
        let chosen = CASES
            .iter()
            .enumerate()
            .filter(|(place, _)| set & (1 << place) != 0);
        let ids: Vec<&str> = chosen.map(|(_, case)| case.rule).collect();
        format!(
            "mode: EnhanceProtect, enhanceProtect: {{hardeningRules: [{}], allowViolations: {}}}",
            ids.join(", "),
            set & (1 << 40) != 0
        )
    }));
    for policy in &policies {
        let document = super::document(policy);
        let compiled = compile(&document, Inputs::default());
        let program = program(compiled.profile.as_ref().unwrap());
        let judge = Judge::new(Profile::default(), vec![compiled]).unwrap();
        let random = (0..400).map(|_| names[usize::try_from(shuffled(&mut seed)).unwrap() % names.len()]);
        let known = CASES
            .iter()
            .flat_map(|case| case.refused.iter().map(|((name, _), _)| *name));
        let calls: Vec<&str> = random.chain(known.filter(|name| names.contains(name))).collect();
        for name in calls {
            let mut arguments = [0; 6];
            for argument in &mut arguments {
                *argument = values[usize::try_from(shuffled(&mut seed)).unwrap() % values.len()];
            }
            let answer = program.ask(Architecture::X86_64, name, &arguments).unwrap();
            let operation = Operation::Syscall {
                name: name.to_owned(),
                arguments,
            };
            let expected = match answer {
                Answer::Allow => Outcome::Allowed,
                Answer::Log => Outcome::Audited,
                _ => Outcome::Denied,
            };
            assert_eq!(judge.outcome(&operation, 0), expected, "{policy}: {operation}");
            asked += 1;
            denied += usize::from(expected == Outcome::Denied);
        }
    }
    assert!(asked > 10_000 && denied > 500, "{asked} asked, {denied} denied");
}
