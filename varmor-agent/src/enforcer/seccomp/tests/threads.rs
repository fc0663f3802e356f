//! Filters in the kernel of this machine. A thread has its own filter, and takes it with it when it ends.

use varmor_common::compile::seccomp::{Architecture, OciSeccomp};

use super::super::check::{Threads, number};
use super::super::{assemble, raw};
use super::cases::CASES;
use super::{profile, rules};

const PERM: i32 = 1;
const NOSYS: i32 = 38;
/// An address that no process has.
const NOWHERE: u64 = 0;

/// What a question finds in a thread with the filter.
fn under<T: Send + 'static>(filter: OciSeccomp, question: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(move || {
        let mut filter = assemble(&filter).unwrap();
        filter.prepare(Threads::This).unwrap();
        filter.load().unwrap();
        question()
    })
    .join()
    .unwrap()
}

fn call(name: &str, arguments: &[u64]) -> Result<i64, i32> {
    let mut all = [NOWHERE; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    raw::call(number(Architecture::HERE[0], name).unwrap(), all)
}

#[test]
fn the_kernel_refuses_what_the_interpreter_does() {
    for case in CASES {
        let answers = under(rules(&[case.rule]), move || {
            case.refused
                .iter()
                .filter(|((name, _), _)| number(Architecture::HERE[0], name).is_ok())
                .map(|((name, arguments), errno)| (*name, call(name, arguments), i32::from(*errno)))
                .collect::<Vec<_>>()
        });
        assert!(!answers.is_empty(), "{}", case.rule);
        for (name, answer, errno) in answers {
            assert_eq!(answer, Err(errno), "{} {name}", case.rule);
        }
    }
}

#[test]
fn calls_beside_the_refused_ones_reach_the_kernel() {
    /// Rule, call, arguments and what the kernel itself answers: an error that is not the filter's, or success.
    type Case<'c> = (&'c str, &'c str, &'c [u64], Result<(), i32>);
    let cases: &[Case<'_>] = &[
        (
            "disallow-create-user-ns",
            "setns",
            &[u64::MAX, 0x2_0000],
            Err(libc::EBADF),
        ),
        ("disallow-create-user-ns", "unshare", &[0], Ok(())),
        (
            "disallow-load-all-bpf-prog",
            "bpf",
            &[1, NOWHERE, 16],
            Err(libc::EFAULT),
        ),
        (
            "disallow-load-bpf-via-setsockopt",
            "setsockopt",
            &[u64::MAX, 1, 2],
            Err(libc::EBADF),
        ),
        (
            "disallow-userfaultfd-creation",
            "ioctl",
            &[u64::MAX, 0x5401],
            Err(libc::EBADF),
        ),
        (
            "dirty-pipe-mitigation",
            "tee",
            &[u64::MAX, u64::MAX, 1],
            Err(libc::EBADF),
        ),
        (
            "disable-chmod-x-bit",
            "fchmod",
            &[u64::MAX, 0o644],
            Err(libc::EBADF),
        ),
        (
            "disable-chmod-s-bit",
            "fchmod",
            &[u64::MAX, 0o755],
            Err(libc::EBADF),
        ),
        (
            "disable-chmod-s-bit",
            "openat",
            &[u64::MAX, NOWHERE, 0, 0o4755],
            Err(libc::EFAULT),
        ),
        ("disallow-umount", "mount", &[NOWHERE, NOWHERE], Err(libc::EFAULT)),
        ("disallow-mount", "umount2", &[NOWHERE], Err(libc::EFAULT)),
        ("disable-inet", "socket", &[1, 1, 0], Ok(())),
        ("disable-unix-domain-socket", "socket", &[2, 1, 0], Ok(())),
        ("copy-fail-mitigation", "socket", &[2, 1, 0], Ok(())),
        ("disable-network", "bind", &[u64::MAX], Err(libc::EBADF)),
    ];
    for (rule, name, arguments, expected) in cases {
        let answer = under(rules(&[rule]), move || call(name, arguments));
        assert_eq!(answer.map(|_| ()), *expected, "{rule} {name}");
    }
}

#[test]
fn work_goes_on_under_the_default_of_container_runtimes() {
    let (file, process, refused) = under(profile("mode: RuntimeDefault"), || {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "text").unwrap();
        let process = std::process::Command::new("true").status().unwrap().success();
        let file = std::fs::read_to_string(folder.path().join("file")).unwrap();
        let refused = [("unshare", 0x1000_0000), ("mount", NOWHERE), ("keyctl", 0)]
            .map(|(name, first)| call(name, &[first]));
        (file, process, refused)
    });
    assert_eq!(file, "text");
    assert!(process);
    assert_eq!(refused, [Err(PERM); 3]);
}

#[test]
fn a_filter_of_a_model_lets_a_runtime_start_the_workload() {
    use varmor_common::compile::seccomp::{Inputs, compile};
    use varmor_common::policy::{self, DynamicResult, ObservedSyscalls};
    let text = "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {name: x}\nspec:\n  target: \
                {kind: Pod, name: x}\n  policy: {enforcer: Seccomp, mode: DefenseInDepth, defenseInDepth: {seccomp: \
                {profileType: BehaviorModel}}}\n";
    let loaded = policy::load("x", text.as_bytes());
    let observed = DynamicResult {
        seccomp: Some(ObservedSyscalls {
            syscalls: vec!["wait4".into(), "vfork".into(), "poll".into(), "clone3".into()],
        }),
        ..DynamicResult::default()
    };
    let inputs = Inputs {
        model: Some(&observed),
        ..Inputs::default()
    };
    let filter = compile(&loaded.documents[0], inputs).profile.unwrap();
    let (process, refused) = under(filter, || {
        // The child inherits the filter, executes, and ends.
        let process = std::process::Command::new("/bin/true")
            .status()
            .map(|status| status.success());
        (process, call("ptrace", &[0]))
    });
    assert!(process.unwrap());
    assert_eq!(refused, Err(PERM));
}

/// `int 0x80` enters the kernel with the numbers of 32-bit x86.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_gate_for_32_bit_programs_is_guarded() {
    const GETPID: u32 = 20;
    match std::thread::spawn(|| raw::call_32(GETPID, [0; 3]))
        .join()
        .unwrap()
    {
        Ok(_) => {}
        Err(NOSYS) => {
            eprintln!("this kernel has no 32-bit gate: getpid(2) answers ENOSYS");
            return;
        }
        Err(other) => panic!("getpid through the 32-bit gate: error {other}"),
    }
    let number_32 = |name| number(Architecture::X86, name).unwrap();
    let (unshare, setsockopt, socketcall) = (number_32("unshare"), number_32("setsockopt"), 102);
    let answers = under(
        rules(&[
            "disallow-create-user-ns",
            "disallow-load-bpf-via-setsockopt",
            "copy-fail-mitigation",
        ]),
        move || {
            [
                raw::call_32(unshare, [0x1000_0000, 0, 0]),
                raw::call_32(setsockopt, [u32::MAX, 1, 26]),
                raw::call_32(socketcall, [14, 0, 0]),
                raw::call_32(socketcall, [1, 0, 0]),
                raw::call_32(socketcall, [2, 0, 0]),
                raw::call_32(unshare, [0, 0, 0]),
            ]
        },
    );
    let refused = Err(PERM);
    assert_eq!(
        answers,
        [refused, refused, refused, refused, Err(libc::EFAULT), Ok(0)]
    );
}

/// The x32 bit in the number; kernels without x32 answer as if there were no such call, but ask the filter first.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_numbers_of_x32_are_guarded() {
    let unshare = number(Architecture::X32, "unshare").unwrap();
    let splice = number(Architecture::X32, "splice").unwrap();
    let answers = under(
        rules(&["disallow-create-user-ns", "dirty-pipe-mitigation"]),
        move || {
            [
                raw::call(unshare, [0x1000_0000, 0, 0, 0, 0, 0]),
                raw::call(splice, [0; 6]),
            ]
        },
    );
    assert_eq!(answers, [Err(PERM); 2]);
}
