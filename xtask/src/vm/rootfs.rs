//! The disk of guests with containers: a small Debian with containerd and runc, made once.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{apt, kernel::Kernel, process::Run, progress, tools, workspace};

const SUITE: &str = "bookworm";
const PACKAGES: &str = "containerd,runc,crun,docker.io,containernetworking-plugins,apparmor,iproute2,iptables,kmod,procps,udev,\
                        ca-certificates,conntrack,ethtool,socat";
/// Raised when the steps below change, so that an image of the old kind is not used.
const RECIPE: u32 = 1;

/// The images that a guest of this kernel gets: root file system, kernel modules.
pub(crate) fn disks(kernel: &Kernel) -> Result<Vec<PathBuf>> {
    tools::need(tools::CONTAINER_GUEST)?;
    let root = image(&folder().join("root.img"), "6G", tree)?;
    let modules = image(&kernel.folder.join("modules.img"), "512M", || {
        let modules = kernel.modules.clone();
        modules.with_context(|| {
            format!(
                "{} has no modules, which a guest with containers needs",
                kernel.release
            )
        })
    })?;
    Ok(vec![root, modules])
}

/// The unpacked root file system: also where the demo's container image takes its files from.
pub(crate) fn tree() -> Result<PathBuf> {
    tools::need(tools::CONTAINER_GUEST)?;
    let tree = folder().join("tree");
    if tree.exists() {
        return Ok(tree);
    }
    let fresh = folder().join(format!("fresh-{}", std::process::id()));
    workspace::make_dir(&fresh)?;
    let archive = fresh.join("root.tar");
    progress::timed("make the guests' Debian (once, about a minute)", || {
        let mut run = Run::new("mmdebstrap", "mmdebstrap")
            .args([
                "--variant=minbase",
                "--mode=root",
                &format!("--include={PACKAGES}"),
                SUITE,
            ])
            .arg(&archive);
        for uri in apt::archives()? {
            run = run.arg(apt::source_line(&uri, SUITE).trim());
        }
        run.run()?;
        let unpacked = fresh.join("tree");
        workspace::make_dir(&unpacked)?;
        Run::new("untar-rootfs", "tar")
            .args(["--numeric-owner", "-xpf"])
            .arg(&archive)
            .arg("-C")
            .arg(&unpacked)
            .run()?;
        // The guest has no way out; its containerd needs no image from anywhere.
        fs::remove_file(&archive).context("remove root.tar")?;
        fs::rename(&unpacked, &tree).context("rename the tree")?;
        fs::remove_dir_all(&fresh).context("remove the working folder")
    })?;
    Ok(tree)
}

fn folder() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    (SUITE, PACKAGES, RECIPE).hash(&mut hasher);
    workspace::cache().join(format!("rootfs-{SUITE}-{:016x}", hasher.finish()))
}

fn image(path: &Path, size: &str, content: impl FnOnce() -> Result<PathBuf>) -> Result<PathBuf> {
    if !path.exists() {
        let content = content()?;
        let fresh = path.with_extension(format!("fresh{}", std::process::id()));
        progress::timed(&format!("make {}", path.display()), || {
            let options = [
                "-q",
                "-t",
                "ext4",
                "-O",
                "^has_journal",
                "-m",
                "0",
                "-E",
                "lazy_itable_init=1",
                "-d",
            ];
            Run::new("mke2fs", "mke2fs")
                .args(options)
                .arg(&content)
                .arg(&fresh)
                .arg(size)
                .run()
        })?;
        fs::rename(&fresh, path).with_context(|| format!("rename to {}", path.display()))?;
    }
    Ok(path.to_path_buf())
}
