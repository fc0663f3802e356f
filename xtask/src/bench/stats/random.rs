//! Numbers that look random and are the same for the same seed (`SplitMix64`).

pub(in crate::bench) struct Random(u64);

impl Random {
    pub(in crate::bench) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(in crate::bench) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `count`, which is not zero.
    pub(in crate::bench) fn below(&mut self, count: usize) -> usize {
        let scaled = (u128::from(self.next()) * count as u128) >> 64;
        usize::try_from(scaled).expect("a part of a usize fits into one")
    }

    /// From zero up to, but without, one.
    pub(in crate::bench) fn part(&mut self) -> f64 {
        let bits = u32::try_from(self.next() >> 32).expect("32 bits are left");
        f64::from(bits) / 4_294_967_296.0
    }

    /// Fisher and Yates.
    pub(in crate::bench) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn same_seed_gives_the_published_numbers() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn every_number_below_a_bound_appears() {
        let mut random = Random::new(1);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[random.below(5)] += 1;
        }
        assert!(seen.iter().all(|count| (150..250).contains(count)), "{seen:?}");
    }

    #[test]
    fn shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Random::new(7).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
