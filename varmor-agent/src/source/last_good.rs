//! The last good version of each text, kept beyond a restart of the agent.

use std::fs;
use std::path::PathBuf;

use tracing::warn;

use crate::files;

/// A folder with one file per text.
#[derive(Debug)]
pub(super) struct LastGood {
    path: PathBuf,
}

impl LastGood {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Names and texts of what is kept. What cannot be read counts as absent: the source has the text too.
    pub(super) fn all(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name, fs::read(entry.path()).ok()?))
        })
    }

    pub(super) fn keep(&self, texts: Vec<(String, Vec<u8>)>) {
        if let Err(error) = fs::create_dir_all(&self.path) {
            warn!(path = %self.path.display(), %error, "last good versions cannot be kept beyond a restart");
            return;
        }
        for (name, text) in texts {
            if let Err(error) = files::replace(&self.path.join(&name), &text) {
                warn!(file = %name, %error, "last good version cannot be kept beyond a restart");
            }
        }
    }

    /// It may never have been good; then there is nothing to remove.
    pub(super) fn forget(&self, name: &str) {
        let _ = fs::remove_file(self.path.join(name));
    }
}
