//! The files and mounts that the operations need.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};

const NOTHING: Option<&str> = None;
/// Who is not root.
pub(super) const NOBODY: u32 = 65534;

pub(super) fn prepare() -> Result<()> {
    for folder in [
        "/run/secrets/kubernetes.io/serviceaccount",
        "/root/.ssh",
        "/srv/skills",
        "/srv/odd",
        "/tools",
        "/scratch",
        "/disk",
        "/mnt",
        "/lxcfs",
        "/sys/fs/cgroup/old",
    ] {
        fs::create_dir_all(folder).with_context(|| format!("make {folder}"))?;
    }
    for file in [
        "/run/secrets/kubernetes.io/serviceaccount/token",
        "/run/secrets/other",
        "/run/containerd.sock",
        "/run/other.sock",
        "/root/.ssh/id",
        "/root/file",
        "/srv/skills/file",
        "/srv/file",
        "/srv/nobodys",
        "/srv/odd/a b",
        "/srv/odd/a{b}",
        "/srv/odd/@{PROC}",
        "/srv/odd/#a,b",
        "/srv/odd/\u{fc}\u{f1}\u{ef}",
        "/srv/odd/q\"q",
        "/srv/odd/plain",
        "/lxcfs/release_agent",
        "/lxcfs/other",
        "/etc/shadow",
    ] {
        fs::write(file, "content").with_context(|| format!("write {file}"))?;
    }
    std::os::unix::fs::chown("/srv/nobodys", Some(NOBODY), Some(NOBODY))?;
    fs::set_permissions("/srv/nobodys", fs::Permissions::from_mode(0o600))?;
    for name in [
        "busybox", "sh", "bash", "dash", "wget", "curl", "chmod", "su", "sudo", "runc",
    ] {
        copy("/bin/busybox", &format!("/tools/{name}"))?;
    }
    for name in ["target", "other-target", "plain"] {
        copy("/proc/self/exe", &format!("/tools/{name}"))?;
    }
    symlink("/tools/target", "/tools/link")?;
    mount(
        Some("tmpfs"),
        "/scratch",
        Some("tmpfs"),
        MsFlags::empty(),
        NOTHING,
    )?;
    fs::write("/scratch/file", "content")?;
    // Debian's 3 asks for CAP_SYS_ADMIN before CAP_PERFMON.
    fs::write("/proc/sys/kernel/perf_event_paranoid", "2")?;
    // The second version of control groups has no release_agent.
    mount(
        Some("cgroup"),
        "/sys/fs/cgroup/old",
        Some("cgroup"),
        MsFlags::empty(),
        Some("none,name=varmor-test"),
    )
    .context("mount a control group of the first version")?;
    disk()
}

fn copy(source: &str, program: &str) -> Result<()> {
    fs::copy(source, program).with_context(|| format!("copy {source} to {program}"))?;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// A file as the disk `/dev/loop0`, with a filesystem at /disk.
fn disk() -> Result<()> {
    crate::disk::attach()?;
    fs::write("/disk/file", "content")?;
    Ok(())
}
