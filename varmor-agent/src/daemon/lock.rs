//! One agent per machine: two would undo each other's work.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use anyhow::{Context as _, bail};

/// Held as long as the value lives; the kernel gives it up when the process dies, however it dies.
pub(super) struct InstanceLock {
    _file: File,
}

const NAME: &str = "agent.lock";

impl InstanceLock {
    pub(super) fn take(state_dir: &Path) -> anyhow::Result<Self> {
        let path = state_dir.join(NAME);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(|| format!("open the lock {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {
                bail!(
                    "another varmor-agent is running (it holds {}); stop it first",
                    path.display()
                )
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {}", path.display())),
        }
    }

    /// Is an agent running?
    #[must_use]
    pub(super) fn is_held(state_dir: &Path) -> bool {
        File::open(state_dir.join(NAME))
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_instance_is_refused_while_the_first_lives() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!InstanceLock::is_held(folder.path()));
        let first = InstanceLock::take(folder.path()).unwrap();
        assert!(InstanceLock::is_held(folder.path()));
        let error = InstanceLock::take(folder.path()).err().unwrap().to_string();
        assert!(error.contains("another varmor-agent"), "{error}");
        drop(first);
        assert!(InstanceLock::take(folder.path()).is_ok());
    }
}
