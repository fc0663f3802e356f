//! Points: exact keys that one hash look-up decides, and the verdicts.

/// Wildcard of a field.
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
