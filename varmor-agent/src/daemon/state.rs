//! The reports in the state folder: `policies.json` (what became of each file) and `status.json` (what is
//! enforced). Written by the agent, read by `varmor status` and by people.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::enforcer::{Activity, Counters, LoadedProfile};
use crate::events::audit::Losses;
use crate::files;

pub const POLICIES: &str = "policies.json";
pub const STATUS: &str = "status.json";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policies {
    pub files: Vec<PolicyFile>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyFile {
    pub file: String,
    /// `ok`, `invalid` or `removed`.
    pub state: String,
    pub message: String,
    /// As `varmor check` prints them.
    pub diagnostics: Vec<String>,
    pub objects: Vec<PolicyState>,
}

/// A policy object and how much of it is in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyState {
    pub policy: String,
    pub profile: String,
    pub rules: usize,
    /// `current`: as the file says; `last-good`: the file is bad, this is the version before; `refused`: the
    /// kernel did not take it, see `message`; `pending`: not loaded yet.
    pub enforced: String,
    pub message: String,
    /// What became of it at the enforcers that the container runtime applies.
    #[serde(default)]
    pub by_runtime: Vec<RuntimeState>,
}

/// A profile that a container gets if its settings name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeState {
    pub enforcer: String,
    /// `loaded`, `refused` or `pending`.
    pub state: String,
    pub rules: usize,
    /// Why it was refused; else how a container gets it.
    pub message: String,
    /// Rules that this machine cannot hold: id and reason.
    pub unsupported: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    pub pid: u32,
    pub policy_dir: PathBuf,
    /// Empty = connected.
    pub containerd_problem: String,
    pub profiles: Vec<LoadedProfile>,
    pub containers: Vec<ProtectedContainer>,
    pub counters: Counters,
    pub activity: Vec<Activity>,
    /// Violations that are in no log because the file could not be written.
    pub lost_lines: u64,
    #[serde(default)]
    pub records: Records,
    /// Violations that other outputs have not got.
    #[serde(default)]
    pub lost_by_output: Vec<(String, u64)>,
}

/// How the agent hears of `AppArmor` and seccomp.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// `audit netlink`, `kernel log`, or empty.
    pub source: String,
    /// Why there is no source.
    pub problem: String,
    pub lost: Losses,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedContainer {
    pub container: String,
    pub name: String,
    pub profile: String,
    pub cgroup: u64,
}

/// Reads a report; `None` if there is none.
pub fn read<T: for<'de> Deserialize<'de>>(state_dir: &Path, name: &str) -> io::Result<Option<T>> {
    match fs::read(state_dir.join(name)) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A report that is only written when it changed.
pub struct Report<T> {
    path: PathBuf,
    last: Option<T>,
}

impl<T: Serialize + PartialEq> Report<T> {
    #[must_use]
    pub fn new(state_dir: &Path, name: &str) -> Self {
        Self {
            path: state_dir.join(name),
            last: None,
        }
    }

    pub fn write(&mut self, report: T) -> io::Result<()> {
        if self.last.as_ref() == Some(&report) {
            return Ok(());
        }
        let mut text = serde_json::to_vec_pretty(&report)?;
        text.push(b'\n');
        files::replace(&self.path, &text)?;
        self.last = Some(report);
        Ok(())
    }

    /// What stands in the file.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.last.as_ref()
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_read_back_and_not_written_twice() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = Report::new(folder.path(), STATUS);
        let status = Status {
            pid: 7,
            ..Status::default()
        };
        report.write(status.clone()).unwrap();
        assert_eq!(
            read::<Status>(folder.path(), STATUS).unwrap(),
            Some(status.clone())
        );
        fs::remove_file(report.path()).unwrap();
        report.write(status).unwrap();
        assert!(
            read::<Status>(folder.path(), STATUS).unwrap().is_none(),
            "nothing changed, nothing written"
        );
    }
}
