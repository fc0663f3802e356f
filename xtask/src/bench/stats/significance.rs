//! Whether a difference can be chance, where the clock is that of a machine: of one cell, and of all cells of a table together.

use super::{Backend, Estimate, Random, Verdict};

/// What may be chance in one table of 20 is no difference.
const LEVEL: f64 = 0.05;
/// With more blocks, signs are drawn instead of trying all of them.
const EXACT: usize = 14;
const DRAWS: u64 = 20_000;
/// Sums that differ by less are equal.
const EQUAL: f64 = 1e-12;

/// How often overheads that were as often above zero as below it would add up to as much as these: the sign-flip permutation
/// test, two-sided. Of `n` blocks it is never less than 2 / 2^n.
pub(in crate::bench) fn sign_flip(ratios: &[f64], seed: u64) -> f64 {
    let reached = ratios.iter().sum::<f64>().abs() - EQUAL;
    let sum = |signs: u64| -> f64 {
        let signed = ratios.iter().enumerate();
        signed
            .map(|(at, ratio)| {
                if signs >> (at % 64) & 1 == 1 {
                    -ratio
                } else {
                    *ratio
                }
            })
            .sum()
    };
    let is_as_far = |signs: &u64| sum(*signs).abs() >= reached;
    let (hits, tries) = if ratios.len() <= EXACT {
        let all = 1_u64 << ratios.len();
        ((0..all).filter(is_as_far).count(), all)
    } else {
        let mut random = Random::new(seed);
        let drawn = (0..DRAWS).map(|_| random.next());
        // What was seen is one of the possibilities.
        (drawn.filter(is_as_far).count() + 1, DRAWS + 1)
    };
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    let part = hits as f64 / tries as f64;
    part
}

/// Holm's correction: the same, for each of so many questions that were asked at once. In the order of the questions.
fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut adjusted = vec![1.0; chances.len()];
    let mut least = 0.0_f64;
    let mut left = u32::try_from(chances.len()).unwrap_or(u32::MAX);
    for at in order {
        least = least.max(chances[at] * f64::from(left)).min(1.0);
        adjusted[at] = least;
        left = left.saturating_sub(1);
    }
    adjusted
}

/// Takes back the verdicts of a table that can be chance. A guest that counts instructions has none.
pub(in crate::bench) fn withdraw_chance(
    backend: Backend,
    cells: &mut [(Option<Estimate>, &mut Option<Verdict>)],
) {
    if backend == Backend::TcgIcount {
        return;
    }
    let asked: Vec<f64> = cells
        .iter()
        .filter_map(|(estimate, _)| Some(estimate.as_ref()?.chance))
        .collect();
    let mut adjusted = holm(&asked).into_iter();
    for (estimate, verdict) in cells {
        let chance = estimate.as_ref().and_then(|_| adjusted.next());
        let is_chance = chance.is_some_and(|chance| chance > LEVEL);
        if is_chance && matches!(verdict, Some(Verdict::Slower | Verdict::Faster)) {
            **verdict = Some(Verdict::Inconclusive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::stats::estimate;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn all_signs_are_tried() {
        assert!(close(sign_flip(&[0.1, 0.2, 0.3], 1), 2.0 / 8.0));
        // Four of the eight sums are as far from zero as 0.4: those of +++, ---, and the two with the smallest turned.
        assert!(close(sign_flip(&[-0.1, 0.2, 0.3], 1), 4.0 / 8.0));
        assert!(close(sign_flip(&[0.1, -0.1], 1), 1.0));
        assert!(close(sign_flip(&[], 1), 1.0));
        let many = sign_flip(&[0.1; 40], 1);
        assert!(many < 0.001 && many > 0.0, "{many}");
    }

    #[test]
    fn holm_is_as_published() {
        // Four questions: 0.005 · 4, 0.01 · 3, then never less than the one before.
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (known, expected) in adjusted.into_iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!(close(known, expected), "{known} {expected}");
        }
    }

    #[test]
    fn three_blocks_of_a_clock_decide_nothing_and_twelve_do() {
        assert_eq!(Backend::ClusterWall.blocks_for_a_verdict(), 12);
        for (blocks, expected) in [(3, Verdict::Inconclusive), (12, Verdict::Slower)] {
            for (backend, expected) in [
                (Backend::ClusterWall, expected),
                (Backend::TcgIcount, Verdict::Slower),
            ] {
                let found = estimate(&vec![0.02; blocks], 1);
                let mut verdicts = [Some(Verdict::Slower); 70];
                let mut cells: Vec<_> = verdicts.iter_mut().map(|verdict| (found, verdict)).collect();
                withdraw_chance(backend, &mut cells);
                assert!(
                    verdicts.iter().all(|verdict| *verdict == Some(expected)),
                    "{blocks} {backend:?}"
                );
            }
        }
    }

    #[test]
    fn what_differs_stays_beside_what_does_not() {
        let noise: Vec<f64> = (0..12)
            .map(|block| if block % 2 == 0 { 0.03 } else { -0.031 })
            .collect();
        let series = [vec![0.02; 12], noise];
        let mut verdicts = [Some(Verdict::Faster); 2];
        let found = series.map(|series| estimate(&series, 1));
        let mut cells: Vec<_> = found.into_iter().zip(&mut verdicts).collect();
        withdraw_chance(Backend::NativeWall, &mut cells);
        assert_eq!(verdicts, [Some(Verdict::Faster), Some(Verdict::Inconclusive)]);
    }
}
