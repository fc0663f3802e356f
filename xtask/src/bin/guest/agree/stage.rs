//! The files, programs, mounts and routes of the suite. What operations change is made anew before each batch.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use nix::mount::{MsFlags, mount};

use super::operation::{Act, Operation};

/// The program that does the operations; some policies have rules for it alone.
pub(super) const OPERATOR: &str = "/agree/operator";
/// Who does them under two policies that are compared: no policy has rules for it alone.
pub(super) const PLAIN: &str = "/agree/plain";
const TREE: &str = "/agree/tree";
pub(super) const MOUNTED: &str = "/agree/mounted";
pub(super) const FREE: &str = "/agree/free";
pub(super) const NOBODYS: &str = "/agree/nobodys";
const NOBODY: u32 = 65534;

pub(super) const FOLDERS: [&str; 10] = [
    "/agree/tree",
    "/agree/tree/etc",
    "/agree/tree/etc/conf.d",
    "/agree/tree/data",
    "/agree/tree/data/one",
    "/agree/tree/data/two/deep",
    "/agree/tree/home/.ssh",
    "/agree/tree/srv/skills",
    "/agree/tree/logs",
    "/agree/tree/keys",
];
pub(super) const NAMES: [&str; 12] = [
    "a.key",
    "b.key",
    "c.pem",
    "data.txt",
    "app.log",
    "x",
    "config.yaml",
    "id_rsa",
    "runc",
    "release_agent",
    "with space",
    "\u{fc}.txt",
];
/// Files that built-in rules are about; all can be opened for reading.
pub(super) const KNOWN: [&str; 14] = [
    "/etc/passwd",
    "/etc/shadow",
    "/etc/group",
    "/root/.ssh/id",
    "/run/secrets/kubernetes.io/serviceaccount/token",
    "/proc/kallsyms",
    "/proc/version",
    "/proc/partitions",
    "/proc/self/mounts",
    "/proc/self/mountinfo",
    "/proc/self/status",
    "/proc/self/net/arp",
    "/proc/sys/kernel/core_pattern",
    "/dev/zero",
];
pub(super) const PROGRAMS: [&str; 13] = [
    "/agree/bin/tool",
    "/agree/bin/other",
    "/agree/bin/sh",
    "/agree/bin/bash",
    "/agree/bin/dash",
    "/agree/bin/wget",
    "/agree/bin/curl",
    "/agree/bin/chmod",
    "/agree/bin/su",
    "/agree/bin/sudo",
    "/agree/bin/busybox",
    "/agree/bin/deep/tool",
    "/agree/bin/deep/x.sh",
];

pub(super) fn prepare() -> Result<()> {
    for folder in [
        "/agree/bin/deep",
        MOUNTED,
        FREE,
        "/root/.ssh",
        "/run/secrets/kubernetes.io/serviceaccount",
    ] {
        fs::create_dir_all(folder).with_context(|| format!("make {folder}"))?;
    }
    for file in [
        "/etc/shadow",
        "/root/.ssh/id",
        "/run/secrets/kubernetes.io/serviceaccount/token",
        NOBODYS,
    ] {
        fs::write(file, "content").with_context(|| format!("write {file}"))?;
    }
    chown(NOBODYS, Some(NOBODY), Some(NOBODY))?;
    fs::set_permissions(NOBODYS, fs::Permissions::from_mode(0o600))?;
    for program in PROGRAMS {
        executable("/bin/busybox", program)?;
    }
    for program in [OPERATOR, PLAIN] {
        executable("/proc/self/exe", program)?;
    }
    let nothing = None::<&str>;
    mount(Some("tmpfs"), MOUNTED, Some("tmpfs"), MsFlags::empty(), nothing)?;
    routes()
}

/// A copy of a program.
pub(super) fn executable(source: &str, program: &str) -> Result<()> {
    fs::copy(source, program).with_context(|| format!("copy {source} to {program}"))?;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Every address can be connected to and bound; what is sent goes nowhere.
fn routes() -> Result<()> {
    for (file, value) in [
        ("/proc/sys/net/ipv4/ip_nonlocal_bind", "1"),
        ("/proc/sys/net/ipv6/ip_nonlocal_bind", "1"),
    ] {
        fs::write(file, value).with_context(|| format!("write {file}"))?;
    }
    for words in [
        "ip link set lo up",
        "ip addr add 10.255.0.1/32 dev lo",
        "ip addr add fd00:ffff::1/128 dev lo",
        "ip route add default dev lo",
        "ip -6 route add default dev lo",
    ] {
        let status = Command::new("/bin/busybox").args(words.split(' ')).status()?;
        ensure!(status.success(), "`{words}` failed: {status}");
    }
    Ok(())
}

/// The tree as it is before a batch.
pub(super) fn renew(batch: &[Operation]) -> Result<()> {
    if Path::new(TREE).exists() {
        fs::remove_dir_all(TREE).context("remove the tree")?;
    }
    for folder in FOLDERS {
        fs::create_dir_all(folder)?;
        for name in NAMES {
            fs::write(format!("{folder}/{name}"), "content")?;
        }
    }
    for operation in batch {
        match &operation.act {
            Act::Unlink { path } | Act::Rename { from: path, .. } | Act::Link { from: path, .. } => {
                fs::write(path, "content").with_context(|| format!("make {path}"))?;
            }
            Act::Rmdir { path } => fs::create_dir(path).with_context(|| format!("make {path}"))?,
            _ => {}
        }
    }
    Ok(())
}
