//! Where a cluster keeps its files, which ports it uses, and whether one runs.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::workspace;

/// How the guests see the loopback of this machine.
pub(super) const HOST_IN_GUEST: &str = "10.0.2.2";

pub(super) fn folder() -> PathBuf {
    workspace::target().join("cluster")
}

/// Keys, tokens and the kubeconfigs that hold them.
pub(super) fn secrets() -> PathBuf {
    folder().join("secrets")
}

/// The kubeconfig of a user of this cluster.
pub(super) fn kubeconfig(user: &str) -> PathBuf {
    secrets().join(format!("{user}.kubeconfig"))
}

/// A folder that is empty at the start of each cluster.
pub(super) fn data(name: &str) -> PathBuf {
    folder().join("data").join(name)
}

/// A socket's name must be short (108 bytes), and a clone's folder may be deep.
pub(super) fn socket() -> PathBuf {
    std::env::temp_dir().join(format!("varmor-cluster-{}.sock", std::process::id()))
}

/// The file that asks whoever holds the cluster to turn a node off and on.
pub(super) fn reboot_request(node: &str) -> PathBuf {
    folder().join(format!("reboot-{node}"))
}

/// The ports of a cluster on the loopback of this machine.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Ports {
    pub(super) etcd: u16,
    pub(super) etcd_peer: u16,
    pub(super) api: u16,
    pub(super) controller_manager: u16,
    pub(super) scheduler: u16,
    /// Leads to the door of the first node.
    pub(super) door: u16,
    /// The ends of the cable between the first and the second node (UDP).
    pub(super) cable: [u16; 2],
}

impl Ports {
    /// Ports that nobody uses now. All are taken before the first is given back, so they differ.
    pub(super) fn free() -> Result<Self> {
        let listeners = (0..8)
            .map(|_| TcpListener::bind(("127.0.0.1", 0)))
            .collect::<std::io::Result<Vec<_>>>()
            .context("find free ports")?;
        let ports = listeners
            .iter()
            .map(|listener| listener.local_addr().map(|address| address.port()))
            .collect::<std::io::Result<Vec<_>>>()
            .context("find free ports")?;
        Ok(Self {
            etcd: ports[0],
            etcd_peer: ports[1],
            api: ports[2],
            controller_manager: ports[3],
            scheduler: ports[4],
            door: ports[5],
            cable: [ports[6], ports[7]],
        })
    }
}

/// A cluster that runs, as its holder writes it down.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    /// The process that holds the cluster: everything ends with it.
    pub(super) holder: Process,
    pub(super) ports: Ports,
    pub(super) nodes: Vec<String>,
}

/// A process: its number, and when it started, because numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    started: u64,
}

impl Process {
    pub(super) fn own() -> Result<Self> {
        Self::of(std::process::id()).context("read when this process started")
    }

    /// The process that has this number now.
    pub(super) fn of(pid: u32) -> Option<Self> {
        start_time(pid).map(|started| Self { pid, started })
    }

    pub(super) fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// In clock ticks since boot: the 22nd field, the 20th behind the name, which may contain blanks.
fn start_time(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    // A process that only waits to be collected is dead.
    (fields.next()? != "Z").then_some(())?;
    fields.nth(18)?.parse().ok()
}

fn state_file() -> PathBuf {
    folder().join("state.json")
}

impl State {
    pub(super) fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("print the state of the cluster")?;
        workspace::write_file(&state_file(), text + "\n")
    }
}

/// The cluster that runs now.
pub(super) fn running() -> Option<State> {
    let text = fs::read_to_string(state_file()).ok()?;
    let state: State = serde_json::from_str(&text).ok()?;
    state.holder.is_alive().then_some(state)
}

/// Removes what a cluster wrote; reports of tests stay.
pub(super) fn clear() -> Result<()> {
    for place in [state_file(), folder().join("data"), secrets()] {
        remove(&place)?;
    }
    let sockets = fs::read_dir(std::env::temp_dir()).context("read the folder of temporary files")?;
    for entry in sockets.flatten() {
        let name = entry.file_name();
        if socket_owner(&name.to_string_lossy()).is_some_and(|pid| start_time(pid).is_none()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// The number of the process that a socket belongs to.
fn socket_owner(name: &str) -> Option<u32> {
    let number = name.strip_prefix("varmor-cluster-")?.strip_suffix(".sock")?;
    number.parse().ok()
}

fn remove(place: &Path) -> Result<()> {
    let removed = if place.is_dir() {
        fs::remove_dir_all(place)
    } else {
        fs::remove_file(place)
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", place.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ports, Process, socket_owner};

    #[test]
    fn this_process_lives_and_another_of_its_number_does_not() {
        let own = Process::own().expect("proc is mounted");
        assert!(own.is_alive());
        let other = Process {
            started: own.started + 1,
            ..own
        };
        assert!(!other.is_alive());
    }

    #[test]
    fn only_sockets_of_clusters_have_an_owner() {
        assert_eq!(socket_owner("varmor-cluster-12.sock"), Some(12));
        assert_eq!(socket_owner("varmor-cluster-x.sock"), None);
        assert_eq!(socket_owner("other-12.sock"), None);
    }

    #[test]
    fn ports_differ() {
        let Ports {
            etcd,
            etcd_peer,
            api,
            controller_manager,
            scheduler,
            door,
            cable,
        } = Ports::free().expect("there are ports");
        let mut all = vec![etcd, etcd_peer, api, controller_manager, scheduler, door];
        all.extend(cable);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8);
    }
}
