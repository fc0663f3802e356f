//! A set of bytes.

/// A set of bytes as a bit map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    pub const EMPTY: Self = Self([0; 4]);
    /// Every byte.
    pub const ALL: Self = Self([u64::MAX; 4]);
    /// Every byte that a file name may hold: all but `/` and zero.
    pub const NAME: Self = Self([u64::MAX ^ 1 ^ (1 << b'/'), u64::MAX, u64::MAX, u64::MAX]);

    #[must_use]
    pub fn of(byte: u8) -> Self {
        let mut set = Self::EMPTY;
        set.insert_range(byte, byte);
        set
    }

    /// Adds `low..=high`.
    pub fn insert_range(&mut self, low: u8, high: u8) {
        for byte in low..=high {
            self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
    }

    #[must_use]
    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
    }

    /// The bytes of names that are not in the set.
    #[must_use]
    pub fn complement_in_names(&self) -> Self {
        let mut words = Self::NAME.0;
        for (word, taken) in words.iter_mut().zip(self.0) {
            *word &= !taken;
        }
        Self(words)
    }

    /// The only member, if there is exactly one.
    #[must_use]
    pub fn single(&self) -> Option<u8> {
        let mut members = self.iter();
        match (members.next(), members.next()) {
            (Some(byte), None) => Some(byte),
            _ => None,
        }
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<> {
        let mut words = self.0;
        std::iter::from_fn(move || {
            let (word, first) = words
                .iter_mut()
                .zip([0, 64, 128, 192])
                .find(|(word, _)| **word != 0)?;
            let bit = word.trailing_zeros();
            *word &= *word - 1;
            u8::try_from(bit).ok().map(|bit| first + bit)
        })
    }
}
