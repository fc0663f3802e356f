//! Rules that harden containers, privileged ones above all.

use super::contribution::MountPart;
use super::{APPARMOR_BPF, AppArmor, Bpf, BuiltinRule, Category, Contribution, DiskUse, SYSCALL, capability};
use crate::abi::{MOUNT_UMOUNT, PTRACE_READ};
use crate::policy::Enforcers;
use crate::policy::vocabulary::TYPELESS_CALLS;
use crate::profile::{Access, CapabilitySet, PtraceAccess, PtraceRule, PtraceScope};

use Category::{BlockingExploitVectors, SecuringPrivilegedContainers};

pub(super) const RULES: &[BuiltinRule] = &[
    BuiltinRule {
        id: "disallow-write-core-pattern",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses writing /proc/sys/kernel/core_pattern, which runs a program on the host",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Path("/proc/sys/kernel/core_pattern", Access::WRITE)]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disallow-mount-securityfs",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses mounting a new securityfs",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[new_filesystem("securityfs")]),
        app_armor: AppArmor::Partly(NEW_MOUNT_API),
    },
    BuiltinRule {
        id: "disallow-mount-procfs",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses mounting a new procfs, and binding, moving, remounting and unmounting the one that is there",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[new_filesystem("proc"), existing_mount("/proc{,/**}")]),
        app_armor: AppArmor::Partly(NEW_MOUNT_API),
    },
    BuiltinRule {
        id: "disallow-write-release-agent",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses writing the release_agent of a cgroup, which runs a program on the host",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Path(
            "/sys/fs/cgroup/**/release_agent",
            Access::WRITE,
        )]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disallow-mount-cgroupfs",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses mounting a new cgroup hierarchy of either version, and binding, moving, remounting and \
                      unmounting what is below /sys",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[
            new_filesystem("cgroup"),
            new_filesystem("cgroup2"),
            existing_mount("/sys{,/**}"),
        ]),
        app_armor: AppArmor::Partly(NEW_MOUNT_API),
    },
    BuiltinRule {
        id: "disallow-debug-disk-device",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses reading and writing the disk devices of the node, by their numbers, and making nodes of them",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::DiskDevices(DiskUse::Open)]),
        app_armor: AppArmor::Partly(DISKS_BY_NAME),
    },
    BuiltinRule {
        id: "disallow-mount-disk-device",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses mounting the disk devices of the node, by their numbers",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::DiskDevices(DiskUse::Mount)]),
        app_armor: AppArmor::Partly(NEW_MOUNT_API),
    },
    BuiltinRule {
        id: "disallow-mount",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses every mount, remount, bind mount and move",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[EVERY_MOUNT]),
        app_armor: AppArmor::Partly(NEW_MOUNT_API),
    },
    BuiltinRule {
        id: "disallow-umount",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses every unmount",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Mount(MountPart {
            source: "**",
            fstype: None,
            any: MOUNT_UMOUNT,
            none: 0,
        })]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disallow-insmod",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses loading kernel modules (CAP_SYS_MODULE)",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Capabilities(CapabilitySet(capability::SYS_MODULE))]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disallow-load-bpf-prog",
        aliases: &["disallow-load-ebpf"],
        category: SecuringPrivilegedContainers,
        description: "refuses loading BPF programs that need a capability (CAP_SYS_ADMIN, CAP_BPF)",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Capabilities(CapabilitySet(
            capability::SYS_ADMIN | capability::BPF,
        ))]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disallow-access-procfs-root",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses reading /proc/PID/root and the like of processes outside the container",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Ptrace(PtraceRule {
            access: PtraceAccess(PTRACE_READ),
            scope: PtraceScope::Outside,
        })]),
        app_armor: AppArmor::Partly(
            "containers of the same policy have the same label, so they do not count as outside",
        ),
    },
    BuiltinRule {
        id: "disallow-access-kallsyms",
        aliases: &[],
        category: SecuringPrivilegedContainers,
        description: "refuses reading /proc/kallsyms, the addresses of the kernel's functions",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Path("/proc/kallsyms", Access::READ)]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disallow-abuse-user-ns",
        aliases: &[],
        category: BlockingExploitVectors,
        description: "refuses what CAP_SYS_ADMIN gives, also inside of a user namespace, and creating one (BPF: from 6.1 on; AppArmor: from 6.7 on, with apparmor_parser 4)",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[
            Contribution::Capabilities(CapabilitySet(capability::SYS_ADMIN)),
            Contribution::UserNamespace,
        ]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disallow-create-user-ns",
        aliases: &[],
        category: BlockingExploitVectors,
        description: "refuses creating user namespaces (BPF: from 6.1 on; AppArmor: from 6.7 on, with apparmor_parser 4)",
        enforcers: Enforcers::SECCOMP.union(APPARMOR_BPF),
        bpf: Bpf::Contributes(&[Contribution::UserNamespace]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disallow-load-all-bpf-prog",
        aliases: &[],
        category: BlockingExploitVectors,
        description: "refuses loading BPF programs of any type",
        enforcers: Enforcers::SECCOMP,
        bpf: Bpf::Unsupported(
            "the rule filters system calls; use the Seccomp enforcer, or disallow-load-bpf-prog",
        ),
        app_armor: AppArmor::Unsupported(SYSCALL),
    },
    BuiltinRule {
        id: "disallow-load-bpf-via-setsockopt",
        aliases: &[],
        category: BlockingExploitVectors,
        description: "refuses attaching classic BPF filters to sockets",
        enforcers: Enforcers::SECCOMP,
        bpf: Bpf::Unsupported("the rule filters system calls; use the Seccomp enforcer"),
        app_armor: AppArmor::Unsupported(SYSCALL),
    },
    BuiltinRule {
        id: "disallow-userfaultfd-creation",
        aliases: &[],
        category: BlockingExploitVectors,
        description: "refuses userfaultfd(2), which makes races in the kernel easy to win",
        enforcers: Enforcers::SECCOMP,
        bpf: Bpf::Unsupported("the rule filters system calls; use the Seccomp enforcer"),
        app_armor: AppArmor::Unsupported(SYSCALL),
    },
];

const NEW_MOUNT_API: &str = "AppArmor does not see the type of what fsopen(2) makes, and move_mount(2) from Linux 6.7 on only; \
                             add the BPF enforcer, or refuse these system calls through Seccomp";
pub(super) const DISKS_BY_NAME: &str =
    "AppArmor knows disks by their names in /dev, not by their numbers; add the BPF enforcer";

/// Every call but unmounting. A mount has the pseudo flag of an unmount always clear.
pub(super) const EVERY_MOUNT: Contribution = Contribution::Mount(MountPart {
    source: "**",
    fstype: None,
    any: 0,
    none: MOUNT_UMOUNT,
});

/// Creating an instance of a filesystem type, through mount(2) or through fsopen(2).
const fn new_filesystem(fstype: &'static str) -> Contribution {
    Contribution::Mount(MountPart {
        source: "**",
        fstype: Some(fstype),
        any: 0,
        none: MOUNT_UMOUNT,
    })
}

/// Binding, moving, remounting and unmounting what is mounted already. A change of the propagation alone is no
/// harm, so its flags are not among these.
const fn existing_mount(source: &'static str) -> Contribution {
    Contribution::Mount(MountPart {
        source,
        fstype: None,
        any: TYPELESS_CALLS & !PROPAGATION,
        none: 0,
    })
}

/// `MS_UNBINDABLE`, `MS_PRIVATE`, `MS_SLAVE`, `MS_SHARED`.
const PROPAGATION: u32 = 0xf << 17;
