//! What two series of measurements say about each other, and how sure that is.
//!
//! The unit of replication is a block: every system measured in a random order and then in the reverse order, so that
//! a linear drift of the machine cancels. Of each block only one number is used, the logarithm of system by baseline.

mod estimate;
mod random;
mod schedule;
pub(super) mod selftest;
mod significance;

pub(super) use estimate::{Backend, Estimate, Verdict, detectable, estimate, judge, log_ratio};
pub(super) use random::Random;
pub(super) use schedule::mirrored;
pub(super) use significance::withdraw_chance;

/// A logarithm of two measurements' ratio as percent more than the first.
pub(super) fn percent(log_ratio: f64) -> f64 {
    100.0 * log_ratio.exp_m1()
}

/// The middle of a series; of an even number of values, the mean of the two in the middle.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some(f64::midpoint(sorted[low], sorted[high]))
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn middle_of_an_even_series_is_between_two_values() {
        assert_eq!(median(&[4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
