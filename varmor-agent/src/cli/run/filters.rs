//! The filters of system calls of a run: checked by the run, loaded by the process that becomes the command.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use varmor_common::compile::seccomp::OciSeccomp;
use varmor_common::profile::Profile;

use super::place::Place;
use crate::enforcer::seccomp;

const NAME: &str = "seccomp.json";

/// The file that hands the filters over; it goes with the place of the run.
pub(super) struct Filters {
    path: PathBuf,
}

impl Filters {
    /// Writes the filters of the profile. One that libseccomp does not take starts nothing.
    pub(super) fn write(profile: &Profile, place: &Place) -> anyhow::Result<Self> {
        for filter in &profile.seccomp {
            let assembled = seccomp::assemble(filter).context("make the filter of system calls")?;
            for name in assembled.skipped() {
                eprintln!("varmor: Seccomp: not enforced: libseccomp does not know the system call `{name}`");
            }
        }
        let path = place.state_dir().join(NAME);
        write(&path, &profile.seccomp).with_context(|| format!("write the filters to {}", path.display()))?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn write(path: &Path, filters: &[OciSeccomp]) -> anyhow::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    Ok(file.write_all(&serde_json::to_vec(filters)?)?)
}

/// Puts this process under the filters of the file.
pub(super) fn enter(path: &Path) -> anyhow::Result<()> {
    let filters = read(path).with_context(|| format!("read the filters of {}", path.display()))?;
    seccomp::load_into_this_process(&filters).context("load the filters of system calls")
}

fn read(path: &Path) -> anyhow::Result<Vec<OciSeccomp>> {
    let filters: Vec<OciSeccomp> = serde_json::from_slice(&fs::read(path)?)?;
    anyhow::ensure!(!filters.is_empty(), "there is none in it");
    Ok(filters)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use varmor_common::compile::seccomp::{Action, Architecture};

    use super::*;

    fn filter(default_action: Action) -> OciSeccomp {
        OciSeccomp {
            default_action,
            default_errno_ret: None,
            architectures: Architecture::HERE.to_vec(),
            flags: Vec::new(),
            syscalls: Vec::new(),
        }
    }

    #[test]
    fn filters_come_out_as_they_went_in_and_nobody_else_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let filters = [filter(Action::Allow), filter(Action::Log)];
        write(&path, &filters).unwrap();
        assert_eq!(read(&path).unwrap(), filters);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write(&path, &filters).is_err(), "somebody put a file there");
    }

    #[test]
    fn a_file_without_filters_enters_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        for text in ["[]", "", "{}", r#"[{"defaultAction": "SCMP_ACT_NOTIFY"}]"#] {
            fs::write(&path, text).unwrap();
            assert!(enter(&path).is_err(), "{text}");
        }
        fs::remove_file(&path).unwrap();
        assert!(enter(&path).is_err());
    }
}
