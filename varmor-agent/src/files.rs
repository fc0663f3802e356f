//! Files that other programs read while we write them: replaced atomically, readable by root only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Replaces the file's contents in one step: a reader sees the old text or the new text.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let temporary = sibling(path, ".new");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(contents)?;
    drop(file);
    fs::rename(&temporary, path)
}

/// Opens for appending, creating it with mode 0600; never follows a symbolic link at the last component.
pub fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// The path with `suffix` added to its last component.
#[must_use]
pub fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn replaced_file_is_private_and_leaves_no_temporary() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn planted_temporary_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, b"untouched").unwrap();
        symlink(&victim, folder.path().join("state.json.new")).unwrap();
        replace(&folder.path().join("state.json"), b"new").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"untouched");
    }

    #[test]
    fn append_refuses_a_symbolic_link() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("violations.log");
        symlink(folder.path().join("elsewhere"), &link).unwrap();
        assert!(append(&link).is_err());
    }
}
