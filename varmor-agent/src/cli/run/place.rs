//! Where a run lives: its cgroup, its folder on the BPF filesystem, its state folder. All carry the process id of
//! the run, so that what a killed run left behind is found and removed by the next one.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::containers::cgroup::Hierarchy;
use crate::enforcer::CgroupId;

const PREFIX: &str = "varmor-run-";
const BPFFS: &str = "/sys/fs/bpf";
const STATE: &str = "/run/varmor";

pub(super) struct Place {
    cgroup: PathBuf,
    cgroup_id: CgroupId,
    bpffs: PathBuf,
    state_dir: PathBuf,
}

impl Place {
    pub(super) fn create() -> anyhow::Result<Self> {
        let hierarchy = Hierarchy::find()?;
        let name = format!("{PREFIX}{}", std::process::id());
        let cgroup = hierarchy.root().join(&name);
        fs::create_dir(&cgroup).with_context(|| format!("create the cgroup {}", cgroup.display()))?;
        let mut place = Self {
            cgroup_id: CgroupId(0),
            cgroup,
            bpffs: Path::new(BPFFS).join(&name),
            state_dir: Path::new(STATE).join(&name),
        };
        place.cgroup_id = hierarchy.id(&place.cgroup)?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&place.state_dir)
            .with_context(|| format!("create the state folder {}", place.state_dir.display()))?;
        Ok(place)
    }

    pub(super) fn cgroup(&self) -> &Path {
        &self.cgroup
    }

    pub(super) fn cgroup_id(&self) -> CgroupId {
        self.cgroup_id
    }

    pub(super) fn bpffs(&self) -> &Path {
        &self.bpffs
    }

    pub(super) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Ends what the command left behind: it would go on without a policy.
    pub(super) fn end_processes(&mut self) {
        end_processes(&self.cgroup);
    }

    pub(super) fn remove(&mut self) {
        remove(&self.cgroup, &self.bpffs, &self.state_dir);
    }
}

impl Drop for Place {
    /// Also after an error; removing twice does no harm.
    fn drop(&mut self) {
        self.end_processes();
        self.remove();
    }
}

/// Removes what runs that were killed left behind, unless their command is still running: then it stays
/// protected.
pub(super) fn remove_abandoned() {
    let Ok(hierarchy) = Hierarchy::find() else { return };
    for folder in [Path::new(BPFFS), hierarchy.root()] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(pid) = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok()) else {
                continue;
            };
            let cgroup = hierarchy.root().join(&name);
            if Path::new(&format!("/proc/{pid}")).exists() || !processes(&cgroup).is_empty() {
                continue;
            }
            remove(
                &cgroup,
                &Path::new(BPFFS).join(&name),
                &Path::new(STATE).join(&name),
            );
        }
    }
}

fn end_processes(cgroup: &Path) {
    for _ in 0..200 {
        let left = processes(cgroup);
        if left.is_empty() {
            return;
        }
        for pid in left {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
        sleep(Duration::from_millis(10));
    }
}

/// Processes of the cgroup and of those below it.
fn processes(cgroup: &Path) -> Vec<Pid> {
    let own = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<Pid> = own
        .lines()
        .filter_map(|line| Pid::from_raw(line.parse().ok()?))
        .collect();
    for below in folders(cgroup) {
        pids.extend(processes(&below));
    }
    pids
}

fn folders(cgroup: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Best effort: what cannot be removed now is removed by the next run.
fn remove(cgroup: &Path, bpffs: &Path, state_dir: &Path) {
    let _ = fs::remove_dir_all(bpffs);
    remove_cgroup(cgroup);
    let _ = fs::remove_dir_all(state_dir);
}

/// A cgroup's files cannot be unlinked, only its folders removed, from below.
fn remove_cgroup(cgroup: &Path) {
    for below in folders(cgroup) {
        remove_cgroup(&below);
    }
    let _ = fs::remove_dir(cgroup);
}
