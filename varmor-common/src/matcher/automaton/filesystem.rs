//! Filesystems that rules name by their usual place and that hold wherever they are mounted.

use crate::abi::AAFS_MAGIC;

/// A filesystem and the place where rules expect it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// `s_magic` of the superblock (`include/uapi/linux/magic.h`).
    pub magic: u64,
    /// Names from the root to the mount point. `None` = any one name; it stands only for patterns that spell out
    /// the names before it, because else every pattern of one name anywhere would mean this mount point.
    pub path: &'static [Option<&'static str>],
}

impl Place {
    /// How many names at its beginning a pattern must spell out to mean it.
    #[must_use]
    pub fn spelled(&self) -> usize {
        let fixed = self.path.iter().take_while(|name| name.is_some()).count();
        if fixed == self.path.len() { 0 } else { fixed }
    }
}

const PROC: u64 = 0x9fa0;
const SYSFS: u64 = 0x6265_6572;
const CGROUP2: u64 = 0x6367_7270;
const CGROUP: u64 = 0x0027_e0eb;
const SECURITYFS: u64 = 0x7363_6673;
const DEBUGFS: u64 = 0x6462_6720;
const TRACEFS: u64 = 0x7472_6163;
const BPF_FS: u64 = 0xcafe_4a11;

/// Every place. An object of such a filesystem has, besides its path, the path that it would have there; a rule
/// holds for it if it matches either.
pub const PLACES: &[Place] = &[
    Place {
        magic: PROC,
        path: &[Some("proc")],
    },
    Place {
        magic: SYSFS,
        path: &[Some("sys")],
    },
    Place {
        magic: CGROUP2,
        path: &[Some("sys"), Some("fs"), Some("cgroup")],
    },
    Place {
        magic: CGROUP2,
        path: &[Some("sys"), Some("fs"), Some("cgroup"), Some("unified")],
    },
    Place {
        magic: CGROUP,
        path: &[Some("sys"), Some("fs"), Some("cgroup")],
    },
    // Each hierarchy of version 1 has its own folder, named after its controllers.
    Place {
        magic: CGROUP,
        path: &[Some("sys"), Some("fs"), Some("cgroup"), None],
    },
    Place {
        magic: SECURITYFS,
        path: &[Some("sys"), Some("kernel"), Some("security")],
    },
    Place {
        magic: DEBUGFS,
        path: &[Some("sys"), Some("kernel"), Some("debug")],
    },
    Place {
        magic: TRACEFS,
        path: &[Some("sys"), Some("kernel"), Some("tracing")],
    },
    Place {
        magic: TRACEFS,
        path: &[Some("sys"), Some("kernel"), Some("debug"), Some("tracing")],
    },
    Place {
        magic: BPF_FS,
        path: &[Some("sys"), Some("fs"), Some("bpf")],
    },
    Place {
        magic: AAFS_MAGIC,
        path: &[
            Some("sys"),
            Some("kernel"),
            Some("security"),
            Some("apparmor"),
            Some("policy"),
        ],
    },
];

/// The filesystems of [`PLACES`], each once.
pub(super) const MAGICS: &[u64] = &[
    PROC, SYSFS, CGROUP2, CGROUP, SECURITYFS, DEBUGFS, TRACEFS, BPF_FS, AAFS_MAGIC,
];
