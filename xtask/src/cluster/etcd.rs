//! etcd: Debian's own, unpacked into the cache and never installed, so that no service of the system starts.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{apt::Suite, progress, tools, workspace};

const SUITE: &str = "bookworm";
const PACKAGE: &str = "etcd-server";

/// The program, fetched first if it is not there.
pub(super) fn ready() -> Result<PathBuf> {
    let folder = workspace::cache().join(format!("etcd-{SUITE}"));
    let program = folder.join("usr/bin/etcd");
    if !program.is_file() {
        progress::timed(&format!("fetch {PACKAGE} of Debian {SUITE} (once)"), || {
            fetch(&folder)
        })?;
    }
    if !tools::runs(&program, &["--version"]) {
        bail!(
            "{} does not run; remove the folder {}",
            program.display(),
            folder.display()
        );
    }
    Ok(program)
}

fn fetch(folder: &Path) -> Result<()> {
    let fresh = folder.with_extension(format!("fresh{}", std::process::id()));
    workspace::make_dir(&fresh)?;
    Suite::open(SUITE)?.unpack(&BTreeSet::from([PACKAGE.to_owned()]), &fresh)?;
    match fs::rename(&fresh, folder) {
        Ok(()) => Ok(()),
        // Another run was quicker.
        Err(_) if folder.is_dir() => fs::remove_dir_all(&fresh).context("remove the second copy of etcd"),
        Err(error) => Err(error).with_context(|| format!("rename to {}", folder.display())),
    }
}
