//! The keyed hash that turns a file name into a symbol of the path automaton.
//!
//! The key is random per boot, so that nobody outside can choose two names with one symbol: an allow-list
//! profile depends on that. The hash is defined on little-endian 64-bit words, because that is how the kernel
//! programs load a name; the last word is padded with zeros.

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
/// Separates glob classes from names: a class symbol is a hash of a length that no name has.
const CLASS_LENGTH: u64 = 0x1_0000_0000;
/// Separates filesystem symbols from names and classes.
const FILESYSTEM_LENGTH: u64 = 0x2_0000_0000;

/// A hash in the making.
#[derive(Clone, Copy, Debug)]
pub struct NameHash(u64);

impl NameHash {
    /// Starts a name under the boot key.
    #[inline(always)]
    #[must_use]
    pub const fn new(key: u64) -> Self {
        Self(key)
    }

    /// Continues with a state saved by [`NameHash::raw`].
    #[inline(always)]
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The state, to be continued later.
    #[inline(always)]
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Adds the next eight bytes of the name; bytes behind its end must be zero.
    #[inline(always)]
    #[must_use]
    pub const fn word(self, word: u64) -> Self {
        let mixed = (self.0 ^ word).wrapping_mul(MULTIPLIER);
        Self(mixed ^ (mixed >> 29))
    }

    /// Ends the name; `length` in bytes keeps `a` and `a\0` apart.
    #[inline(always)]
    #[must_use]
    pub const fn finish(self, length: u64) -> u64 {
        let mixed = (self.0 ^ length).wrapping_mul(MULTIPLIER);
        mixed ^ (mixed >> 32)
    }
}

/// The symbol of a file name.
#[must_use]
pub fn name_hash(key: u64, name: &[u8]) -> u64 {
    let mut hash = NameHash::new(key);
    for chunk in name.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = hash.word(u64::from_le_bytes(word));
    }
    hash.finish(name.len() as u64)
}

/// The symbol of a glob class (a set of component globs that one name matches).
#[inline(always)]
#[must_use]
pub const fn class_symbol(key: u64, class: u32) -> u64 {
    NameHash::new(key).word(class as u64).finish(CLASS_LENGTH)
}

/// The symbol of a filesystem's root, by the superblock's magic number.
#[inline(always)]
#[must_use]
pub const fn filesystem_symbol(key: u64, magic: u64) -> u64 {
    NameHash::new(key).word(magic).finish(FILESYSTEM_LENGTH)
}
