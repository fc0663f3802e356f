//! A disk for attempts on devices.

use std::{fs, process::Command};

use anyhow::{Result, ensure};

/// Makes a file the disk `/dev/loop0`, with a filesystem at /disk.
pub(crate) fn attach() -> Result<()> {
    fs::File::create("/tmp/disk")?.set_len(8 << 20)?;
    for command in [
        &["mke2fs", "-F", "/tmp/disk"][..],
        &["losetup", "/dev/loop0", "/tmp/disk"],
        &["mount", "-t", "ext2", "/dev/loop0", "/disk"],
    ] {
        let output = Command::new("/bin/busybox").args(command).output()?;
        ensure!(
            output.status.success(),
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
