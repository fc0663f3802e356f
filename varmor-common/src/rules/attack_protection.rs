//! Rules against sensitive operations: files and programs that attackers use.

use super::{APPARMOR_BPF, AppArmor, Bpf, BuiltinRule, Category, Contribution, SYSCALL};
use crate::policy::Enforcers;
use crate::profile::Access;

use Category::DisablingSensitiveOperations;

pub(super) const RULES: &[BuiltinRule] = &[
    BuiltinRule {
        id: "disable-write-etc",
        aliases: &[],
        category: DisablingSensitiveOperations,
        description: "refuses writing below /etc",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Path("/etc/**", Access::WRITE)]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disable-access-passwd",
        aliases: &[],
        category: DisablingSensitiveOperations,
        description: "refuses reading and writing /etc/passwd",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Path("/etc/passwd", Access::READ_WRITE)]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disable-access-shadow",
        aliases: &[],
        category: DisablingSensitiveOperations,
        description: "refuses reading and writing /etc/shadow",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Path("/etc/shadow", Access::READ_WRITE)]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disable-access-ssh-dir",
        aliases: &[],
        category: DisablingSensitiveOperations,
        description: "refuses reading and writing every .ssh folder and what is in it",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[
            Contribution::Path("/**/.ssh", Access::READ_WRITE),
            Contribution::Path("/**/.ssh/**", Access::READ_WRITE),
        ]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disable-write-skills",
        aliases: &[],
        category: DisablingSensitiveOperations,
        description: "refuses writing below every folder named skills",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Path("/**/skills/**", Access::WRITE)]),
        app_armor: AppArmor::AsBpf,
    },
    program(
        "disable-busybox",
        "refuses running busybox",
        &[Contribution::Path("/**/busybox", Access::EXEC)],
    ),
    program(
        "disable-shell",
        "refuses running sh, bash and dash",
        &[
            Contribution::Path("/**/sh", Access::EXEC),
            Contribution::Path("/**/bash", Access::EXEC),
            Contribution::Path("/**/dash", Access::EXEC),
        ],
    ),
    program(
        "disable-wget",
        "refuses running wget",
        &[Contribution::Path("/**/wget", Access::EXEC)],
    ),
    program(
        "disable-curl",
        "refuses running curl",
        &[Contribution::Path("/**/curl", Access::EXEC)],
    ),
    program(
        "disable-chmod",
        "refuses running the program chmod",
        &[Contribution::Path("/**/chmod", Access::EXEC)],
    ),
    program(
        "disable-su-sudo",
        "refuses running su and sudo",
        &[
            Contribution::Path("/**/su", Access::EXEC),
            Contribution::Path("/**/sudo", Access::EXEC),
        ],
    ),
    BuiltinRule {
        id: "disable-chmod-x-bit",
        aliases: &[],
        category: DisablingSensitiveOperations,
        description: "refuses making files executable",
        enforcers: Enforcers::SECCOMP,
        bpf: Bpf::Unsupported("the rule filters system calls; use the Seccomp enforcer"),
        app_armor: AppArmor::Unsupported(SYSCALL),
    },
    BuiltinRule {
        id: "disable-chmod-s-bit",
        aliases: &[],
        category: DisablingSensitiveOperations,
        description: "refuses making files set-user-id and set-group-id",
        enforcers: Enforcers::SECCOMP,
        bpf: Bpf::Unsupported("the rule filters system calls; use the Seccomp enforcer"),
        app_armor: AppArmor::Unsupported(SYSCALL),
    },
];

/// A rule about programs that are found in many places.
const fn program(
    id: &'static str,
    description: &'static str,
    contributions: &'static [Contribution],
) -> BuiltinRule {
    BuiltinRule {
        id,
        aliases: &[],
        category: DisablingSensitiveOperations,
        description,
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(contributions),
        app_armor: AppArmor::AsBpf,
    }
}
