//! A folder of YAML files as the source of policies: watched through inotify, and read again now and then.
//!
//! Works with files that are written in place, replaced by a rename, or reached through the symbolic links of a
//! `ConfigMap` volume (`..data`).

mod watch;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tokio::sync::mpsc;
use tracing::debug;

use self::watch::Finished;
use super::Scan;
use super::catalog::{Catalog, FileText};
use super::last_good::LastGood;

/// A file that changed this recently may still be being written, unless its writer was seen to end.
const SETTLE: Duration = Duration::from_millis(60);
/// Larger files are refused by the parser anyway.
const MAX_FILE: u64 = 4 << 20;
/// More files than anybody has policies; keeps a wrong `--policy-dir` from filling the memory.
const MAX_FILES: usize = 4096;

#[derive(Debug, Error)]
pub enum FolderError {
    #[error("read the policy folder {path}")]
    List {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the policy folder {path} holds more than {MAX_FILES} YAML files; is `--policy-dir` right?")]
    TooMany { path: PathBuf },
}

/// A folder and what was read from it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    last_good: LastGood,
    catalog: Catalog,
    signatures: BTreeMap<String, Option<Signature>>,
    texts: BTreeMap<String, FileText>,
    finished: Finished,
    scanned: bool,
}

/// Identifies a version of a file without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Signature {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Folder {
    #[must_use]
    pub fn new(path: PathBuf, state_dir: &Path, catalog: Catalog) -> Self {
        Self {
            path,
            last_good: LastGood::new(state_dir.join("last-good")),
            catalog,
            signatures: BTreeMap::new(),
            texts: BTreeMap::new(),
            finished: Finished::default(),
            scanned: false,
        }
    }

    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Watches the folder: sends a message whenever it should be scanned, and ends when nobody listens any more.
    pub fn watch(&self, rescan: mpsc::Sender<()>) -> impl Future<Output = ()> + Send + use<> {
        watch::watch(self.path.clone(), rescan, self.finished.clone())
    }

    /// Reads what changed. An error leaves everything as it was: a folder that cannot be listed is not a
    /// folder without policies.
    pub fn scan(&mut self) -> Result<Scan, FolderError> {
        let names = self.list()?;
        let mut scan = Scan::default();
        if !self.scanned {
            self.restore(&names);
        }
        let now = SystemTime::now();
        let finished = self.finished.take();
        let mut dirty = !self.scanned || self.texts.keys().any(|name| !names.contains(name));
        self.texts.retain(|name, _| names.contains(name));
        self.signatures.retain(|name, _| names.contains(name));
        for name in names {
            let path = self.path.join(&name);
            let signature = Signature::of(&path);
            if self.signatures.get(&name) == Some(&signature) && signature.is_some() {
                continue;
            }
            if signature
                .as_ref()
                .is_some_and(|signature| signature.is_younger(SETTLE, now))
                && !finished.contains(OsStr::new(&name))
            {
                scan.unsettled = true;
                if self.texts.contains_key(&name) {
                    continue;
                }
            }
            dirty = true;
            self.texts.insert(name.clone(), read(&path));
            self.signatures.insert(name, signature);
        }
        if !dirty {
            return Ok(scan);
        }
        let restored: Vec<String> = if self.scanned {
            Vec::new()
        } else {
            self.catalog.files().map(|(name, _)| name.to_owned()).collect()
        };
        scan.changed = self.catalog.update(self.texts.clone());
        for name in restored {
            if !scan.changed.contains(&name) {
                scan.changed.push(name);
            }
        }
        self.scanned = true;
        self.save(&scan.changed);
        Ok(scan)
    }

    fn list(&self) -> Result<Vec<String>, FolderError> {
        let failed = |source| FolderError::List {
            path: self.path.clone(),
            source,
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else {
                debug!(name = ?entry.file_name(), "file name is not UTF-8, ignored");
                continue;
            };
            // Hidden names are editors' swap files and the `..data` folders of a ConfigMap volume.
            let is_yaml = Path::new(&name)
                .extension()
                .is_some_and(|extension| extension == "yaml" || extension == "yml");
            if name.starts_with('.') || !is_yaml || entry.path().is_dir() {
                continue;
            }
            names.push(name);
            if names.len() > MAX_FILES {
                return Err(FolderError::TooMany {
                    path: self.path.clone(),
                });
            }
        }
        names.sort();
        Ok(names)
    }

    /// Puts the texts that were in force before a restart in force again, for files that still exist: if one is
    /// bad by now, its last good version counts.
    fn restore(&mut self, names: &[String]) {
        let (kept, stale): (Vec<_>, Vec<_>) =
            self.last_good.all().partition(|(name, _)| names.contains(name));
        for (name, _) in stale {
            self.last_good.forget(&name);
        }
        let kept = kept.into_iter().map(|(name, text)| (name, Ok(text))).collect();
        self.catalog.update(kept);
        self.catalog.take_unsaved();
    }

    fn save(&mut self, changed: &[String]) {
        self.last_good.keep(self.catalog.take_unsaved());
        for name in changed.iter().filter(|name| !self.texts.contains_key(*name)) {
            self.last_good.forget(name);
        }
    }
}

impl Signature {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    fn is_younger(&self, age: Duration, now: SystemTime) -> bool {
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(self.modified.0), u32::try_from(self.modified.1))
        else {
            return false;
        };
        // A time in the future is a wrong clock and not a write in progress.
        now.duration_since(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds))
            .is_ok_and(|elapsed| elapsed < age)
    }
}

/// The file's text; a pipe or a device named `x.yaml` must not block the agent.
fn read(path: &Path) -> FileText {
    let explain = |error: io::Error| format!("cannot be read: {error}");
    let metadata = fs::metadata(path).map_err(explain)?;
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    // One byte more than is allowed lets the parser say that the file is too large.
    let mut bytes = Vec::new();
    File::open(path)
        .map_err(explain)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(explain)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
