//! The initramfs of a guest: a static busybox, a few modules and `/init`.

use std::fs;

use anyhow::{Context, Result};

use super::modules;
use crate::{cpio::Archive, kernel::Kernel, process, tools};

/// What a guest without containers loads: overlay mounts are what containers are made of, a file can be a disk, and SCTP
/// sockets are a way to the network of their own.
const MINIMAL: &[&str] = &["overlay", "loop", "sctp"];
/// What is needed to reach the disk.
const DISK: &[&str] = &["virtio_pci", "virtio_blk", "ext4"];

/// `/etc/passwd`.
pub(crate) const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n";
/// `/etc/group`.
pub(crate) const GROUPS: &str = "root:x:0:\nnogroup:x:65534:\n";

/// The archive that all guests of one kernel and kind share.
pub(crate) fn base(kernel: &Kernel, rootfs: bool) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in [
        "dev", "proc", "sys", "run", "tmp", "root", "etc", "newroot", "sbin",
    ] {
        archive.folder(folder);
    }
    let busybox = tools::busybox()?;
    let program = fs::read(&busybox).with_context(|| format!("read {}", busybox.display()))?;
    archive.file("/bin/busybox", 0o755, &program);
    for applet in process::output(&busybox.to_string_lossy(), ["--list"])?
        .lines()
        .filter(|name| *name != "busybox")
    {
        archive.symlink(&format!("/bin/{applet}"), "busybox");
    }
    archive.file("/etc/passwd", 0o644, USERS.as_bytes());
    archive.file("/etc/group", 0o644, GROUPS.as_bytes());
    let mut load = String::new();
    for (name, content) in modules::load_order(kernel, if rootfs { DISK } else { MINIMAL })? {
        let path = format!("/vm/modules/{}.ko", name.replace('/', "-"));
        archive.file(&path, 0o644, &content);
        load.extend(["insmod ", &path, "\n"]);
    }
    archive.file("/vm/load", 0o755, load.as_bytes());
    if rootfs {
        archive.file("/init", 0o755, include_bytes!("init/disk.sh"));
        archive.file("/vm/init", 0o755, include_bytes!("init/rootfs.sh"));
    } else {
        archive.file("/init", 0o755, include_bytes!("init/minimal.sh"));
    }
    archive.file("/vm/run", 0o755, include_bytes!("init/run.sh"));
    Ok(archive.finish())
}

/// The script that becomes the guest's command.
pub(crate) fn command_script(command: &[String]) -> String {
    let words: Vec<String> = command.iter().map(|word| process::quote(word)).collect();
    format!("#!/bin/sh\nexec {}\n", words.join(" "))
}
