//! What BPF costs this machine: objects in the kernel and their memory.

use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _};

use aya::maps::{MapData, loaded_maps};
use aya::programs::{loaded_links, loaded_programs};
use serde::Serialize;

use super::attachment::numbers;

/// All BPF objects of the machine, whoever owns them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    pub programs: usize,
    pub links: usize,
    pub maps: usize,
    /// Memory of the maps as the kernel accounts it (`memlock`).
    pub map_bytes: u64,
}

/// Counts now; objects that vanish meanwhile are left out.
#[must_use]
pub fn measure() -> Usage {
    let mut usage = Usage {
        programs: loaded_programs().filter_map(Result::ok).count(),
        links: loaded_links().filter_map(Result::ok).count(),
        ..Usage::default()
    };
    for map in loaded_maps().filter_map(Result::ok) {
        let Ok(data) = MapData::from_id(map.id()) else {
            continue;
        };
        usage.maps += 1;
        usage.map_bytes += memory(&data).unwrap_or(0);
    }
    usage
}

fn memory(map: &MapData) -> Option<u64> {
    let fd = map.fd().as_fd().as_raw_fd();
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    numbers(&text).get("memlock").copied()
}
