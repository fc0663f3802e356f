//! Points: exact keys that one hash look-up decides, and the verdicts.

/// A device rule: `a` = major or `ANY`, `b` = minor or `ANY`, `c` = `DEVICE_CHARACTER` or `DEVICE_BLOCK`, `lo` = one
/// `DEVICE_*` access.
pub const POINT_DEVICE: u32 = 8;
/// Wildcard of a device number.
pub const ANY: u32 = u32::MAX;

/// Key of a point.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PointKey {
    pub hi: u64,
    pub lo: u64,
    pub kind: u32,
    pub a: u32,
    pub b: u32,
    pub c: u32,
}
const _: () = assert!(size_of::<PointKey>() == 32);

/// Verdict of a point.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// `VERDICT_*` bits.
    pub verdict: u32,
    /// Site in the profile's site table.
    pub site: u32,
}
const _: () = assert!(size_of::<Point>() == 8);

pub const VERDICT_DENY: u32 = 1;
pub const VERDICT_AUDIT: u32 = 2;
pub const VERDICT_ALLOW: u32 = 4;
/// Of a mount class: its rules name every source. A class without this bit allows nothing if the source of the call is
/// not known (`mount::EVERY_CLASS`).
pub const VERDICT_ANYWHERE: u32 = 8;

pub const DEVICE_CHARACTER: u32 = 1;
pub const DEVICE_BLOCK: u32 = 2;

/// Opening a device for reading.
pub const DEVICE_READ: u32 = 1;
/// Opening a device for writing.
pub const DEVICE_WRITE: u32 = 1 << 1;
/// Making a node of a device.
pub const DEVICE_MAKE: u32 = 1 << 2;
/// Mounting the filesystem on a block device.
pub const DEVICE_MOUNT: u32 = 1 << 3;
pub const DEVICE_ALL: u32 = DEVICE_READ | DEVICE_WRITE | DEVICE_MAKE | DEVICE_MOUNT;
