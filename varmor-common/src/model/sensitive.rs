//! Where nothing is generalised, whatever was seen.
//!
//! A pattern is a guess about names that were not seen. Where a wrong guess gives away a secret or the machine, there is
//! none: names below these folders stay as they were seen, and a pattern elsewhere that would match one of the known
//! secrets is not made. A name that really changes there (the token of a service account after its rotation) is missing
//! in the profile then, which shows, and not everything beside it allowed, which does not.

use super::path::{Name, Names};
use crate::matcher::reference;

/// Names below these stay exact.
const FOLDERS: [&str; 14] = [
    "/boot",
    "/dev",
    "/etc/kubernetes",
    "/etc/pam.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers.d",
    "/proc/sys",
    "/root",
    "/sys",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/kubelet",
    "/var/spool/cron",
];
/// Names below folders with one of these names stay exact, wherever they are.
const NAMES: [&str; 8] = [
    ".aws",
    ".docker",
    ".gnupg",
    ".kube",
    ".ssh",
    "private",
    "secrets",
    "serviceaccount",
];
/// Folders whose many children are no sign that every child is meant.
const WIDE: [&str; 22] = [
    "/",
    "/bin",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/mnt",
    "/opt",
    "/proc",
    "/run",
    "/sbin",
    "/srv",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/run",
];
/// What no pattern may match by accident.
const SECRETS: [&str; 25] = [
    "/dev/mem",
    "/dev/sda",
    "/etc/crontab",
    "/etc/group",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ld.so.preload",
    "/etc/passwd",
    "/etc/passwd-",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/sudoers",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/sys/kernel/core_pattern",
    "/proc/sysrq-trigger",
    "/root/.bash_history",
    "/root/.ssh/id_rsa",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/docker.sock",
    "/run/secrets/kubernetes.io/serviceaccount/token",
    "/sys/fs/cgroup/release_agent",
    "/usr/bin/runc",
    "/usr/sbin/runc",
];

/// Whether the name at this place of the path has to stay as it is.
pub(super) fn is_kept(names: &Names, index: usize) -> bool {
    let above: Vec<&str> = names.0[..index].iter().map_while(Name::exact).collect();
    if above.iter().any(|name| NAMES.contains(name)) {
        return true;
    }
    let folder = |folder: &str| {
        let folder: Vec<&str> = folder.split('/').skip(1).collect();
        above.starts_with(&folder)
    };
    // Terminals and shared memory are no devices of the machine.
    let free = above.len() >= 2 && above[0] == "dev" && matches!(above[1], "pts" | "shm");
    !free && FOLDERS.iter().any(|one| folder(one))
}

/// Whether many names in this folder may become one pattern.
pub(super) fn may_have_siblings(names: &Names, index: usize) -> bool {
    let folder = Names(names.0[..index].to_vec());
    let in_proc = names.0.first().and_then(Name::exact) == Some("proc");
    !in_proc && folder.is_exact() && !WIDE.contains(&folder.to_string().as_str()) && !is_kept(names, index)
}

/// Whether the pattern matches one of the secrets although none of what it stands for is that secret.
pub(super) fn gives_away(pattern: &str, seen: &dyn Fn(&str) -> bool) -> bool {
    SECRETS
        .iter()
        .any(|secret| reference::matches(pattern, secret.as_bytes()) && !seen(secret))
}
