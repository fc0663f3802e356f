//! The secret of the name hash: one per boot and build.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::super::EnforcerError;

/// The secret of the name hash.
pub(super) struct Key {
    pub(super) value: u64,
    /// It was there before, so programs that use it may exist.
    pub(super) existed: bool,
}

/// The secret is readable by root alone: a chosen collision of names would let a container name a file that an
/// allow-list takes for another.
pub(super) fn hash_key(state_dir: &Path, build: &str) -> Result<Key, EnforcerError> {
    let path = state_dir.join(format!("key-{build}"));
    read_or_make(state_dir, &path)
        .map_err(|error| EnforcerError::kernel(format!("keep the hash key in {}", path.display()), error))
}

fn read_or_make(state_dir: &Path, path: &Path) -> io::Result<Key> {
    fs::create_dir_all(state_dir)?;
    let mut bytes = [0; 8];
    if let Ok(mut file) = File::open(path)
        && file.read_exact(&mut bytes).is_ok()
    {
        return Ok(Key {
            value: u64::from_ne_bytes(bytes),
            existed: true,
        });
    }
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    Ok(Key {
        value: u64::from_ne_bytes(bytes),
        existed: false,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn key_is_made_once_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let made = hash_key(folder.path(), "b").unwrap();
        let again = hash_key(folder.path(), "b").unwrap();
        assert!(!made.existed && again.existed);
        assert_eq!(made.value, again.value);
        let permissions = fs::metadata(folder.path().join("key-b"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(permissions & 0o777, 0o600);
    }
}
