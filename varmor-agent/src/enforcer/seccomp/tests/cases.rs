//! For each built-in rule what it refuses, and the neighbouring calls that it must leave alone.

/// A system call with its first arguments.
pub(super) type Asked = (&'static str, &'static [u64]);

/// What a rule does.
pub(super) struct Case {
    pub(super) rule: &'static str,
    /// With the error number.
    pub(super) refused: &'static [(Asked, u16)],
    pub(super) allowed: &'static [Asked],
}

const NEWUSER: u64 = 0x1000_0000;
const NEWNS: u64 = 0x2_0000;
/// Above what the kernel reads of an `int`.
const HIGH: u64 = 1 << 32;
const SIGCHLD: u64 = 0x11;
/// `BPF_PROG_LOAD`
const LOAD: u64 = 0x5;
const PERM: u16 = 1;
const NOSYS: u16 = 38;
/// `SYS_SOCKET`, `SYS_BIND`, `SYS_SOCKETPAIR`, `SYS_SETSOCKOPT`: the arguments are behind the pointer.
const SOCKETCALL_SOCKET: (Asked, u16) = (("socketcall", &[1, 0x1000]), PERM);
const SOCKETCALL_PAIR: (Asked, u16) = (("socketcall", &[8, 0x1000]), PERM);
const IO_URING: (Asked, u16) = (("io_uring_setup", &[8]), NOSYS);

const USER_NAMESPACES: &[(Asked, u16)] = &[
    (("unshare", &[NEWUSER]), PERM),
    (("unshare", &[NEWUSER | NEWNS]), PERM),
    (("clone", &[NEWUSER | SIGCHLD]), PERM),
    (("clone3", &[0x1000, 88]), NOSYS),
    (("setns", &[3, NEWUSER]), PERM),
    (("setns", &[3, 0]), PERM),
    (("setns", &[3, HIGH]), PERM),
];
const NO_USER_NAMESPACES: &[Asked] = &[
    ("unshare", &[NEWNS]),
    ("clone", &[17]),
    ("setns", &[3, NEWNS]),
    ("fork", &[]),
];

const NEW_MOUNTS: &[(Asked, u16)] = &[
    (("fsopen", &[]), NOSYS),
    (("fsmount", &[]), NOSYS),
    (("fspick", &[]), NOSYS),
    (("fsconfig", &[]), NOSYS),
    (("move_mount", &[]), NOSYS),
    (("mount_setattr", &[]), NOSYS),
    (("open_tree", &[0, 0, 1]), NOSYS),
    (("open_tree", &[0, 0, 0x8_0001]), NOSYS),
];
const NO_NEW_MOUNTS: &[Asked] = &[("open_tree", &[0, 0, 0x8_0000]), ("mount", &[]), ("umount2", &[])];

const fn mounts(rule: &'static str) -> Case {
    Case {
        rule,
        refused: NEW_MOUNTS,
        allowed: NO_NEW_MOUNTS,
    }
}

pub(super) const CASES: &[Case] = &[
    Case {
        rule: "disallow-create-user-ns",
        refused: USER_NAMESPACES,
        allowed: NO_USER_NAMESPACES,
    },
    Case {
        rule: "disallow-abuse-user-ns",
        refused: USER_NAMESPACES,
        allowed: NO_USER_NAMESPACES,
    },
    Case {
        rule: "disallow-load-all-bpf-prog",
        refused: &[(("bpf", &[5]), PERM), (("bpf", &[HIGH | LOAD]), PERM)],
        allowed: &[("bpf", &[0]), ("bpf", &[1]), ("bpf", &[13])],
    },
    Case {
        rule: "disallow-load-bpf-via-setsockopt",
        refused: &[
            (("setsockopt", &[3, 1, 26]), PERM),
            (("setsockopt", &[3, 1, 50]), PERM),
            (("setsockopt", &[3, 1, 51]), PERM),
            (("setsockopt", &[3, 1, 52]), PERM),
            (("setsockopt", &[3, HIGH | 0x1, HIGH | 0x1a]), PERM),
            (("setsockopt", &[3, 263, 22]), PERM),
            (("socketcall", &[14, 0x1000]), PERM),
            IO_URING,
        ],
        allowed: &[
            ("setsockopt", &[3, 1, 2]),
            ("setsockopt", &[3, 6, 26]),
            ("setsockopt", &[3, 263, 18]),
            ("socketcall", &[2, 0x1000]),
            ("getsockopt", &[3, 1, 26]),
        ],
    },
    Case {
        rule: "disallow-userfaultfd-creation",
        refused: &[
            (("userfaultfd", &[0]), PERM),
            (("ioctl", &[3, 0xaa00]), PERM),
            (("ioctl", &[3, HIGH | 0xaa00]), PERM),
        ],
        allowed: &[("ioctl", &[3, 0x5401]), ("eventfd2", &[0, 0])],
    },
    Case {
        rule: "dirty-pipe-mitigation",
        refused: &[(("splice", &[]), PERM), IO_URING],
        allowed: &[("tee", &[]), ("sendfile", &[]), ("pipe2", &[])],
    },
    Case {
        rule: "disable-chmod-x-bit",
        refused: &[
            (("chmod", &[0, 0o755]), PERM),
            (("chmod", &[0, 0o645]), PERM),
            (("fchmod", &[3, 0o010]), PERM),
            (("fchmodat", &[3, 0, 0o700]), PERM),
            (("fchmodat2", &[3, 0, 0o001, 0x100]), PERM),
        ],
        allowed: &[
            ("chmod", &[0, 0o644]),
            ("chmod", &[0, 0o4666]),
            ("fchmod", &[3, 0o600]),
            ("fchmodat", &[3, 0o777, 0o666]),
            ("fchmodat2", &[3, 0, 0o666, 0x100]),
        ],
    },
    Case {
        rule: "disable-chmod-s-bit",
        refused: &[
            (("chmod", &[0, 0o4755]), PERM),
            (("fchmod", &[3, 0o2644]), PERM),
            (("fchmodat", &[3, 0, 0o6000]), PERM),
            (("fchmodat2", &[3, 0, 0o4000, 0]), PERM),
            (("open", &[0, 0o101, 0o4755]), PERM),
            (("openat", &[3, 0, 0o102, 0o2755]), PERM),
            (("openat", &[3, 0, 0o20_200_001, 0o4755]), PERM),
            (("creat", &[0, 0o4755]), PERM),
            (("mknod", &[0, 0o104_755]), PERM),
            (("mknodat", &[3, 0, 0o102_755]), PERM),
            (("openat2", &[]), NOSYS),
            IO_URING,
        ],
        allowed: &[
            ("chmod", &[0, 0o755]),
            ("chmod", &[0, 0o1777]),
            ("open", &[0, 0o101, 0o755]),
            ("open", &[0, 0, 0o4755]),
            ("openat", &[3, 0, 0, 0o4755]),
            ("mkdir", &[0, 0o755]),
        ],
    },
    Case {
        rule: "disallow-insmod",
        refused: &[
            (("init_module", &[]), PERM),
            (("finit_module", &[]), PERM),
            (("delete_module", &[]), PERM),
        ],
        allowed: &[("open", &[]), ("syslog", &[3])],
    },
    Case {
        rule: "disallow-umount",
        refused: &[(("umount2", &[0, 2]), PERM), (("umount", &[]), PERM)],
        allowed: &[("mount", &[]), ("unlink", &[])],
    },
    Case {
        rule: "disallow-mount",
        refused: &[
            (("mount", &[]), PERM),
            (("pivot_root", &[]), PERM),
            (("fsopen", &[]), NOSYS),
            (("fsmount", &[]), NOSYS),
            (("move_mount", &[]), NOSYS),
            (("mount_setattr", &[]), NOSYS),
            (("open_tree", &[0, 0, 1]), NOSYS),
            (("setns", &[3, NEWNS]), PERM),
            (("setns", &[3, 0]), PERM),
        ],
        allowed: &[
            ("umount2", &[]),
            ("chroot", &[]),
            ("open_tree", &[0, 0, 0]),
            ("setns", &[3, 0x4000_0000]),
        ],
    },
    mounts("disallow-mount-securityfs"),
    mounts("disallow-mount-procfs"),
    mounts("disallow-mount-cgroupfs"),
    mounts("disallow-mount-disk-device"),
    Case {
        rule: "disable-network",
        refused: &[
            (("socket", &[2, 1, 0]), PERM),
            (("socket", &[1, 1, 0]), PERM),
            (("socketpair", &[1, 1, 0]), PERM),
            SOCKETCALL_SOCKET,
            SOCKETCALL_PAIR,
            IO_URING,
        ],
        allowed: &[
            ("bind", &[]),
            ("sendto", &[]),
            ("socketcall", &[2]),
            ("pipe", &[]),
        ],
    },
    Case {
        rule: "disable-inet",
        refused: &[
            (("socket", &[2, 1, 0]), PERM),
            (("socket", &[HIGH | 0x2, 2, 0]), PERM),
            SOCKETCALL_SOCKET,
            IO_URING,
        ],
        allowed: &[
            ("socket", &[10, 1, 0]),
            ("socket", &[1, 1, 0]),
            ("socketcall", &[2]),
        ],
    },
    Case {
        rule: "disable-inet6",
        refused: &[(("socket", &[10, 1, 0]), PERM), SOCKETCALL_SOCKET, IO_URING],
        allowed: &[
            ("socket", &[2, 1, 0]),
            ("socket", &[1, 1, 0]),
            ("socketcall", &[2]),
        ],
    },
    Case {
        rule: "disable-unix-domain-socket",
        refused: &[
            (("socket", &[1, 1, 0]), PERM),
            (("socketpair", &[1, 1, 0]), PERM),
            SOCKETCALL_SOCKET,
            SOCKETCALL_PAIR,
            IO_URING,
        ],
        allowed: &[
            ("socket", &[2, 1, 0]),
            ("socketpair", &[30, 1, 0]),
            ("socketcall", &[2]),
        ],
    },
    Case {
        rule: "copy-fail-mitigation",
        refused: &[
            (("socket", &[38, 5, 0]), PERM),
            (("socket", &[HIGH | 0x26, 5, 0]), PERM),
            SOCKETCALL_SOCKET,
            IO_URING,
        ],
        allowed: &[
            ("socket", &[2, 1, 0]),
            ("socket", &[40, 1, 0]),
            ("socketpair", &[1, 1, 0]),
        ],
    },
];
