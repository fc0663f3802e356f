//! What a profile needs to know about the node that it is for.

/// Facts about a node that rules depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub disk_devices: Vec<Disk>,
}

/// A disk or a partition, as in `/proc/partitions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// `vda1`.
    pub name: String,
    pub major: u32,
    pub minor: u32,
}
