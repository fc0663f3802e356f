//! Writes initramfs archives (the kernel's "newc" cpio format).

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use anyhow::{Context, Result, bail};

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_777;

/// An archive under construction. Its bytes depend only on what was added, in which order: cost measurements
/// compare guests that differ in one file.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    inode: u32,
}

impl Archive {
    /// Adds a folder and its parents.
    pub(crate) fn folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let folder = &path[..end];
            if !folder.is_empty() && self.folders.insert(folder.to_owned()) {
                self.entry(folder, DIRECTORY, &[]);
            }
        }
    }

    /// Adds a file with the given permission bits.
    pub(crate) fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        let path = path.trim_start_matches('/');
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent);
        }
        self.entry(path, REGULAR | (mode & 0o7777), content);
    }

    pub(crate) fn symlink(&mut self, path: &str, to: &str) {
        let path = path.trim_start_matches('/');
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent);
        }
        self.entry(path, SYMLINK, to.as_bytes());
    }

    /// Adds a file or a whole folder of the host.
    pub(crate) fn host(&mut self, source: &Path, path: &str) -> Result<()> {
        let about = fs::symlink_metadata(source).with_context(|| format!("look at {}", source.display()))?;
        if about.is_symlink() && !path.ends_with('/') {
            let to = fs::read_link(source).with_context(|| format!("read the link {}", source.display()))?;
            self.symlink(path, &to.to_string_lossy());
        } else if about.is_dir() {
            self.folder(path);
            let mut names: Vec<_> = fs::read_dir(source)
                .and_then(|entries| {
                    entries
                        .map(|entry| entry.map(|entry| entry.file_name()))
                        .collect::<io::Result<_>>()
                })
                .with_context(|| format!("read folder {}", source.display()))?;
            names.sort();
            for name in names {
                self.host(
                    &source.join(&name),
                    &format!("{}/{}", path.trim_end_matches('/'), name.to_string_lossy()),
                )?;
            }
        } else if about.is_file() {
            let content = fs::read(source).with_context(|| format!("read {}", source.display()))?;
            self.file(path, about.permissions().mode(), &content);
        } else {
            bail!(
                "{} is neither file, folder nor link (mode {:o})",
                source.display(),
                about.mode()
            );
        }
        Ok(())
    }

    /// The finished archive, padded so that another one can follow it.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.inode += 1;
        let size = u32::try_from(content.len()).expect("files of an initramfs are smaller than 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("names are short");
        // magic, inode, mode, uid, gid, links, mtime, size, device (2), special device (2), name size, checksum
        let header = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in header {
            write!(self.bytes, "{field:08x}").expect("a vector takes every byte");
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn header_is_110_bytes_and_parents_come_first() {
        let mut archive = Archive::default();
        archive.file("/a/b/c", 0o755, b"content");
        let bytes = archive.finish();
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[110..112], b"a\0");
        let at = |name: &[u8]| {
            bytes
                .windows(name.len())
                .position(|window| window == name)
                .expect("the name is there")
        };
        assert!(at(b"a\0") < at(b"a/b\0") && at(b"a/b\0") < at(b"a/b/c\0"));
        assert_eq!(bytes.len() % 512, 0);
    }

    #[test]
    fn same_content_gives_same_bytes() {
        let make = || {
            let mut archive = Archive::default();
            archive.file("init", 0o755, b"x");
            archive.symlink("bin/sh", "busybox");
            archive.finish()
        };
        assert_eq!(make(), make());
    }
}
