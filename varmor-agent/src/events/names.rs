//! The kernel's numbers in events, as the words of vArmor's log.

use varmor_common::abi::{self, operation};

const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

const FAMILIES: [&str; 46] = [
    "unspec",
    "unix",
    "inet",
    "ax25",
    "ipx",
    "appletalk",
    "netrom",
    "bridge",
    "atmpvc",
    "x25",
    "inet6",
    "rose",
    "decnet",
    "netbeui",
    "security",
    "key",
    "netlink",
    "packet",
    "ash",
    "econet",
    "atmsvc",
    "rds",
    "sna",
    "irda",
    "pppox",
    "wanpipe",
    "llc",
    "ib",
    "mpls",
    "can",
    "tipc",
    "bluetooth",
    "iucv",
    "rxrpc",
    "isdn",
    "phonet",
    "ieee802154",
    "caif",
    "alg",
    "nfc",
    "vsock",
    "kcm",
    "qipcrtr",
    "smc",
    "xdp",
    "mctp",
];

const PERMISSIONS: [(u32, &str); 5] = [
    (abi::PERM_READ, "read"),
    (abi::PERM_WRITE, "write"),
    (abi::PERM_APPEND, "append"),
    (abi::PERM_EXEC, "exec"),
    (abi::PERM_STRUCT, "restructure"),
];

const PTRACE: [(u32, &str); 4] = [
    (abi::PTRACE_TRACE, "trace"),
    (abi::PTRACE_READ, "read"),
    (abi::PTRACE_TRACEBY, "traceby"),
    (abi::PTRACE_READBY, "readby"),
];

const MOUNT_FLAGS: [(u32, &str); 21] = [
    (1, "ro"),
    (1 << 1, "nosuid"),
    (1 << 2, "nodev"),
    (1 << 3, "noexec"),
    (1 << 4, "sync"),
    (1 << 5, "remount"),
    (1 << 6, "mand"),
    (1 << 7, "dirsync"),
    (abi::MOUNT_UMOUNT, "umount"),
    (1 << 10, "noatime"),
    (1 << 11, "nodiratime"),
    (1 << 12, "bind"),
    (1 << 13, "move"),
    (1 << 14, "rec"),
    (1 << 15, "silent"),
    (1 << 17, "unbindable"),
    (1 << 18, "private"),
    (1 << 19, "slave"),
    (1 << 20, "shared"),
    (1 << 21, "relatime"),
    (1 << 24, "strictatime"),
];

const OPERATIONS: [(u32, &str); 38] = [
    (operation::OPEN, "open"),
    (operation::TRUNCATE, "truncate"),
    (operation::CREATE, "create"),
    (operation::UNLINK, "unlink"),
    (operation::MKDIR, "mkdir"),
    (operation::RMDIR, "rmdir"),
    (operation::MKNOD, "mknod"),
    (operation::SYMLINK, "symlink"),
    (operation::LINK, "link"),
    (operation::RENAME, "rename"),
    (operation::CHMOD, "chmod"),
    (operation::CHOWN, "chown"),
    (operation::EXEC, "exec"),
    (operation::MMAP_EXEC, "mmap"),
    (operation::MPROTECT_EXEC, "mprotect"),
    (operation::CAPABLE, "capable"),
    (operation::SOCKET_CREATE, "socket"),
    (operation::CONNECT, "connect"),
    (operation::SENDMSG, "sendmsg"),
    (operation::MOUNT, "mount"),
    (operation::UMOUNT, "umount"),
    (operation::MOVE_MOUNT, "move_mount"),
    (operation::PIVOT_ROOT, "pivot_root"),
    (operation::PTRACE, "ptrace"),
    (operation::TRACEME, "traceme"),
    (operation::SETATTR, "setattr"),
    (operation::FORK, "fork"),
    (operation::SETXATTR, "setxattr"),
    (operation::REMOVEXATTR, "removexattr"),
    (operation::SETACL, "setacl"),
    (operation::IOCTL, "ioctl"),
    (operation::BPF, "bpf"),
    (operation::KILL, "kill"),
    (operation::USERNS, "userns_create"),
    (operation::PERSONALITY, "io_uring personality"),
    (operation::BIND, "bind"),
    (operation::LISTEN, "listen"),
    (operation::ACCEPT, "accept"),
];

const FAULTS: [&str; abi::FAULTS as usize] = [
    "none",
    "path is deeper than what can be judged",
    "object is on a detached mount",
    "dentry has no way to a root",
    "kernel memory could not be read",
    "the profile's tables are incomplete",
    "the container of the task is gone",
    "the label of a new task could not be stored",
    "a string is longer than what can be judged",
    "the mounts of the namespace are too many or changed meanwhile",
    "no agent",
];

/// `CAP_SYS_ADMIN`; an unknown number stays a number.
#[must_use]
pub fn capability(number: u64) -> String {
    let name = usize::try_from(number)
        .ok()
        .and_then(|index| CAPABILITIES.get(index));
    name.map_or_else(|| format!("CAP_{number}"), |name| format!("CAP_{name}"))
}

#[must_use]
pub fn family(number: u64) -> String {
    let name = usize::try_from(number).ok().and_then(|index| FAMILIES.get(index));
    name.map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

#[must_use]
pub fn socket_type(number: u64) -> String {
    match number {
        1 => "stream".to_owned(),
        2 => "dgram".to_owned(),
        3 => "raw".to_owned(),
        4 => "rdm".to_owned(),
        5 => "seqpacket".to_owned(),
        6 => "dccp".to_owned(),
        10 => "packet".to_owned(),
        other => other.to_string(),
    }
}

/// Protocol numbers mean something in the internet families only.
#[must_use]
pub fn protocol(family: u64, number: u64) -> String {
    match (family, number) {
        (2 | 10, 1) => "icmp".to_owned(),
        (2 | 10, 6) => "tcp".to_owned(),
        (2 | 10, 17) => "udp".to_owned(),
        (2 | 10, 58) => "icmpv6".to_owned(),
        (2 | 10, 132) => "sctp".to_owned(),
        (2 | 10, 255) => "raw".to_owned(),
        (_, other) => other.to_string(),
    }
}

#[must_use]
pub fn permissions(bits: u32) -> Vec<String> {
    words(&PERMISSIONS, bits)
}

#[must_use]
pub fn ptrace(bits: u32) -> Vec<String> {
    words(&PTRACE, bits)
}

#[must_use]
pub fn mount_flags(bits: u32) -> Vec<String> {
    words(&MOUNT_FLAGS, bits)
}

/// What a task reached for that belongs to the enforcer.
#[must_use]
pub fn own(kind: u64) -> String {
    match u32::try_from(kind) {
        Ok(abi::OWN_MAP) => "map".to_owned(),
        Ok(abi::OWN_PROGRAM) => "program".to_owned(),
        Ok(abi::OWN_LINK) => "link".to_owned(),
        Ok(abi::OWN_PROCESS) => "process".to_owned(),
        Ok(abi::OWN_FOLDER) => "pin".to_owned(),
        _ => format!("object {kind}"),
    }
}

/// The hook that asked.
#[must_use]
pub fn operation(number: u32) -> String {
    let name = OPERATIONS.iter().find(|(known, _)| *known == number);
    name.map_or_else(|| format!("operation {number}"), |(_, name)| (*name).to_owned())
}

/// Why an operation could not be judged.
#[must_use]
pub fn fault(number: u32) -> String {
    let name = usize::try_from(number).ok().and_then(|index| FAULTS.get(index));
    name.map_or_else(|| format!("fault {number}"), |name| (*name).to_owned())
}

fn words(table: &[(u32, &str)], bits: u32) -> Vec<String> {
    table
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, word)| (*word).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers_have_the_names_of_the_kernel() {
        assert_eq!(capability(21), "CAP_SYS_ADMIN");
        assert_eq!(capability(40), "CAP_CHECKPOINT_RESTORE");
        assert_eq!(family(10), "inet6");
        assert_eq!(family(38), "alg");
        assert_eq!(family(45), "mctp");
        assert_eq!(permissions(abi::PERM_READ | abi::PERM_EXEC), ["read", "exec"]);
        assert_eq!(mount_flags(abi::MOUNT_UMOUNT | 1), ["ro", "umount"]);
        assert_eq!(operation(operation::MOVE_MOUNT), "move_mount");
    }

    #[test]
    fn unknown_numbers_stay_visible() {
        assert_eq!(capability(63), "CAP_63");
        assert_eq!(family(u64::MAX), u64::MAX.to_string());
        assert_eq!(operation(999), "operation 999");
        assert_eq!(fault(99), "fault 99");
    }

    #[test]
    fn every_operation_has_its_own_name() {
        let names: std::collections::BTreeSet<_> = OPERATIONS.iter().map(|(_, name)| name).collect();
        assert_eq!(names.len(), OPERATIONS.len());
        for number in 1..=operation::FORK {
            assert!(!super::operation(number).starts_with("operation "), "{number}");
        }
    }
}
