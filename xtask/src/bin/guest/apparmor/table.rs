//! The table: one entry per built-in rule that `AppArmor` holds. Capabilities are in `capabilities`.
//!
//! A test of `varmor-common` reads this file and fails for a rule of the catalogue that is missing here.

use nix::sched::{CloneFlags, unshare};
use rustix::net::SocketType;

use super::{
    capabilities,
    entry::Entry,
    operations::{
        Done, bind, change_root, create, host_name, load_module, mount_new, read, run, socket,
        umount_scratch, write,
    },
    raw,
};

const UNIX: u16 = 1;
const INET: u16 = 2;
const INET6: u16 = 10;
const ALG: u16 = 38;

const fn entry(rule: &'static str, forbidden: fn() -> Done, benign: fn() -> Done) -> Entry {
    Entry::new(rule, forbidden, benign)
}

/// Every entry.
pub(super) fn entries() -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter().chain(capabilities::ENTRIES)
}

const ENTRIES: &[Entry] = &[
    entry(
        "disallow-write-core-pattern",
        || write("/proc/sys/kernel/core_pattern"),
        || read("/proc/sys/kernel/core_pattern"),
    ),
    entry(
        "disallow-mount-securityfs",
        || mount_new("securityfs", "securityfs"),
        || mount_new("tmpfs", "tmpfs"),
    ),
    entry(
        "disallow-mount-procfs",
        || mount_new("proc", "proc"),
        || bind("/srv"),
    ),
    entry(
        "disallow-write-release-agent",
        || write("/sys/fs/cgroup/old/release_agent"),
        || write("/sys/fs/cgroup/old/notify_on_release"),
    ),
    entry(
        "disallow-mount-cgroupfs",
        || mount_new("cgroup2", "cgroup2"),
        || bind("/srv"),
    ),
    entry(
        "disallow-debug-disk-device",
        || read("/dev/loop0"),
        || read("/dev/zero"),
    ),
    entry(
        "disallow-mount-disk-device",
        || mount_new("/dev/loop0", "ext2"),
        || mount_new("tmpfs", "tmpfs"),
    ),
    entry("disallow-mount", || mount_new("tmpfs", "tmpfs"), umount_scratch),
    entry("disallow-umount", umount_scratch, || {
        nix::mount::mount(
            Some("tmpfs"),
            "/mnt",
            Some("tmpfs"),
            nix::mount::MsFlags::empty(),
            None::<&str>,
        )?;
        // The guest ends with this mount; nobody looks below it.
        Ok(())
    }),
    entry("disallow-insmod", load_module, host_name),
    entry(
        "disallow-load-bpf-prog",
        || Ok(raw::load_bpf_program()?),
        change_root,
    ),
    entry(
        "disallow-access-procfs-root",
        || read("/proc/1/root/srv/file"),
        || read("/proc/self/root/srv/file"),
    ),
    entry(
        "disallow-access-kallsyms",
        || read("/proc/kallsyms"),
        || read("/proc/version"),
    ),
    entry("disallow-abuse-user-ns", host_name, change_root),
    entry(
        "disallow-create-user-ns",
        || Ok(unshare(CloneFlags::CLONE_NEWUSER)?),
        || Ok(unshare(CloneFlags::CLONE_NEWUTS)?),
    )
    .unless(no_user_namespace_rules),
    entry(
        "mitigate-sa-leak",
        || read("/run/secrets/kubernetes.io/serviceaccount/token"),
        || read("/run/secrets/other"),
    ),
    entry(
        "mitigate-disk-device-number-leak",
        || read("/proc/partitions"),
        || read("/proc/version"),
    ),
    entry(
        "mitigate-overlayfs-leak",
        || read("/proc/self/mounts"),
        || read("/proc/self/status"),
    ),
    entry(
        "mitigate-host-ip-leak",
        || read("/proc/net/arp"),
        || read("/proc/net/dev"),
    ),
    entry("disable-write-etc", || create("/etc/new"), || read("/etc/passwd")),
    entry(
        "disable-access-passwd",
        || read("/etc/passwd"),
        || read("/etc/group"),
    ),
    entry(
        "disable-access-shadow",
        || read("/etc/shadow"),
        || read("/etc/passwd"),
    ),
    entry(
        "disable-access-ssh-dir",
        || read("/root/.ssh/id"),
        || read("/root/file"),
    ),
    entry(
        "disable-write-skills",
        || write("/srv/skills/file"),
        || read("/srv/skills/file"),
    ),
    entry("disable-busybox", || run("/tools/busybox"), || run("/tools/sh")),
    entry("disable-shell", || run("/tools/dash"), || run("/tools/busybox")),
    entry("disable-wget", || run("/tools/wget"), || run("/tools/curl")),
    entry("disable-curl", || run("/tools/curl"), || run("/tools/wget")),
    entry("disable-chmod", || run("/tools/chmod"), || run("/tools/curl")),
    entry("disable-su-sudo", || run("/tools/sudo"), || run("/tools/sh")),
    entry(
        "disable-network",
        || socket(UNIX, SocketType::STREAM, 0),
        || read("/srv/file"),
    ),
    entry(
        "disable-inet",
        || socket(INET, SocketType::STREAM, 0),
        || socket(INET6, SocketType::STREAM, 0),
    ),
    entry(
        "disable-inet6",
        || socket(INET6, SocketType::STREAM, 0),
        || socket(INET, SocketType::STREAM, 0),
    ),
    entry(
        "disable-unix-domain-socket",
        || socket(UNIX, SocketType::STREAM, 0),
        || socket(INET, SocketType::STREAM, 0),
    ),
    entry(
        "disable-icmp",
        || socket(INET, SocketType::RAW, 1),
        || socket(INET, SocketType::DGRAM, 0),
    ),
    entry(
        "disable-tcp",
        || socket(INET, SocketType::STREAM, 0),
        || socket(INET, SocketType::DGRAM, 0),
    ),
    entry(
        "disable-udp",
        || socket(INET6, SocketType::DGRAM, 0),
        || socket(INET6, SocketType::STREAM, 0),
    ),
    entry(
        "block-access-to-container-runtime",
        || read("/run/containerd.sock"),
        || read("/run/other.sock"),
    ),
    entry(
        "cgroups-lxcfs-escape-mitigation",
        || write("/lxcfs/release_agent"),
        || write("/lxcfs/other"),
    ),
    entry(
        "runc-override-mitigation",
        || write("/tools/runc"),
        || read("/tools/runc"),
    ),
    entry(
        "copy-fail-mitigation",
        || socket(ALG, SocketType::SEQPACKET, 0),
        || socket(UNIX, SocketType::STREAM, 0),
    ),
];

/// The guest's parser is of version 3.
fn no_user_namespace_rules() -> Option<String> {
    let output = std::process::Command::new("/usr/sbin/apparmor_parser")
        .arg("--version")
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    let old = text.contains("version 2.") || text.contains("version 3.");
    let mask = std::fs::read_to_string("/sys/kernel/security/apparmor/features/namespaces/mask");
    let known = mask.is_ok_and(|mask| mask.contains("userns_create"));
    (old || !known).then(|| {
        format!(
            "kernel knows user namespaces: {known}; {}",
            text.lines().next().unwrap_or_default()
        )
    })
}
