//! What a profile needs to know about the node that it is for.

/// Facts about a node that rules depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Names of the disks and their partitions, as in `/proc/partitions`: `vda`, `vda1`.
    pub disk_devices: Vec<String>,
}
