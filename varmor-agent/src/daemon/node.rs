//! Facts about this machine: its name, what is added to every violation, its disks.

use std::fs;

use serde_json::{Map, Value};
use varmor_common::profile::{Disk, NodeFacts};

use crate::events::Node;
use crate::text::{MAX_NAME, clean};

/// Name and metadata for violations.
#[must_use]
pub(super) fn identity(name: Option<&str>, metadata: Map<String, Value>) -> Node {
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    Node {
        name: clean(&name.map_or_else(host, str::to_owned), MAX_NAME),
        metadata,
    }
}

/// What profiles depend on.
#[must_use]
pub(super) fn facts() -> NodeFacts {
    let text = fs::read_to_string("/proc/partitions").unwrap_or_default();
    NodeFacts {
        disk_devices: disks(&text),
    }
}

/// The lines of `/proc/partitions`: major, minor, blocks, name.
fn disks(partitions: &str) -> Vec<Disk> {
    let disk = |line: &str| {
        let mut columns = line.split_whitespace();
        Some(Disk {
            major: columns.next()?.parse().ok()?,
            minor: columns.next()?.parse().ok()?,
            name: columns.nth(1)?.to_owned(),
        })
    };
    partitions.lines().filter_map(disk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_read_from_the_partition_table() {
        let text =
            "major minor  #blocks  name\n\n 254        0   10485760 vda\n 254        1   10484736 vda1\n";
        let disk = |name: &str, minor| Disk {
            name: name.to_owned(),
            major: 254,
            minor,
        };
        assert_eq!(disks(text), [disk("vda", 0), disk("vda1", 1)]);
        assert!(disks("").is_empty());
    }

    #[test]
    fn given_name_is_cleaned() {
        assert_eq!(identity(Some("a\nb"), Map::new()).name, "a\\u{a}b");
        assert!(!identity(None, Map::new()).name.is_empty());
    }
}
