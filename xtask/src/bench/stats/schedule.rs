//! The order in which systems are measured.

use super::Random;

/// Blocks of slots; a slot is the number of a system. Each block holds every system in a random order and then in the
/// reverse order. Two systems make ABBA, and every second block begins with the other one.
pub(in crate::bench) fn mirrored(systems: usize, blocks: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..systems).collect();
    random.shuffle(&mut order);
    (0..blocks)
        .map(|_| {
            if systems == 2 {
                order.reverse();
            } else {
                random.shuffle(&mut order);
            }
            order.iter().chain(order.iter().rev()).copied().collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::mirrored;

    #[test]
    fn every_system_is_as_often_early_as_late() {
        for block in mirrored(5, 20, 3) {
            assert_eq!(block.len(), 10);
            for system in 0..5 {
                // The mean place of each system is the middle of the block: what a linear drift adds is the same for all.
                let places: usize = block
                    .iter()
                    .enumerate()
                    .filter(|(_, other)| **other == system)
                    .map(|(place, _)| place)
                    .sum();
                assert_eq!(places, 9, "{block:?}");
            }
        }
    }

    #[test]
    fn two_systems_alternate_as_abba_and_baab() {
        let blocks = mirrored(2, 4, 9);
        assert_eq!(blocks[0], blocks[2]);
        assert_eq!(blocks[1], blocks[3]);
        assert_ne!(blocks[0], blocks[1]);
        assert!(blocks[0] == [0, 1, 1, 0] || blocks[0] == [1, 0, 0, 1]);
    }

    #[test]
    fn same_seed_gives_the_same_order() {
        assert_eq!(mirrored(6, 8, 1), mirrored(6, 8, 1));
        assert_ne!(mirrored(6, 8, 1), mirrored(6, 8, 2));
    }
}
