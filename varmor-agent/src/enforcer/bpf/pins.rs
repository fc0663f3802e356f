//! Where programs, maps and links live between agents: a folder of the BPF filesystem per generation of programs.
//!
//! `{root}/{build}/maps`, `programs` and `links`. `{build}` names the kernel object and the ABI, so that an agent
//! adopts exactly the programs that it would load itself; a folder with another name belongs to another version
//! and is retired once this version enforces everything.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use varmor_common::abi::ABI_VERSION;
use varmor_common::fingerprint::fnv1a;

const COMPLETE: &str = "complete";
const FOLDERS: [&str; 3] = ["maps", "programs", "links"];

/// The pins of one generation of programs.
#[derive(Clone, Debug)]
pub(super) struct Pins {
    root: PathBuf,
    build: String,
}

impl Pins {
    /// The pins of this agent's own kernel object.
    pub(super) fn of_object(root: &Path, object: &[u8]) -> Self {
        // Who can write to the BPF filesystem is root already.
        let digest = fnv1a(object.iter().copied());
        Self {
            root: root.to_owned(),
            build: format!("abi{ABI_VERSION}-{digest:016x}"),
        }
    }

    pub(super) fn map(&self, name: &str) -> PathBuf {
        self.folder().join("maps").join(name)
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder().join("programs").join(name)
    }

    pub(super) fn link(&self, name: &str) -> PathBuf {
        self.folder().join("links").join(name)
    }

    /// Names of the pinned maps.
    pub(super) fn map_names(&self) -> io::Result<Vec<String>> {
        self.names("maps")
    }

    /// Names of the pinned programs.
    pub(super) fn program_names(&self) -> io::Result<Vec<String>> {
        self.names("programs")
    }

    /// Names of the pinned links.
    pub(super) fn link_names(&self) -> io::Result<Vec<String>> {
        self.names("links")
    }

    /// Everything that was noted.
    pub(super) fn notes(&self) -> io::Result<Vec<PathBuf>> {
        let all = fs::read_dir(self.folder())?.map(|entry| entry.map(|entry| entry.path()));
        all.filter(|path| {
            path.as_ref()
                .is_ok_and(|path| !FOLDERS.iter().any(|folder| path.ends_with(folder)))
        })
        .collect()
    }

    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        fs::read_dir(self.folder().join(folder))?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    /// A marker that is written last: without it the folder is the rest of a start that failed.
    pub(super) fn is_complete(&self) -> bool {
        self.has(COMPLETE)
    }

    pub(super) fn set_complete(&self) -> io::Result<()> {
        self.note(COMPLETE)
    }

    /// Was this noted about these programs?
    pub(super) fn has(&self, note: &str) -> bool {
        self.folder().join(note).exists()
    }

    /// Notes a fact for later agents.
    pub(super) fn note(&self, note: &str) -> io::Result<()> {
        // bpffs holds objects and folders, no files.
        match fs::create_dir(self.folder().join(note)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes the folders, readable by root alone, and removes what a failed start left.
    pub(super) fn create(&self) -> io::Result<()> {
        self.remove()?;
        for folder in FOLDERS {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(self.folder().join(folder))?;
        }
        Ok(())
    }

    /// Removes every pin of this generation: what is attached is detached.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.folder()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the folder that all versions share, unless one has pins there.
    pub(super) fn remove_root(&self) {
        let _ = fs::remove_dir(&self.root);
    }

    /// The pins of other versions.
    pub(super) fn others(&self) -> io::Result<Vec<Self>> {
        let all = Self::all(&self.root)?.into_iter();
        Ok(all.filter(|pins| pins.build != self.build).collect())
    }

    /// The pins of every version in this folder.
    pub(super) fn all(root: &Path) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with("abi") {
                all.push(Self {
                    root: root.to_owned(),
                    build: name,
                });
            }
        }
        Ok(all)
    }

    pub(super) fn name(&self) -> &str {
        &self.build
    }

    /// The folders that are nobody else's.
    pub(super) fn own_folders(&self) -> [PathBuf; 2] {
        [self.root.clone(), self.folder()]
    }

    fn folder(&self) -> PathBuf {
        self.root.join(&self.build)
    }
}
