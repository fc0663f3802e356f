//! Where things are: the repository, its target folder, and the cache that outlives it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let own = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent()
        .expect("the package of xtask is a folder of the workspace")
        .to_path_buf()
}

/// The target folder of the lab itself: logs, eBPF objects, reports. Always in the repository, so that
/// `CARGO_TARGET_DIR` moves only what cargo writes.
pub(crate) fn target() -> PathBuf {
    root().join("target")
}

/// The target folder that cargo uses for the workspace.
pub(crate) fn cargo_target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR").map(PathBuf::from) {
        Some(folder) if folder.is_absolute() => folder,
        Some(folder) => root().join(folder),
        None => target(),
    }
}

/// Downloads and images that are expensive to make and keyed by version.
pub(crate) fn cache() -> PathBuf {
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    base.unwrap_or_else(home).join("varmor")
}

/// The log file of one sub-command.
pub(crate) fn log_file(name: &str) -> PathBuf {
    target().join("xtask/logs").join(format!("{name}.log"))
}

/// Creates a folder and its parents.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("create folder {}", path.display()))
}

/// Writes a file so that a reader sees the old or the new content, never half of it.
pub(crate) fn write_file(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    if let Some(parent) = path.parent() {
        make_dir(parent)?;
    }
    let fresh = path.with_extension(format!("new{}", std::process::id()));
    fs::write(&fresh, content).with_context(|| format!("write {}", fresh.display()))?;
    fs::rename(&fresh, path).with_context(|| format!("rename to {}", path.display()))
}

/// A folder that is removed when the value is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates the folder, and removes those that killed runs left behind.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        let parent = target().join("xtask/run");
        make_dir(&parent)?;
        for entry in fs::read_dir(&parent).context("read target/xtask/run")?.flatten() {
            let name = entry.file_name();
            let owner = name
                .to_str()
                .and_then(|name| name.rsplit('-').next()?.parse::<u32>().ok());
            if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                // Somebody else may be removing it too: what stays is removed by the next run.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let path = parent.join(format!("{purpose}-{}", std::process::id()));
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("empty {}", path.display()))?;
        }
        make_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
