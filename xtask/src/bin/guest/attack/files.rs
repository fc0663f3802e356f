//! Operations on files: secrets, configuration, and the many names that one file can have.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::symlink,
    path::Path,
};

use super::{Failure, Operation};

const TOKEN: &str = "/run/secrets/kubernetes.io/serviceaccount/token";
const SHADOW: &str = "/etc/shadow";

pub(super) const OPERATIONS: &[Operation] = &[
    Operation::attack("sa-token", "read the service account's token", || {
        read(TOKEN, "demo-token")
    }),
    Operation::attack("sa-token-var-run", "the same through /var/run", || {
        read(&format!("/var{TOKEN}"), "demo-token")
    }),
    Operation::attack("shadow", "read /etc/shadow", || read(SHADOW, "root:")),
    Operation::attack(
        "shadow-symlink",
        "read it through a symbolic link",
        shadow_symlink,
    ),
    Operation::attack("shadow-hardlink", "read it through a hard link", shadow_hardlink),
    Operation::attack("write-etc", "create a file in /etc", write_etc),
    Operation::attack("append-passwd", "open /etc/passwd for appending", || {
        append("/etc/passwd")
    }),
    Operation::attack(
        "rename-over-shadow",
        "replace /etc/shadow by a rename",
        rename_over,
    ),
    Operation::attack(
        "rename-shadow-away",
        "move /etc/shadow to a place that no rule names",
        rename_away,
    ),
    Operation::attack("mountinfo", "read /proc/self/mountinfo", || {
        read("/proc/self/mountinfo", " / ")
    }),
    Operation::attack("mountinfo-task", "the same through a thread's folder", || {
        read("/proc/thread-self/mountinfo", " / ")
    }),
    Operation::attack("partitions", "read the disks' device numbers", || {
        read("/proc/partitions", "major")
    }),
    Operation::attack("arp", "read the host's neighbours", || {
        read("/proc/self/net/arp", "IP address")
    }),
    Operation::attack("release-agent", "write a cgroup's release_agent", release_agent),
    Operation::attack("runc", "open runc for writing", || append("/usr/bin/runc")),
    Operation::benign("read-passwd", "read /etc/passwd", || read("/etc/passwd", "root:")),
    Operation::benign(
        "write-tmp",
        "write, rename, link and remove files in /tmp",
        write_tmp,
    ),
    Operation::benign("proc-status", "read /proc/self/status", || {
        read("/proc/self/status", "Name:")
    }),
];

fn read(path: &str, expected: &str) -> Result<(), Failure> {
    let content = fs::read_to_string(path)?;
    if content.contains(expected) {
        Ok(())
    } else {
        Err(Failure::Broken(format!("{path} has not the expected content")))
    }
}

fn append(path: &str) -> Result<(), Failure> {
    OpenOptions::new().append(true).open(path)?;
    Ok(())
}

/// Removes what an earlier try may have left.
fn clear(path: &str) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::Broken(format!("remove {path}: {error}")))
        }
        _ => Ok(()),
    }
}

fn shadow_symlink() -> Result<(), Failure> {
    let link = "/tmp/innocent";
    clear(link)?;
    symlink(SHADOW, link)?;
    let result = read(link, "root:");
    clear(link)?;
    result
}

fn shadow_hardlink() -> Result<(), Failure> {
    let link = "/tmp/hard";
    clear(link)?;
    fs::hard_link(SHADOW, link)?;
    let result = read(link, "root:");
    clear(link)?;
    result
}

fn write_etc() -> Result<(), Failure> {
    let path = "/etc/evil.conf";
    let result = File::create(path).and_then(|mut file| file.write_all(b"evil\n"));
    let left = Path::new(path).exists();
    if result.is_ok() {
        clear(path)?;
    } else if left {
        return Err(Failure::Broken(format!("{path} was refused and yet exists")));
    }
    Ok(result?)
}

fn rename_over() -> Result<(), Failure> {
    let evil = "/tmp/evil-shadow";
    // The same content, so that a success leaves the container as it was.
    let content = fs::read(SHADOW).unwrap_or_else(|_| b"evil\n".to_vec());
    fs::write(evil, content).map_err(|error| Failure::Broken(format!("write {evil}: {error}")))?;
    let result = fs::rename(evil, SHADOW);
    if result.is_err() {
        clear(evil)?;
    }
    Ok(result?)
}

fn rename_away() -> Result<(), Failure> {
    let away = "/tmp/away";
    fs::rename(SHADOW, away)?;
    let result = read(away, "root:");
    fs::rename(away, SHADOW)?;
    result
}

fn release_agent() -> Result<(), Failure> {
    let path = "/host-cgroup/release_agent";
    let before =
        fs::read_to_string(path).map_err(|error| Failure::Broken(format!("read {path}: {error}")))?;
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(b"/tmp/evil\n")?;
    fs::write(path, if before.is_empty() { "\n" } else { &before })?;
    Ok(())
}

fn write_tmp() -> Result<(), Failure> {
    let folder = format!("/tmp/benign-{}", std::process::id());
    fs::create_dir(&folder)?;
    let path = |name: &str| format!("{folder}/{name}");
    fs::write(path("a"), "content")?;
    fs::rename(path("a"), path("b"))?;
    fs::hard_link(path("b"), path("c"))?;
    symlink("b", path("d"))?;
    read(&path("d"), "content")?;
    fs::remove_dir_all(&folder)?;
    Ok(())
}
