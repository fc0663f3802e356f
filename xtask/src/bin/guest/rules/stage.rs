//! What the containers have from the machine: the files and programs that the operations of both tables need.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use nix::mount::{MsFlags, mount};

pub(super) const POLICIES: &str = "/run/rules/policies";
pub(super) const FOLDER: &str = "/var/lib/rules";
/// A hierarchy of the first version.
const RELEASE_AGENT: &str = "/run/rules/cgroup/old";
const NOBODY: u32 = 65534;

/// Places of the machine, and where containers have them.
pub(super) const MOUNTS: &[(&str, &str)] = &[
    ("/usr/local/bin/varmor-guest", "/varmor-guest"),
    ("/var/lib/rules/go", "/go"),
    ("/var/lib/rules/tools", "/tools"),
    ("/var/lib/rules/srv", "/srv"),
    ("/var/lib/rules/scratch", "/scratch"),
    ("/var/lib/rules/lxcfs", "/lxcfs"),
    ("/var/lib/rules/disk", "/disk"),
    ("/var/lib/rules/root", "/root"),
    ("/var/lib/rules/secrets", "/run/secrets"),
    ("/var/lib/rules/containerd.sock", "/run/containerd.sock"),
    ("/var/lib/rules/other.sock", "/run/other.sock"),
    ("/sys/kernel/security", "/sys/kernel/security"),
    ("/run/rules/cgroup", "/sys/fs/cgroup"),
];

pub(super) fn prepare() -> Result<()> {
    for folder in [
        POLICIES,
        "/run/rules/cgroup",
        "/var/lib/rules/go",
        "/var/lib/rules/tools",
        "/var/lib/rules/srv/skills",
        "/var/lib/rules/scratch",
        "/var/lib/rules/lxcfs",
        "/var/lib/rules/disk",
        "/var/lib/rules/root/.ssh",
        "/var/lib/rules/secrets/kubernetes.io/serviceaccount",
        "/srv",
    ] {
        fs::create_dir_all(folder).with_context(|| format!("make {folder}"))?;
    }
    for file in [
        "/srv/file",
        "/var/lib/rules/srv/file",
        "/var/lib/rules/srv/mode",
        "/var/lib/rules/srv/nobodys",
        "/var/lib/rules/srv/skills/file",
        "/var/lib/rules/scratch/file",
        "/var/lib/rules/lxcfs/release_agent",
        "/var/lib/rules/lxcfs/other",
        "/var/lib/rules/disk/file",
        "/var/lib/rules/root/file",
        "/var/lib/rules/root/.ssh/id",
        "/var/lib/rules/secrets/other",
        "/var/lib/rules/secrets/kubernetes.io/serviceaccount/token",
        "/var/lib/rules/containerd.sock",
        "/var/lib/rules/other.sock",
    ] {
        fs::write(file, "content").with_context(|| format!("write {file}"))?;
    }
    let nobodys = "/var/lib/rules/srv/nobodys";
    chown(nobodys, Some(NOBODY), Some(NOBODY))?;
    fs::set_permissions(nobodys, fs::Permissions::from_mode(0o600))?;
    for name in [
        "busybox", "sh", "bash", "dash", "wget", "curl", "chmod", "su", "sudo", "runc",
    ] {
        // Any program will do, it has the name.
        let program = format!("/var/lib/rules/tools/{name}");
        fs::copy("/proc/self/exe", &program).with_context(|| format!("make {program}"))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    }
    // Debian's 3 asks for CAP_SYS_ADMIN before CAP_PERFMON.
    fs::write("/proc/sys/kernel/perf_event_paranoid", "2")?;
    // The second version of control groups has no release_agent, and no folder for the mount of a first one.
    let none = None::<&str>;
    mount(
        Some("tmpfs"),
        "/run/rules/cgroup",
        Some("tmpfs"),
        MsFlags::empty(),
        none,
    )?;
    fs::create_dir(RELEASE_AGENT)?;
    let options = Some("none,name=varmor-rules");
    mount(
        Some("cgroup"),
        RELEASE_AGENT,
        Some("cgroup"),
        MsFlags::empty(),
        options,
    )
    .context("mount a control group of the first version")?;
    disk()?;
    run(&["ip", "link", "set", "lo", "up"])?;
    // Connections to addresses of the clouds need a route, and no answer.
    run(&["ip", "route", "replace", "default", "dev", "lo"])
}

/// A file as the disk `/dev/loop0`.
fn disk() -> Result<()> {
    let file = "/var/lib/rules/disk.img";
    fs::File::create(file)?.set_len(8 << 20)?;
    run(&["modprobe", "loop"])?;
    run(&["mke2fs", "-q", "-F", "-t", "ext2", file])?;
    run(&["losetup", "/dev/loop0", file])
}

fn run(words: &[&str]) -> Result<()> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .with_context(|| format!("start {}", words[0]))?;
    ensure!(
        output.status.success(),
        "{}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
