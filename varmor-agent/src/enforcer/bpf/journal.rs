//! What a writer was about to do with the tables, so that the next agent can finish or take back what a killed one began.
//!
//! To look for forgotten tables would take hours on kernels that wait for running programs in each look-up of a map of
//! maps (6.1 does, in `bpf_map_copy_value`), so their indexes are noted before they are touched.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::files;

/// A file beside the hash key: it lives as long as the maps do at most.
pub(super) struct Journal {
    path: PathBuf,
}

impl Journal {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Notes the indexes that the coming change fills or empties.
    pub(super) fn note(&self, indexes: &[u32]) -> io::Result<()> {
        files::replace(&self.path, &serde_json::to_vec(indexes)?)
    }

    /// The change is done.
    pub(super) fn clear(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The indexes of a change that was not finished. A file is replaced whole, so one that cannot be read is no journal.
    pub(super) fn unfinished(&self) -> Vec<u32> {
        fs::read(&self.path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::Journal;

    #[test]
    fn an_unfinished_change_is_told_until_it_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::new(folder.path().join("journal"));
        assert!(journal.unfinished().is_empty());
        journal.note(&[3, 9]).unwrap();
        assert_eq!(Journal::new(folder.path().join("journal")).unfinished(), [3, 9]);
        journal.clear().unwrap();
        assert!(journal.unfinished().is_empty());
    }
}
