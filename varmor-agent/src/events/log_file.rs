//! `violations.log`: JSON lines, rotated, never in the way of enforcement.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::files;

/// When a file is put aside, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes at which a file is put aside.
    pub max_size: u64,
    /// Files that are kept beside the current one.
    pub backups: u32,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            max_size: 10 << 20,
            backups: 3,
        }
    }
}

pub struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    file: Option<File>,
    size: u64,
    lost: u64,
}

impl LogFile {
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self::with_rotation(path, Rotation::default())
    }

    #[must_use]
    pub fn with_rotation(path: PathBuf, rotation: Rotation) -> Self {
        Self {
            path,
            rotation,
            file: None,
            size: 0,
            lost: 0,
        }
    }

    /// Writes one line. On an error the line is lost and counted; the next one tries again.
    pub fn write(&mut self, line: &str) -> io::Result<()> {
        self.try_write(line).inspect_err(|_| {
            self.lost += 1;
            self.file = None;
        })
    }

    /// Lines that could not be written.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn try_write(&mut self, line: &str) -> io::Result<()> {
        let length = line.len() as u64 + 1;
        if self.was_moved() {
            self.file = None;
        }
        if self.file.is_none() {
            self.open()?;
        }
        if self.size > 0 && self.size + length > self.rotation.max_size {
            self.rotate()?;
            self.open()?;
        }
        let file = self.file.as_mut().expect("opened above");
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        // One write: another reader never sees half of a line, except on a full disk, where the half is cut off.
        if let Err(error) = file.write_all(&bytes) {
            // Without success the next line begins behind the half one; it has a line break of its own then.
            let _ = file.set_len(self.size);
            return Err(error);
        }
        self.size += length;
        Ok(())
    }

    /// Another program (logrotate) put the file aside or removed it.
    fn was_moved(&self) -> bool {
        let Some(file) = &self.file else { return false };
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        match (
            file.metadata().map(identity),
            fs::symlink_metadata(&self.path).map(identity),
        ) {
            (Ok(open), Ok(named)) => open != named,
            _ => true,
        }
    }

    fn open(&mut self) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = files::append(&self.path)?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    /// `violations.log` -> `.1` -> `.2` -> `.3`; each step is a rename, so no line is ever copied.
    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        if self.rotation.backups == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.rotation.backups).rev() {
            rename_if_there(&self.backup(number), &self.backup(number + 1))?;
        }
        rename_if_there(&self.path, &self.backup(1))
    }

    fn backup(&self, number: u32) -> PathBuf {
        files::sibling(&self.path, &format!(".{number}"))
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn lab(max_size: u64) -> (tempfile::TempDir, LogFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("varmor/violations.log");
        let rotation = Rotation {
            max_size,
            ..Rotation::default()
        };
        (folder, LogFile::with_rotation(path, rotation))
    }

    #[test]
    fn lines_are_appended_to_a_private_file() {
        let (_folder, mut log) = lab(1000);
        log.write("one").unwrap();
        log.write("two").unwrap();
        assert_eq!(fs::read_to_string(log.path()).unwrap(), "one\ntwo\n");
        assert_eq!(
            fs::metadata(log.path()).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn full_file_is_put_aside_and_three_are_kept() {
        let (_folder, mut log) = lab(8);
        for number in 1..=6 {
            log.write(&format!("line {number}")).unwrap();
        }
        let read = |suffix: &str| fs::read_to_string(files::sibling(log.path(), suffix));
        assert_eq!(read("").unwrap(), "line 6\n");
        assert_eq!(read(".1").unwrap(), "line 5\n");
        assert_eq!(read(".3").unwrap(), "line 3\n");
        assert!(read(".4").is_err());
    }

    #[test]
    fn without_backups_only_the_current_file_is_there() {
        let (folder, mut log) = lab(8);
        log.rotation.backups = 0;
        log.write("line 1").unwrap();
        log.write("line 2").unwrap();
        assert_eq!(fs::read_to_string(log.path()).unwrap(), "line 2\n");
        assert_eq!(fs::read_dir(folder.path().join("varmor")).unwrap().count(), 1);
    }

    #[test]
    fn line_larger_than_a_file_is_written_whole() {
        let (_folder, mut log) = lab(8);
        log.write("a line of more than eight bytes").unwrap();
        log.write("x").unwrap();
        assert_eq!(fs::read_to_string(log.path()).unwrap(), "x\n");
    }

    #[test]
    fn restart_continues_the_file() {
        let (_folder, mut log) = lab(1000);
        log.write("one").unwrap();
        let mut again = LogFile::new(log.path().to_owned());
        again.write("two").unwrap();
        assert_eq!(fs::read_to_string(log.path()).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn file_moved_by_another_program_is_opened_anew() {
        let (_folder, mut log) = lab(1000);
        log.write("one").unwrap();
        fs::rename(log.path(), files::sibling(log.path(), ".old")).unwrap();
        log.write("two").unwrap();
        assert_eq!(fs::read_to_string(log.path()).unwrap(), "two\n");
    }

    #[test]
    fn full_disk_counts_losses_and_recovers() {
        let (folder, mut log) = lab(1000);
        log.path = PathBuf::from("/dev/full");
        assert!(log.write("one").is_err());
        assert!(log.write("two").is_err());
        assert_eq!(log.lost(), 2);
        log.path = folder.path().join("violations.log");
        log.write("three").unwrap();
        assert_eq!(fs::read_to_string(log.path()).unwrap(), "three\n");
    }
}
