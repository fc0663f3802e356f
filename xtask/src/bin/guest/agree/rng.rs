//! Numbers that look random and are the same in every run of a seed (`SplitMix64`).

pub(super) struct Rng(u64);

impl Rng {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        let limit = limit as u64;
        usize::try_from(self.next() % limit).unwrap_or_default()
    }

    pub(super) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }

    /// True in `of` cases of a hundred.
    pub(super) fn chance(&mut self, of: usize) -> bool {
        self.below(100) < of
    }
}
