//! The cgroups below which containers appear: where a start waits until its container is known.

use std::collections::BTreeSet;
use std::path::Path;

use super::cgroup::Hierarchy;
use crate::enforcer::CgroupId;

/// Where the kubelet keeps all pods, by cgroup driver.
const KUBELET: [&str; 2] = ["kubepods", "kubepods.slice"];
/// Folders of the first level in which the machine's own services and users live.
const HOST: [&str; 3] = ["system.slice", "user.slice", "init.scope"];

/// The folders of the first level that hold containers: the kubelet's, those named after a namespace of containerd
/// (its own default), and those in which a container was found.
pub(super) fn nests<'a>(
    hierarchy: &Hierarchy,
    namespaces: impl Iterator<Item = &'a str>,
    containers: impl Iterator<Item = &'a Path>,
) -> BTreeSet<CgroupId> {
    let above = containers.filter_map(|directory| {
        let mut components = directory.strip_prefix(hierarchy.root()).ok()?.components();
        let first = components.next()?.as_os_str().to_str()?;
        // A container of the first level has no folder above it but the root.
        components.next().map(|_| first)
    });
    let names: BTreeSet<&str> = KUBELET
        .into_iter()
        .chain(namespaces.filter(|name| !name.contains('/') && !name.starts_with('.')))
        .chain(above)
        .filter(|name| !name.is_empty() && !HOST.contains(name))
        .collect();
    names
        .into_iter()
        .filter_map(|name| hierarchy.id(&hierarchy.root().join(name)).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn folders_of_containers_are_nests_and_those_of_the_machine_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy::at(folder.path());
        for name in [
            "kubepods",
            "default",
            "docker/4a1f",
            "system.slice/docker-4a1f.scope",
            "alone",
            "other",
        ] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let containers: Vec<PathBuf> = ["docker/4a1f", "system.slice/docker-4a1f.scope", "alone"]
            .iter()
            .map(|name| folder.path().join(name))
            .collect();
        let found = nests(
            &hierarchy,
            ["default", "gone", "..", "../other"].into_iter(),
            containers.iter().map(PathBuf::as_path),
        );
        let expected: BTreeSet<CgroupId> = ["kubepods", "default", "docker"]
            .iter()
            .map(|name| hierarchy.id(&folder.path().join(name)).unwrap())
            .collect();
        assert_eq!(found, expected);
    }
}
