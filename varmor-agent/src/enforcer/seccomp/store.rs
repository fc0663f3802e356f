//! Profiles as files in the kubelet's seccomp folder, where container runtimes look for them.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use thiserror::Error;
use varmor_common::compile::seccomp::{Flag, OciSeccomp};
use varmor_common::policy::Enforcers;
use varmor_common::profile::Profile;

use super::check::{self, CheckError};
use crate::enforcer::{EnforcerError, ProfileStore, Stored};

/// Every profile of ours begins with this; other files of the folder are somebody else's.
const PREFIX: &str = "varmor-";
/// Files that are not finished yet. No profile of ours begins with a dot.
const UNFINISHED: &str = ".varmor-";
const LONGEST: usize = 63;

/// Why a profile cannot be written, removed or listed.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error(
        "`{0}` is no name of a seccomp profile: it must begin with `varmor-` and have at most 63 of a-z, 0-9, `-` and `.`"
    )]
    Name(String),
    #[error("the seccomp profile `{name}` cannot be used")]
    Profile {
        name: String,
        #[source]
        source: CheckError,
    },
    #[error("{operation} in {}", folder.display())]
    File {
        operation: String,
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The folder, held open: what happens to its path later does not lead us elsewhere.
#[derive(Debug)]
pub struct SeccompStore {
    path: PathBuf,
    folder: OwnedFd,
    flags: FilterFlags,
}

/// What the container runtimes of this node do with a filter that has flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FilterFlags {
    /// runc before 1.2 starts no container with such a filter: no policy may ask for the flag that logs what is refused.
    #[default]
    Refused,
    /// runc since 1.2, crun.
    Taken,
}

/// Said of each profile that would have had it.
const NO_LOG: &str = "what seccomp refuses is not in the kernel's audit log: runc before 1.2 starts no container whose filter \
                      has flags; set --seccomp-flags=taken where the runtimes of this node take them";

impl SeccompStore {
    /// Opens the folder, makes it if it is missing, and removes what a killed agent left unfinished.
    pub fn open(path: &Path, flags: FilterFlags) -> Result<Self, StoreError> {
        let fail = |operation: &str, source: io::Error| StoreError::File {
            operation: operation.to_owned(),
            folder: path.to_owned(),
            source,
        };
        std::fs::create_dir_all(path).map_err(|error| fail("make the folder", error))?;
        let mode = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, mode, Mode::empty())
            .map_err(|error| fail("open the folder", error.into()))?;
        let store = Self {
            path: path.to_owned(),
            folder,
            flags,
        };
        for name in store.names(UNFINISHED)? {
            store.unlink(&name)?;
        }
        Ok(store)
    }

    /// Writes a profile in one step. A profile that libseccomp does not take never replaces one that it took. Answers
    /// with the names of system calls that libseccomp does not know.
    pub fn write(&mut self, name: &str, profile: &OciSeccomp) -> Result<Vec<String>, StoreError> {
        valid(name)?;
        let unusable = |source| StoreError::Profile {
            name: name.to_owned(),
            source,
        };
        let filter = check::assemble(profile).map_err(unusable)?;
        filter.program().map_err(unusable)?;
        self.replace(name, profile.to_json().as_bytes())
            .map_err(|error| self.failed("write", name, error))?;
        Ok(filter.skipped().to_vec())
    }

    /// Removes a profile of ours; not an error when there is none.
    pub fn delete(&mut self, name: &str) -> Result<(), StoreError> {
        valid(name)?;
        self.unlink(name)?;
        rustix::fs::fsync(&self.folder).map_err(|error| self.failed("remove", name, error.into()))
    }

    /// The names of our profiles, sorted.
    pub fn list(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.names(PREFIX)?;
        names.retain(|name| valid(name).is_ok());
        names.sort_unstable();
        Ok(names)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = format!("{UNFINISHED}{name}");
        match rustix::fs::unlinkat(&self.folder, &temporary, AtFlags::empty()) {
            Err(error) if error != rustix::io::Errno::NOENT => return Err(error.into()),
            _ => {}
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &temporary, flags, Mode::from_raw_mode(0o600))?;
        let mut file = std::fs::File::from(file);
        file.write_all(bytes)?;
        file.sync_all()?;
        rustix::fs::renameat(&self.folder, &temporary, &self.folder, name)?;
        Ok(rustix::fs::fsync(&self.folder)?)
    }

    fn unlink(&self, name: &str) -> Result<(), StoreError> {
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Err(error) if error != rustix::io::Errno::NOENT => Err(self.failed("remove", name, error.into())),
            _ => Ok(()),
        }
    }

    /// Files whose names begin like this.
    fn names(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let failed = |error: rustix::io::Errno| self.failed("list", "the profiles", error.into());
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if name.starts_with(prefix) && !entry.file_type().is_dir() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn failed(&self, verb: &str, name: &str, source: io::Error) -> StoreError {
        StoreError::File {
            operation: format!("{verb} {name}"),
            folder: self.path.clone(),
            source,
        }
    }
}

impl ProfileStore for SeccompStore {
    fn enforcer(&self) -> Enforcers {
        Enforcers::SECCOMP
    }

    fn apply(&mut self, profile: &Profile) -> Result<Stored, EnforcerError> {
        let refuse = |reason: String| EnforcerError::Refused {
            profile: profile.name.clone(),
            reason,
        };
        let filter = match &profile.seccomp[..] {
            [filter] => filter,
            [] => return Err(refuse("the policy does not name Seccomp".to_owned())),
            several => {
                let count = several.len();
                return Err(refuse(format!(
                    "it has {count} filters, and a runtime loads one; join the policies"
                )));
            }
        };
        let mut filter = filter.clone();
        let is_silent = self.flags == FilterFlags::Refused && filter.flags.contains(&Flag::Log);
        if is_silent {
            filter.flags.retain(|flag| *flag != Flag::Log);
        }
        let skipped = self
            .write(&profile.name, &filter)
            .map_err(|error| EnforcerError::kernel("hold the policy's filter", error))?;
        let unsupported = |name: String| {
            (
                name,
                "the libseccomp of this agent does not know the system call".to_owned(),
            )
        };
        Ok(Stored {
            rules: filter.rules(),
            unsupported: skipped
                .into_iter()
                .map(unsupported)
                .chain(is_silent.then(|| ("auditViolations".to_owned(), NO_LOG.to_owned())))
                .collect(),
        })
    }

    fn remove(&mut self, name: &str) -> Result<(), EnforcerError> {
        self.delete(name)
            .map_err(|error| EnforcerError::kernel(format!("remove the seccomp profile `{name}`"), error))
    }

    fn profiles(&self) -> Result<Vec<String>, EnforcerError> {
        self.list()
            .map_err(|error| EnforcerError::kernel("list the seccomp profiles", error))
    }
}

/// The names that `profile_name` makes, and no other: neither separators nor `..` can be written with them.
fn valid(name: &str) -> Result<(), StoreError> {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    if name.len() <= LONGEST
        && name.strip_prefix(PREFIX).is_some_and(|rest| !rest.is_empty())
        && name.bytes().all(known)
    {
        Ok(())
    } else {
        Err(StoreError::Name(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use varmor_common::compile::seccomp::{Action, Architecture, Condition, Syscalls};

    use super::*;

    fn profile(names: &[&str]) -> OciSeccomp {
        OciSeccomp {
            default_action: Action::Allow,
            default_errno_ret: None,
            architectures: Architecture::HERE.to_vec(),
            flags: Vec::new(),
            syscalls: vec![Syscalls {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                action: Action::Errno,
                errno_ret: Some(1),
                args: Vec::new(),
            }],
        }
    }

    #[test]
    fn profiles_are_written_listed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seccomp");
        let mut store = SeccompStore::open(&path, FilterFlags::Refused).unwrap();
        store.write("varmor-demo-web", &profile(&["splice"])).unwrap();
        store.write("varmor-demo-web", &profile(&["ptrace"])).unwrap();
        store
            .write("varmor-cluster-varmor-a.b", &profile(&["ptrace"]))
            .unwrap();
        assert!(
            fs::read_to_string(path.join("varmor-demo-web"))
                .unwrap()
                .contains("ptrace")
        );
        assert_eq!(
            store.list().unwrap(),
            ["varmor-cluster-varmor-a.b", "varmor-demo-web"]
        );
        store.delete("varmor-demo-web").unwrap();
        store.delete("varmor-demo-web").unwrap();
        assert_eq!(store.list().unwrap(), ["varmor-cluster-varmor-a.b"]);
        assert_eq!(
            fs::read_dir(&path).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn names_that_are_not_ours_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("other.json"), "theirs").unwrap();
        let mut store = SeccompStore::open(folder.path(), FilterFlags::Refused).unwrap();
        let long = format!("varmor-{}", "a".repeat(60));
        for name in [
            "other.json",
            "../varmor-x",
            "varmor-/../../x",
            "varmor-",
            "varmor-A",
            "",
            "varmor-a\0b",
            &long,
        ] {
            assert!(
                matches!(store.write(name, &profile(&["splice"])), Err(StoreError::Name(_))),
                "{name}"
            );
            assert!(matches!(store.delete(name), Err(StoreError::Name(_))), "{name}");
        }
        assert_eq!(store.list().unwrap(), [""; 0]);
        assert_eq!(
            fs::read_to_string(folder.path().join("other.json")).unwrap(),
            "theirs"
        );
    }

    #[test]
    fn flag_that_old_runtimes_refuse_is_written_where_they_take_it_and_told_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let audited = Profile {
            name: "varmor-demo-web".to_owned(),
            seccomp: vec![OciSeccomp {
                flags: vec![Flag::SpecAllow, Flag::Log],
                ..profile(&["splice"])
            }],
            ..Profile::default()
        };
        for (flags, said, written) in [
            (FilterFlags::Refused, 1, vec![Flag::SpecAllow]),
            (FilterFlags::Taken, 0, vec![Flag::SpecAllow, Flag::Log]),
        ] {
            let mut store = SeccompStore::open(folder.path(), flags).unwrap();
            let stored = store.apply(&audited).unwrap();
            assert_eq!(stored.unsupported.len(), said, "{flags:?}");
            let text = fs::read_to_string(folder.path().join("varmor-demo-web")).unwrap();
            let read: OciSeccomp = serde_json::from_str(&text).unwrap();
            assert_eq!(read.flags, written, "{flags:?}");
        }
    }

    #[test]
    fn a_bad_profile_never_replaces_a_good_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = SeccompStore::open(folder.path(), FilterFlags::Refused).unwrap();
        store.write("varmor-demo-web", &profile(&["splice"])).unwrap();
        let mut bad = profile(&["ptrace"]);
        bad.syscalls[0].args.push(Condition::masked(6, 1, 1));
        assert!(matches!(
            store.write("varmor-demo-web", &bad),
            Err(StoreError::Profile { .. })
        ));
        let text = fs::read_to_string(folder.path().join("varmor-demo-web")).unwrap();
        assert!(text.contains("splice") && !text.contains("ptrace"));
    }

    #[test]
    fn links_are_replaced_and_not_followed_and_leftovers_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "untouched").unwrap();
        let path = folder.path().join("seccomp");
        fs::create_dir(&path).unwrap();
        symlink(&victim, path.join("varmor-demo-web")).unwrap();
        symlink(&victim, path.join(".varmor-varmor-demo-web")).unwrap();
        fs::write(path.join(".varmor-varmor-old"), "half").unwrap();
        let mut store = SeccompStore::open(&path, FilterFlags::Refused).unwrap();
        store.write("varmor-demo-web", &profile(&["splice"])).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert!(
            fs::read_to_string(path.join("varmor-demo-web"))
                .unwrap()
                .contains("splice")
        );
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
    }

    #[test]
    fn a_policy_becomes_the_file_that_its_name_says() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = SeccompStore::open(folder.path(), FilterFlags::Refused).unwrap();
        let store: &mut dyn ProfileStore = &mut store;
        let mut policy = Profile {
            name: "varmor-demo-web".to_owned(),
            seccomp: vec![profile(&["splice", "tee"])],
            ..Profile::default()
        };
        assert_eq!(store.apply(&policy).unwrap().rules, 2);
        let written = || fs::read_to_string(folder.path().join("varmor-demo-web")).unwrap();
        assert_eq!(written(), policy.seccomp[0].to_json());
        assert_eq!(store.profiles().unwrap(), ["varmor-demo-web"]);

        let before = written();
        policy.seccomp.push(profile(&["ptrace"]));
        assert!(
            store
                .apply(&policy)
                .unwrap_err()
                .to_string()
                .contains("2 filters")
        );
        policy.seccomp.clear();
        assert!(store.apply(&policy).is_err());
        assert_eq!(written(), before);
        store.remove("varmor-demo-web").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
