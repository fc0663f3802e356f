//! nginx as Debian packages it, for guests: unpacked once, with the libraries that it needs.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use crate::{apt::Suite, progress, vm::Share, workspace};

const SUITE: &str = "bookworm";
const PACKAGE: &str = "nginx";
/// Of the packages that it depends on, those that a guest does not have already.
const NEEDED: &[&str] = &[
    "nginx-common",
    "libc6",
    "libcrypt1",
    "libpcre2-8-0",
    "libssl3",
    "zlib1g",
];
/// What of them goes into a guest.
const PARTS: &[&str] = &[
    "etc/nginx",
    "lib",
    "lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/sbin/nginx",
];
/// Character sets: large, and not used.
const LEFT_OUT: &[&str] = &["usr/lib/x86_64-linux-gnu/gconv"];

/// The files of a guest with nginx.
pub(crate) fn shares() -> Result<Vec<Share>> {
    let tree = tree()?;
    Ok(PARTS
        .iter()
        .map(|part| Share::new(tree.join(part), format!("/{part}")))
        .collect())
}

fn tree() -> Result<PathBuf> {
    let suite = Suite::open(SUITE)?;
    let parent = workspace::cache().join(PACKAGE);
    let tree = parent.join(suite.version(PACKAGE)?);
    if tree.exists() {
        return Ok(tree);
    }
    let packages = suite.closure(PACKAGE, |name| NEEDED.contains(&name))?;
    let fresh = parent.join(format!("fresh-{}", std::process::id()));
    workspace::make_dir(&fresh)?;
    progress::timed("unpack nginx (once)", || suite.unpack(&packages, &fresh))?;
    for part in LEFT_OUT {
        fs::remove_dir_all(fresh.join(part)).with_context(|| format!("leave out {part}"))?;
    }
    fs::rename(&fresh, &tree).context("rename the tree of nginx")?;
    Ok(tree)
}
