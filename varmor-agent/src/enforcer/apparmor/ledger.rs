//! Which profiles were loaded by us: others may use names that begin like ours.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::enforcer::EnforcerError;
use crate::files;

/// Kept beside the lock: both end with the boot, as the loaded profiles do.
pub(super) struct Ledger {
    path: PathBuf,
    names: BTreeSet<String>,
}

impl Ledger {
    pub(super) fn open(path: &Path) -> Result<Self, EnforcerError> {
        let names = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed("read", path, error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(failed("read", path, error)),
        };
        Ok(Self {
            path: path.to_owned(),
            names,
        })
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(super) fn add(&mut self, name: &str) -> Result<(), EnforcerError> {
        if self.names.insert(name.to_owned()) {
            self.save()?;
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> Result<(), EnforcerError> {
        if self.names.remove(name) {
            self.save()?;
        }
        Ok(())
    }

    fn save(&self) -> Result<(), EnforcerError> {
        let text = serde_json::to_vec(&self.names).map_err(|error| failed("write", &self.path, error))?;
        files::replace(&self.path, &text).map_err(|error| failed("write", &self.path, error))
    }
}

fn failed(
    verb: &str,
    path: &Path,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> EnforcerError {
    EnforcerError::kernel(
        format!("{verb} the list of our AppArmor profiles ({})", path.display()),
        error,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outlive_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("apparmor.json");
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.add("varmor-a").unwrap();
        ledger.add("varmor-b").unwrap();
        ledger.remove("varmor-a").unwrap();
        let again = Ledger::open(&path).unwrap();
        assert!(again.contains("varmor-b") && !again.contains("varmor-a"));
    }

    #[test]
    fn a_broken_ledger_is_an_error_and_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("apparmor.json");
        std::fs::write(&path, "[").unwrap();
        assert!(Ledger::open(&path).is_err());
    }
}
