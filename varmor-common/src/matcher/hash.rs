//! The keyed hash that turns a file name into a symbol of the path automaton.
//!
//! The key is random per boot, so that nobody outside can choose two names with one symbol: an allow-list
//! profile depends on that. The hash is defined on little-endian 64-bit words, because that is how the kernel
//! programs load a name; the last word is padded with zeros.

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
/// Separate glob classes and filesystems from names: with these in place of a length, the first word that a name needs
/// for the same symbol has a NUL byte before its last byte, and no file name has one.
const CLASS: u64 = 1 << 56;
const FILESYSTEM: u64 = 2 << 56;

/// A hash in the making.
#[derive(Clone, Copy, Debug)]
pub struct NameHash(u64);

impl NameHash {
    /// Starts a name of `length` bytes under the boot key.
    ///
    /// The length is mixed in here and not at the end: in the kernel programs, whose ways part by the length, the ways
    /// meet again with nothing that sets them apart, and the verifier walks on but once.
    #[inline(always)]
    #[must_use]
    pub const fn new(key: u64, length: u64) -> Self {
        Self(key ^ length)
    }

    /// Adds the next eight bytes of the name; bytes behind its end must be zero.
    #[inline(always)]
    #[must_use]
    pub const fn word(self, word: u64) -> Self {
        let mixed = (self.0 ^ word).wrapping_mul(MULTIPLIER);
        Self(mixed ^ (mixed >> 29))
    }

    /// Ends the name.
    #[inline(always)]
    #[must_use]
    pub const fn finish(self) -> u64 {
        let mixed = self.0.wrapping_mul(MULTIPLIER);
        mixed ^ (mixed >> 32)
    }
}

/// The symbol of a file name.
#[must_use]
pub fn name_hash(key: u64, name: &[u8]) -> u64 {
    let mut hash = NameHash::new(key, name.len() as u64);
    for chunk in name.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = hash.word(u64::from_le_bytes(word));
    }
    hash.finish()
}

/// The symbol of a glob class (a set of component globs that one name matches).
#[inline(always)]
#[must_use]
pub const fn class_symbol(key: u64, class: u32) -> u64 {
    NameHash::new(key, CLASS).word(class as u64).finish()
}

/// The symbol of a filesystem's root, by the superblock's magic number.
#[inline(always)]
#[must_use]
pub const fn filesystem_symbol(key: u64, magic: u64) -> u64 {
    NameHash::new(key, FILESYSTEM).word(magic).finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{CLASS, FILESYSTEM, class_symbol, filesystem_symbol, name_hash};

    #[test]
    fn names_that_differ_in_length_or_in_one_byte_have_different_symbols() {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for letter in *b"abch\x01\x07\x08\x09\xff" {
            for length in 1..=40 {
                names.push(vec![letter; length]);
                for changed in 0..length {
                    let mut name = vec![letter; length];
                    name[changed] = letter ^ 0x20;
                    names.push(name);
                }
            }
        }
        names.sort();
        names.dedup();
        for key in [0, 1, u64::MAX] {
            let symbols: HashMap<u64, &Vec<u8>> =
                names.iter().map(|name| (name_hash(key, name), name)).collect();
            assert_eq!(symbols.len(), names.len(), "key {key}");
        }
    }

    #[test]
    fn no_file_name_has_the_first_word_that_the_symbol_of_a_class_or_filesystem_needs() {
        let key = 0x1234_5678_9abc_def0;
        for number in [0, 1, 5, 0x0101_0101, 0x9123_683e, u32::MAX] {
            for (mark, symbol) in [
                (CLASS, class_symbol(key, number)),
                (FILESYSTEM, filesystem_symbol(key, u64::from(number))),
            ] {
                let name = (mark ^ u64::from(number) ^ 8).to_le_bytes();
                assert_eq!(name_hash(key, &name), symbol, "the word is the one needed");
                assert!(
                    name[..7].contains(&0) && name[7] != 0,
                    "{name:x?} has a NUL byte inside"
                );
            }
        }
    }
}
