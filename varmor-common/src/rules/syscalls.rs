//! What built-in rules are to the Seccomp enforcer: the system calls that they refuse, as data.
//!
//! A filter sees the system call and its six registers, no memory. So three things are said besides the obvious:
//! - The kernel cuts arguments of type `int` to 32 bits; a comparison of all 64 would be passed by a bit above them.
//! - `socketcall` and `ipc` of 32-bit x86 hide their arguments in memory: the whole call is refused.
//! - Calls that take their flags in a structure (`clone3`, `openat2`, `io_uring`) answer "not implemented", so that
//!   programs fall back to the calls that a filter can judge; "not permitted" would make the C library fail.

/// What a built-in rule is to the Seccomp enforcer.
#[derive(Clone, Copy, Debug)]
pub struct SyscallRule {
    pub id: &'static str,
    pub coverage: Coverage,
    pub parts: &'static [SyscallPart],
}

/// How much of a rule system calls can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// The rule's description holds by this enforcer alone.
    Whole,
    /// It closes ways for which other enforcers have no hook; what is left to them.
    Supplement(&'static str),
}

/// System calls that are refused if all conditions hold.
#[derive(Clone, Copy, Debug)]
pub struct SyscallPart {
    pub names: &'static [&'static str],
    pub when: &'static [ArgumentBits],
    pub errno: u32,
}

/// `argument & mask == value`.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentBits {
    pub index: u32,
    pub mask: u64,
    pub value: u64,
}

/// `EPERM`
pub const NOT_PERMITTED: u32 = 1;
/// `ENOSYS`
pub const NOT_IMPLEMENTED: u32 = 38;

/// The part of this rule; none if system calls cannot hold any of it.
#[must_use]
pub fn find(id: &str) -> Option<&'static SyscallRule> {
    RULES.iter().find(|rule| rule.id == id)
}

/// Every rule that has such a part.
pub const RULES: &[SyscallRule] = &[
    whole("disallow-create-user-ns", USER_NAMESPACES),
    SyscallRule {
        id: "disallow-abuse-user-ns",
        coverage: Coverage::Supplement(
            "the filter refuses creating user namespaces; what CAP_SYS_ADMIN gives is left to AppArmor and BPF",
        ),
        parts: USER_NAMESPACES,
    },
    whole(
        "disallow-load-all-bpf-prog",
        &[refused_if(&["bpf"], &[int(0, 5)])],
    ),
    whole(
        "disallow-load-bpf-via-setsockopt",
        &[
            // SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF and _EBPF of SOL_SOCKET.
            refused_if(&["setsockopt"], &[int(1, 1), int(2, 26)]),
            refused_if(&["setsockopt"], &[int(1, 1), int(2, 50)]),
            refused_if(&["setsockopt"], &[int(1, 1), int(2, 51)]),
            refused_if(&["setsockopt"], &[int(1, 1), int(2, 52)]),
            // PACKET_FANOUT_DATA of SOL_PACKET brings the program of a fanout group.
            refused_if(&["setsockopt"], &[int(1, 263), int(2, 22)]),
            // SYS_SETSOCKOPT
            refused_if(&["socketcall"], &[int(0, 14)]),
            IO_URING,
        ],
    ),
    whole(
        "disallow-userfaultfd-creation",
        &[
            refused(&["userfaultfd"]),
            // USERFAULTFD_IOC_NEW of /dev/userfaultfd
            refused_if(&["ioctl"], &[int(1, 0xaa00)]),
        ],
    ),
    whole("dirty-pipe-mitigation", &[refused(&["splice"]), IO_URING]),
    whole(
        "disable-chmod-x-bit",
        &[
            refused_if(CHMOD_SECOND, &[bit(1, 0o100)]),
            refused_if(CHMOD_SECOND, &[bit(1, 0o010)]),
            refused_if(CHMOD_SECOND, &[bit(1, 0o001)]),
            refused_if(CHMOD_THIRD, &[bit(2, 0o100)]),
            refused_if(CHMOD_THIRD, &[bit(2, 0o010)]),
            refused_if(CHMOD_THIRD, &[bit(2, 0o001)]),
        ],
    ),
    whole("disable-chmod-s-bit", S_BITS),
    whole(
        "disallow-insmod",
        &[refused(&["init_module", "finit_module", "delete_module"])],
    ),
    whole("disallow-umount", &[refused(&["umount", "umount2"])]),
    whole(
        "disallow-mount",
        &[
            refused(&["mount", "pivot_root"]),
            NEW_MOUNTS,
            CLONED_TREE,
            JOIN_ANY_NAMESPACE,
            JOIN_MOUNT_NAMESPACE,
        ],
    ),
    mounts("disallow-mount-securityfs"),
    mounts("disallow-mount-procfs"),
    mounts("disallow-mount-cgroupfs"),
    mounts("disallow-mount-disk-device"),
    whole(
        "disable-network",
        &[
            refused(&["socket", "socketpair"]),
            SOCKETCALL_SOCKET,
            SOCKETCALL_PAIR,
            IO_URING,
        ],
    ),
    whole(
        "disable-inet",
        &[socket(&[int(0, 2)]), SOCKETCALL_SOCKET, IO_URING],
    ),
    whole(
        "disable-inet6",
        &[socket(&[int(0, 10)]), SOCKETCALL_SOCKET, IO_URING],
    ),
    whole(
        "disable-unix-domain-socket",
        &[socket(&[int(0, 1)]), SOCKETCALL_SOCKET, SOCKETCALL_PAIR, IO_URING],
    ),
    whole(
        "copy-fail-mitigation",
        &[socket(&[int(0, 38)]), SOCKETCALL_SOCKET, IO_URING],
    ),
];

/// `chmod` and its kin with the mode in the second argument.
const CHMOD_SECOND: &[&str] = &["chmod", "fchmod"];
/// The same with the mode in the third.
const CHMOD_THIRD: &[&str] = &["fchmodat", "fchmodat2"];

const CLONE_NEWUSER: u64 = 0x1000_0000;
const CLONE_NEWNS: u64 = 0x0002_0000;

/// Making a user namespace, and entering one.
const USER_NAMESPACES: &[SyscallPart] = &[
    refused_if(&["unshare", "clone"], &[bit(0, CLONE_NEWUSER)]),
    absent(&["clone3"]),
    refused_if(&["setns"], &[bit(1, CLONE_NEWUSER)]),
    JOIN_ANY_NAMESPACE,
];

/// Type 0 accepts a namespace of any type.
const JOIN_ANY_NAMESPACE: SyscallPart = refused_if(&["setns"], &[int(1, 0)]);
const JOIN_MOUNT_NAMESPACE: SyscallPart = refused_if(&["setns"], &[bit(1, CLONE_NEWNS)]);

/// The mount interface of Linux 5.2. AppArmor has hooks for mount(2) alone, and libmount falls back to that.
const NEW_MOUNTS: SyscallPart = absent(&[
    "fsopen",
    "fspick",
    "fsconfig",
    "fsmount",
    "move_mount",
    "mount_setattr",
    "open_tree_attr",
]);
/// `OPEN_TREE_CLONE`: without it `open_tree` is only another `open`.
const CLONED_TREE: SyscallPart = SyscallPart {
    names: &["open_tree"],
    when: &[bit(2, 1)],
    errno: NOT_IMPLEMENTED,
};

/// Requests of a ring are carried out without a system call: opening, splicing, sockets and their options.
const IO_URING: SyscallPart = absent(&["io_uring_setup"]);

/// `SYS_SOCKET`: the family stands in memory.
const SOCKETCALL_SOCKET: SyscallPart = refused_if(&["socketcall"], &[int(0, 1)]);
/// `SYS_SOCKETPAIR`
const SOCKETCALL_PAIR: SyscallPart = refused_if(&["socketcall"], &[int(0, 8)]);

/// Changing the mode, and creating with such a mode; the mode counts only where something is created.
const S_BITS: &[SyscallPart] = &[
    refused_if(CHMOD_SECOND, &[bit(1, SET_USER)]),
    refused_if(CHMOD_SECOND, &[bit(1, SET_GROUP)]),
    refused_if(CHMOD_THIRD, &[bit(2, SET_USER)]),
    refused_if(CHMOD_THIRD, &[bit(2, SET_GROUP)]),
    refused_if(&["creat", "mknod"], &[bit(1, SET_USER)]),
    refused_if(&["creat", "mknod"], &[bit(1, SET_GROUP)]),
    refused_if(&["mknodat"], &[bit(2, SET_USER)]),
    refused_if(&["mknodat"], &[bit(2, SET_GROUP)]),
    refused_if(&["open"], &[bit(1, CREATE), bit(2, SET_USER)]),
    refused_if(&["open"], &[bit(1, CREATE), bit(2, SET_GROUP)]),
    refused_if(&["open"], &[bit(1, TEMPORARY), bit(2, SET_USER)]),
    refused_if(&["open"], &[bit(1, TEMPORARY), bit(2, SET_GROUP)]),
    refused_if(&["openat"], &[bit(2, CREATE), bit(3, SET_USER)]),
    refused_if(&["openat"], &[bit(2, CREATE), bit(3, SET_GROUP)]),
    refused_if(&["openat"], &[bit(2, TEMPORARY), bit(3, SET_USER)]),
    refused_if(&["openat"], &[bit(2, TEMPORARY), bit(3, SET_GROUP)]),
    absent(&["openat2"]),
    IO_URING,
];
const SET_USER: u64 = 0o4000;
const SET_GROUP: u64 = 0o2000;
/// `O_CREAT`
const CREATE: u64 = 0o100;
/// The bit of `O_TMPFILE` that no other flag has.
const TEMPORARY: u64 = 0o20_000_000;

const fn whole(id: &'static str, parts: &'static [SyscallPart]) -> SyscallRule {
    SyscallRule {
        id,
        coverage: Coverage::Whole,
        parts,
    }
}

/// A rule about some mounts: their types and sources stand in memory.
const fn mounts(id: &'static str) -> SyscallRule {
    SyscallRule {
        id,
        coverage: Coverage::Supplement(
            "the filter refuses the new mount interface; mount(2) names its type and source in memory, which \
             AppArmor and BPF can read",
        ),
        parts: &[NEW_MOUNTS, CLONED_TREE],
    }
}

/// Sockets of one family, also in pairs.
const fn socket(family: &'static [ArgumentBits]) -> SyscallPart {
    refused_if(&["socket", "socketpair"], family)
}

const fn refused(names: &'static [&'static str]) -> SyscallPart {
    refused_if(names, &[])
}

const fn refused_if(names: &'static [&'static str], when: &'static [ArgumentBits]) -> SyscallPart {
    SyscallPart {
        names,
        when,
        errno: NOT_PERMITTED,
    }
}

const fn absent(names: &'static [&'static str]) -> SyscallPart {
    SyscallPart {
        names,
        when: &[],
        errno: NOT_IMPLEMENTED,
    }
}

/// An argument of type `int`.
const fn int(index: u32, value: u64) -> ArgumentBits {
    ArgumentBits {
        index,
        mask: 0xffff_ffff,
        value,
    }
}

/// A bit that is set.
const fn bit(index: u32, bit: u64) -> ArgumentBits {
    ArgumentBits {
        index,
        mask: bit,
        value: bit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Enforcers;
    use crate::{compile::seccomp::is_syscall, rules};

    #[test]
    fn every_rule_of_the_enforcer_has_its_part_and_holds_it_alone() {
        let mut rules_of_the_enforcer = 0;
        for rule in rules::catalogue().filter(|rule| rule.enforcers.contains(Enforcers::SECCOMP)) {
            let part = find(rule.id).unwrap_or_else(|| panic!("{} has no system calls", rule.id));
            rules_of_the_enforcer += usize::from(part.coverage == Coverage::Whole);
        }
        assert!(rules_of_the_enforcer >= 7, "{rules_of_the_enforcer}");
    }

    #[test]
    fn every_part_belongs_to_a_rule_and_names_system_calls() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(rules::find(rule.id).map(|found| found.id), Some(rule.id));
            assert!(
                RULES[..index].iter().all(|other| other.id != rule.id),
                "{} twice",
                rule.id
            );
            assert!(!rule.parts.is_empty());
            for part in rule.parts {
                for name in part.names {
                    assert!(is_syscall(name), "{}: {name}", rule.id);
                }
                for when in part.when {
                    assert!(
                        when.index < 6 && when.value & !when.mask == 0,
                        "{}: {when:?}",
                        rule.id
                    );
                }
            }
        }
    }
}
