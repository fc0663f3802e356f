//! The compiled path automaton: states, transitions and the byte automaton of name globs.

/// Execute, or map executable.
pub const PERM_EXEC: u32 = 1;
/// Write, and everything that changes the object or its name.
pub const PERM_WRITE: u32 = 1 << 1;
/// Read.
pub const PERM_READ: u32 = 1 << 2;
/// Open for appending only.
pub const PERM_APPEND: u32 = 1 << 3;
/// Rename, replace or mount over a folder that a protected path passes through.
pub const PERM_STRUCT: u32 = 1 << 4;
/// All permission bits that a rule of a user may name.
pub const PERM_ALL: u32 = PERM_EXEC | PERM_WRITE | PERM_READ | PERM_APPEND;

/// Shift of the denied permissions in the masks of a file state.
pub const MASK_DENY: u32 = 0;
/// Shift of the audited permissions in the masks of a file state.
pub const MASK_AUDIT: u32 = 8;
/// Shift of the allowed permissions (allow-list profiles) in the masks of a file state.
pub const MASK_ALLOW: u32 = 16;

/// The state says something on entry: `now` is not zero.
pub const STATE_EMITS: u32 = 1;
/// The state has name-glob children: a component without a literal transition goes through the glob automaton.
pub const STATE_GLOBS: u32 = 1 << 1;
/// As `STATE_GLOBS`, but all that the globs lead to waits for a name that the rules spell out: a component goes through
/// the glob automaton only once its folder's name turns out to be one, or where the walk looks at a filesystem's root.
pub const STATE_LATE_GLOBS: u32 = 1 << 6;
/// No further component or root can say anything: the walk may stop matching.
pub const STATE_SINK: u32 = 1 << 2;
/// A symbol without a transition here takes the transition of `default`, if that state has one.
pub const STATE_INHERITS: u32 = 1 << 3;

/// `root` is not zero.
pub const STATE_ENDS: u32 = 1 << 4;
/// The default leads to another state.
pub const STATE_MOVES: u32 = 1 << 5;

/// Deepest path, counted in components and mount crossings, that is judged; a deeper one is a fault (denied).
pub const MAX_DEPTH: u32 = 64;
/// Longest file name, in bytes (`NAME_MAX`).
pub const MAX_NAME: u32 = 255;
/// Most states of one profile.
pub const MAX_STATES: u32 = 1 << 24;
/// Most states of one byte automaton: a row holds `u16` successors.
pub const MAX_GLOB_STATES: u32 = 1 << 16;

/// One state of the path automaton, which reads components from the leaf to the root.
///
/// `now` counts when the state is entered, `root` when the walk ends in the state at the root of the mount
/// tree. In the file automaton both hold permission masks (`deny << MASK_DENY | audit << MASK_AUDIT |
/// allow << MASK_ALLOW`), in the mount automaton a bit set of mount classes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Next state for a component that has no transition of its own.
    pub default: u32,
    /// `STATE_*` bits.
    pub flags: u32,
    pub now: u64,
    pub root: u64,
    /// Site (index into the profile's site table) behind `now`; 0 = none.
    pub now_site: u32,
    /// Site behind `root`; 0 = none.
    pub root_site: u32,
}
const _: () = assert!(size_of::<State>() == 32);

/// Key of a transition. `symbol` is the hash of a name, or `matcher::class_symbol`, or
/// `matcher::filesystem_symbol`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transition {
    pub symbol: u64,
    pub state: u32,
    pub _pad: u32,
}
const _: () = assert!(size_of::<Transition>() == 16);

/// One state of a byte automaton: the successor for each byte, and what the automaton says when the name ends
/// here (for component globs: the class, 0 = none; for mount sources: a bit set of mount classes).
/// State 0 is dead, state 1 the start.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobRow {
    pub accept: u64,
    pub next: [u16; 256],
}
const _: () = assert!(size_of::<GlobRow>() == 520);

/// Start state of every byte automaton.
pub const GLOB_START: u32 = 1;
/// Dead state of every byte automaton.
pub const GLOB_DEAD: u32 = 0;
