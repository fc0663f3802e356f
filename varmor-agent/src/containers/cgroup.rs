//! cgroup v2 directories: from a process to the directory of its container, and which directories still exist.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;

use crate::enforcer::CgroupId;

#[derive(Debug, Error)]
pub enum CgroupError {
    #[error(
        "no cgroup v2 hierarchy is mounted; boot with `systemd.unified_cgroup_hierarchy=1` or run `mount -t cgroup2 none /sys/fs/cgroup`"
    )]
    NotMounted,
    #[error("process {0} has no cgroup v2 path; it has ended, or only cgroup v1 is in use")]
    NoPath(u32),
    #[error(
        "process {0} is in the root cgroup, which cannot be protected without protecting the whole machine"
    )]
    Root(u32),
    #[error(
        "process {pid} is in cgroup `{path}`, which also holds this agent; give the container a cgroup of its own"
    )]
    Shared { pid: u32, path: String },
    #[error("read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The mounted cgroup v2 hierarchy.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    root: PathBuf,
}

impl Hierarchy {
    /// Finds the mount point (`/sys/fs/cgroup`, or `/sys/fs/cgroup/unified` beside cgroup v1).
    pub fn find() -> Result<Self, CgroupError> {
        let path = PathBuf::from("/proc/self/mountinfo");
        let text = fs::read_to_string(&path).map_err(|source| CgroupError::Read { path, source })?;
        let device = |point: &Path| fs::metadata(point).map(|found| found.dev()).ok();
        mount_point(&text, device)
            .map(|root| Self { root })
            .ok_or(CgroupError::NotMounted)
    }

    #[cfg(test)]
    pub(super) fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The cgroup of the container with this id whose first process is `pid`.
    pub fn of_container(
        &self,
        pid: u32,
        container: &str,
        runtime_namespace: &str,
    ) -> Result<(CgroupId, PathBuf), CgroupError> {
        let path = container_path(&process_path(pid)?, container, runtime_namespace)
            .ok_or(CgroupError::Root(pid))?;
        if let Ok(own) = process_path(std::process::id())
            && Path::new(&own).starts_with(&path)
        {
            return Err(CgroupError::Shared { pid, path });
        }
        let directory = self.root.join(path.trim_start_matches('/'));
        Ok((self.id(&directory)?, directory))
    }

    /// The id of a directory.
    pub fn id(&self, directory: &Path) -> Result<CgroupId, CgroupError> {
        let metadata = fs::metadata(directory).map_err(|source| CgroupError::Read {
            path: directory.to_owned(),
            source,
        })?;
        Ok(CgroupId(metadata.ino()))
    }

    /// The cgroup of a process and those above it, the innermost first, without the root.
    pub fn of_process(&self, pid: u32) -> Result<Vec<CgroupId>, CgroupError> {
        let path = process_path(pid)?;
        let own = Path::new(path.trim_start_matches('/'));
        own.ancestors()
            .filter(|folder| !folder.as_os_str().is_empty())
            .map(|folder| self.id(&self.root.join(folder)))
            .collect()
    }

    /// The cgroups at and below this one that hold processes now.
    pub fn populated(&self, top: CgroupId) -> Result<Vec<CgroupId>, CgroupError> {
        let mut found = Vec::new();
        let mut pending: Vec<PathBuf> = subfolders(&self.root)?
            .into_iter()
            .filter(|folder| self.id(folder).is_ok_and(|id| id == top))
            .collect();
        while let Some(folder) = pending.pop() {
            // What vanished meanwhile holds nobody.
            if fs::read_to_string(folder.join("cgroup.procs")).is_ok_and(|text| !text.is_empty())
                && let Ok(id) = self.id(&folder)
            {
                found.push(id);
            }
            pending.extend(subfolders(&folder).unwrap_or_default());
        }
        Ok(found)
    }

    /// Ids of all directories of the hierarchy. An error means that nothing is known.
    pub fn existing(&self) -> Result<BTreeSet<CgroupId>, CgroupError> {
        let mut ids = BTreeSet::from([self.id(&self.root)?]);
        let mut pending = vec![self.root.clone()];
        while let Some(folder) = pending.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                // It vanished while we walked: then it does not exist.
                Err(error) if folder != self.root && error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(CgroupError::Read { path: folder, source }),
            };
            for entry in entries {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                        break;
                    }
                    Err(source) => return Err(CgroupError::Read { path: folder, source }),
                };
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    // The inode number of the entry is the id; no second look-up that could race.
                    ids.insert(CgroupId(std::os::unix::fs::DirEntryExt::ino(&entry)));
                    pending.push(entry.path());
                }
            }
        }
        Ok(ids)
    }
}

fn subfolders(folder: &Path) -> Result<Vec<PathBuf>, CgroupError> {
    let failed = |source| CgroupError::Read {
        path: folder.to_owned(),
        source,
    };
    let entries = fs::read_dir(folder).map_err(failed)?;
    Ok(entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect())
}

/// The cgroup of the pod that this process is a container of, if its folder of the first level is one of `nests`.
pub fn own_pod(hierarchy: &Hierarchy, nests: &BTreeSet<CgroupId>) -> Result<Option<CgroupId>, CgroupError> {
    let path = process_path(std::process::id())?;
    let own = Path::new(path.trim_start_matches('/'));
    let is_nest = |folder: &Path| Ok(nests.contains(&hierarchy.id(&hierarchy.root.join(folder))?));
    let Some(first) = own.components().next() else {
        return Ok(None);
    };
    if !is_nest(first.as_ref())? {
        return Ok(None);
    }
    // `/NEST/CONTAINER` is a container without a pod.
    let pod = own
        .parent()
        .filter(|parent| *parent != Path::new(first.as_os_str()));
    hierarchy.id(&hierarchy.root.join(pod.unwrap_or(own))).map(Some)
}

/// The container after which one of the cgroups is named in which a process is: the innermost, because a container may
/// have the name of a folder that holds others. True if that is the process's own cgroup, so that none can be further in.
pub fn names_one_of<'a>(
    pid: u32,
    containers: &(impl Iterator<Item = &'a str> + Clone),
) -> Result<Option<(&'a str, bool)>, CgroupError> {
    let path = process_path(pid)?;
    let named = |directory: &str| {
        containers
            .clone()
            .find(|container| is_named_after(directory, container))
    };
    let mut directories = path.rsplit('/').enumerate();
    Ok(directories.find_map(|(above, directory)| Some((named(directory)?, above == 0))))
}

/// The cgroup v2 path of a process, as `/proc/PID/cgroup` says it.
fn process_path(pid: u32) -> Result<String, CgroupError> {
    let path = PathBuf::from(format!("/proc/{pid}/cgroup"));
    match fs::read_to_string(&path) {
        Ok(text) => unified_path(&text)
            .map(str::to_owned)
            .ok_or(CgroupError::NoPath(pid)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(CgroupError::NoPath(pid)),
        Err(source) => Err(CgroupError::Read { path, source }),
    }
}

fn unified_path(text: &str) -> Option<&str> {
    text.lines()
        .find_map(|line| line.strip_prefix("0::"))
        .filter(|path| !path.ends_with(" (deleted)"))
}

/// The container's own directory on the way to the process. The process may sit deeper (an init system inside
/// the container makes cgroups of its own), and what lies deeper is chosen by the container: the first
/// component that is named after the container is the runtime's. `None` for the root.
fn container_path(path: &str, container: &str, runtime_namespace: &str) -> Option<String> {
    let components: Vec<&str> = Path::new(path)
        .components()
        .map(|component| match component {
            Component::Normal(name) => name.to_str(),
            Component::RootDir => Some(""),
            // `..`: the process is outside of our cgroup namespace, so its path says nothing.
            _ => None,
        })
        .collect::<Option<_>>()?;
    if components.len() < 2 {
        return None;
    }
    // `/NAMESPACE/ID` is containerd's own default: there the first component is not the container, whatever
    // its name.
    let first = if components.len() > 2 && components[1] == runtime_namespace {
        2
    } else {
        1
    };
    let own = (first..components.len()).find(|index| is_named_after(components[*index], container));
    Some(components[..=own.unwrap_or(components.len() - 1)].join("/"))
}

/// `ID`, or systemd's `PREFIX-ID.scope`. Anything looser would take `user.slice` for the container `user`.
fn is_named_after(directory: &str, container: &str) -> bool {
    directory == container
        || directory
            .strip_suffix(".scope")
            .and_then(|name| name.strip_suffix(container))
            .is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('-'))
}

/// The mount point of the first whole cgroup2 mount in a `mountinfo` text that no other mount hides: `device` tells which
/// filesystem a path leads to.
fn mount_point(mountinfo: &str, device: impl Fn(&Path) -> Option<u64>) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(2);
        let (own, root, point) = (fields.next()?, fields.next()?, Path::new(fields.next()?));
        let (major, minor) = own.split_once(':')?;
        let own = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
        let is_whole = filesystem.split(' ').next() == Some("cgroup2") && root == "/";
        (is_whole && device(point) == Some(own)).then(|| point.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4a1f00d";

    #[test]
    fn container_directory_is_found_above_its_own_cgroups() {
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(container_path(path, ID, "k8s.io").as_deref(), expected, "{path}");
        };
        check("/k8s.io/4a1f00d", Some("/k8s.io/4a1f00d"));
        check("/k8s.io/4a1f00d/init.scope", Some("/k8s.io/4a1f00d"));
        check(
            "/a.slice/cri-containerd-4a1f00d.scope/x/4a1f00d",
            Some("/a.slice/cri-containerd-4a1f00d.scope"),
        );
        check("/custom/path", Some("/custom/path"));
        check("/", None);
        check("/../other", None);
        check("", None);
    }

    #[test]
    fn folder_of_many_containers_is_not_taken_for_one() {
        let of = |path, id| container_path(path, id, "default").unwrap();
        assert_eq!(
            of("/user.slice/session-1.scope", "user"),
            "/user.slice/session-1.scope"
        );
        assert_eq!(of("/default/default", "default"), "/default/default");
        assert_eq!(of("/default/default/x/default", "default"), "/default/default");
        assert_eq!(of("/system.slice/web/e", "e"), "/system.slice/web/e");
    }

    #[test]
    fn unified_line_is_found_beside_version_one() {
        assert_eq!(
            unified_path("5:memory:/a\n1:name=systemd:/b\n0::/c\n"),
            Some("/c")
        );
        assert_eq!(unified_path("5:memory:/a\n"), None);
        assert_eq!(unified_path("0::/gone (deleted)\n"), None);
    }

    #[test]
    fn mount_point_is_taken_from_mountinfo() {
        let text = "24 1 0:22 / /proc rw - proc proc rw\n\
                    30 24 0:26 /sub /mnt rw - cgroup2 none rw\n\
                    31 24 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        let cgroup2 = Some(rustix::fs::makedev(0, 26));
        let expected = Some(PathBuf::from("/sys/fs/cgroup/unified"));
        assert_eq!(mount_point(text, |_| cgroup2), expected);
        assert_eq!(
            mount_point("24 1 0:22 / /proc rw - proc proc rw\n", |_| cgroup2),
            None
        );
    }

    #[test]
    fn a_hidden_mount_is_not_taken() {
        let text = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 none rw\n\
                    31 24 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                    32 31 0:26 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n";
        let device = |point: &Path| {
            Some(rustix::fs::makedev(
                0,
                if point.ends_with("unified") { 26 } else { 22 },
            ))
        };
        let found = mount_point(text, device);
        assert_eq!(found, Some(PathBuf::from("/sys/fs/cgroup/unified")));
    }

    #[test]
    fn walk_finds_every_directory() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::create_dir(folder.path().join("c")).unwrap();
        fs::write(folder.path().join("cgroup.procs"), "").unwrap();
        let hierarchy = Hierarchy {
            root: folder.path().to_owned(),
        };
        let ids = hierarchy.existing().unwrap();
        assert_eq!(ids.len(), 4);
        assert!(ids.contains(&hierarchy.id(&folder.path().join("a/b")).unwrap()));
    }

    #[test]
    fn only_cgroups_with_processes_are_populated() {
        let folder = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy::at(folder.path());
        for (path, processes) in [
            ("pods/a", "7\n"),
            ("pods/b", ""),
            ("pods/b/c", "8\n9\n"),
            ("other", "1\n"),
        ] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
            fs::write(folder.path().join(path).join("cgroup.procs"), processes).unwrap();
        }
        let id = |path: &str| hierarchy.id(&folder.path().join(path)).unwrap();
        let found: BTreeSet<CgroupId> = hierarchy.populated(id("pods")).unwrap().into_iter().collect();
        assert_eq!(found, BTreeSet::from([id("pods/a"), id("pods/b/c")]));
    }

    #[test]
    fn missing_hierarchy_is_an_error_and_not_an_empty_set() {
        let hierarchy = Hierarchy {
            root: PathBuf::from("/nonexistent/cgroup"),
        };
        assert!(hierarchy.existing().is_err());
    }
}
