//! Who runs here: the containers of this machine and their cgroups.

mod address;
pub mod cgroup;
mod containerd;
mod docker;
mod nest;
mod oci;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use address::addresses_of;
pub use containerd::{Listing, Record, Recorded, Records, Requests, watch};

use crate::enforcer::CgroupId;

/// A container whose task exists. All text is cleaned ([`crate::text::clean`]); it is still what somebody else
/// chose, so it is compared and printed but never becomes a path or a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Container {
    pub id: String,
    /// containerd's namespace: `k8s.io`, `default`, `moby`.
    pub runtime_namespace: String,
    /// Name within the pod, or the name given on the command line, or the id.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub pod: Option<Pod>,
    pub image: String,
    pub pid: u32,
    /// The entry point was started; before that only the runtime's own set-up is in the cgroup.
    pub started: bool,
    /// cgroup v2 directory of the container.
    pub cgroup: Option<CgroupId>,
}

/// The pod of a container that the kubelet started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// Names of the containers that annotations take out of every BPF profile.
    pub unconfined: BTreeSet<String>,
    /// By name of a container: the BPF profile that admission has given it, which may not have come to this node yet.
    pub promised: BTreeMap<String, String>,
}

impl Container {
    /// `namespace/pod/container`, or the name, which is the id where nobody gave one: what a log line calls it.
    #[must_use]
    pub fn display_name(&self) -> String {
        self.pod.as_ref().map_or_else(
            || self.name.clone(),
            |pod| format!("{}/{}/{}", pod.namespace, pod.name, self.name),
        )
    }
}
