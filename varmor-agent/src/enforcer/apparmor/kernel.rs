//! The kernel's interface for `AppArmor` profiles: files of securityfs and of `/proc/PID/attr`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use varmor_common::compile::apparmor::Features;

use crate::enforcer::EnforcerError;

pub(super) const SECURITYFS: &str = "/sys/kernel/security/apparmor";
const ENABLED: &str = "/sys/module/apparmor/parameters/enabled";

pub(super) struct Kernel {
    securityfs: PathBuf,
}

impl Kernel {
    /// Finds the interface, or says what is missing.
    pub(super) fn open(securityfs: PathBuf) -> Result<Self, EnforcerError> {
        let missing = |reason: &str| EnforcerError::Missing {
            enforcer: "AppArmor",
            reason: reason.to_owned(),
        };
        if !securityfs.join("profiles").exists() {
            let enabled = fs::read_to_string(ENABLED).unwrap_or_default();
            return Err(match enabled.trim() {
                "Y" => missing(
                    "the kernel runs AppArmor, but /sys/kernel/security shows nothing of it: mount -t securityfs \
                     securityfs /sys/kernel/security",
                ),
                "" => missing("this kernel is built without AppArmor"),
                _ => missing("AppArmor is off: add `apparmor` to the lsm= list of the kernel command line"),
            });
        }
        Ok(Self { securityfs })
    }

    /// The folder that tells what this kernel can do.
    pub(super) fn features(&self) -> PathBuf {
        self.securityfs.join("features")
    }

    /// What rules may be written; an older parser knows less than the kernel.
    pub(super) fn known_features(&self, modern_parser: bool) -> Features {
        let features = self.features();
        let has = |path: &str| features.join(path).exists();
        let mask = |path: &str, word: &str| {
            let text = fs::read_to_string(features.join(path)).unwrap_or_default();
            text.split_whitespace().any(|one| one == word)
        };
        Features {
            user_namespaces: modern_parser && mask("namespaces/mask", "userns_create"),
            io_uring: modern_parser && has("io_uring"),
            message_queues: modern_parser && has("ipc/posix_mqueue"),
        }
    }

    /// The names of all loaded profiles, also of other programs.
    pub(super) fn loaded(&self) -> Result<Vec<String>, EnforcerError> {
        let path = self.securityfs.join("profiles");
        let text = fs::read_to_string(&path).map_err(|error| {
            EnforcerError::kernel(format!("read the loaded profiles ({})", path.display()), error)
        })?;
        Ok(text.lines().filter_map(name_of).collect())
    }

    /// Loads a compiled profile, or replaces the one of the same name in one step.
    pub(super) fn replace(&self, name: &str, binary: &[u8]) -> Result<(), EnforcerError> {
        self.write(".replace", binary)
            .map_err(|error| EnforcerError::kernel(format!("load the AppArmor profile `{name}`"), error))
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), EnforcerError> {
        self.write(".remove", name.as_bytes())
            .map_err(|error| EnforcerError::kernel(format!("unload the AppArmor profile `{name}`"), error))
    }

    /// The kernel takes a profile in a single write.
    fn write(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.securityfs.join(file))?;
        let written = file.write(bytes)?;
        if written == bytes.len() {
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "{written} of {} bytes were taken",
                bytes.len()
            )))
        }
    }
}

/// `varmor-demo-web (enforce)`.
fn name_of(line: &str) -> Option<String> {
    let (name, mode) = line.rsplit_once(" (")?;
    mode.ends_with(')').then(|| name.to_owned())
}

/// From the next exec of this thread on it is under the loaded profile `name`.
pub fn enter_at_exec(name: &str) -> io::Result<()> {
    // The first is `AppArmor`'s own file; the second goes to whichever LSM is the first.
    let own = Path::new("/proc/thread-self/attr/apparmor/exec");
    let path = if own.exists() {
        own
    } else {
        Path::new("/proc/thread-self/attr/exec")
    };
    OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(format!("exec {name}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_the_list() {
        assert_eq!(
            name_of("varmor-demo-web (enforce)").as_deref(),
            Some("varmor-demo-web")
        );
        assert_eq!(
            name_of("/usr/bin/man (a) (complain)").as_deref(),
            Some("/usr/bin/man (a)")
        );
        assert_eq!(name_of("broken"), None);
    }

    #[test]
    fn a_machine_without_apparmor_says_so() {
        let error = Kernel::open(PathBuf::from("/nonexistent"))
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("AppArmor"), "{error}");
    }

    #[test]
    fn features_are_those_of_kernel_and_parser() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("features/namespaces")).unwrap();
        fs::write(folder.path().join("profiles"), "").unwrap();
        fs::write(folder.path().join("features/namespaces/mask"), "userns_create\n").unwrap();
        let kernel = Kernel::open(folder.path().to_path_buf()).unwrap();
        let (new, old) = (kernel.known_features(true), kernel.known_features(false));
        assert!(new.user_namespaces && !new.io_uring, "{new:?}");
        assert!(!old.user_namespaces, "{old:?}");
    }
}
