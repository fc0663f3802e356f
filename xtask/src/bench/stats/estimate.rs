//! An overhead with its interval, and what may be said about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Random, median, middle, significance::sign_flip};

/// Resamples of the bootstrap.
const RESAMPLES: usize = 10_000;
/// Of the bootstrap's medians, this part lies below the interval, and as much above it.
const TAIL: f64 = 0.025;
/// A normal distribution's deviation is so many times its median absolute deviation.
const MAD_TO_SIGMA: f64 = 1.4826;
/// The standard error of a median is so many times that of a mean.
const COST_OF_MEDIAN: f64 = 1.253;
/// Fewer blocks say nothing about how much blocks differ.
const LEAST_BLOCKS: usize = 3;
/// An error of the first kind in 20 cases, of the second kind in 5.
const POWER: f64 = 2.8;

/// What counted. Numbers of different backends never meet in one ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::bench) enum Backend {
    /// Instructions of a guest whose clock counts them.
    TcgIcount,
    /// Time on this machine.
    NativeWall,
    /// Time on a node of the lab's cluster.
    ClusterWall,
}

impl Backend {
    pub(in crate::bench) fn name(self) -> &'static str {
        match self {
            Self::TcgIcount => "tcg-icount",
            Self::NativeWall => "native-wall",
            Self::ClusterWall => "cluster-wall",
        }
    }

    /// What is measured of a unit of work.
    pub(in crate::bench) fn unit(self) -> &'static str {
        match self {
            Self::TcgIcount => "guest instructions per unit of work",
            Self::NativeWall => "nanoseconds per unit of work",
            Self::ClusterWall => "nanoseconds of the node per operation",
        }
    }

    /// A thousand million of what is measured.
    pub(in crate::bench) fn second(self) -> &'static str {
        match self {
            Self::TcgIcount => "10⁹ guest instructions",
            Self::NativeWall | Self::ClusterWall => "seconds",
        }
    }

    /// Of units of work: so many for a thousand million of what is measured.
    pub(in crate::bench) fn rate(self) -> &'static str {
        match self {
            Self::TcgIcount => "for 10⁹ guest instructions (of 1 ns: per second of the guest's clock)",
            Self::NativeWall | Self::ClusterWall => "per second",
        }
    }

    /// What a run is repeated by.
    pub(in crate::bench) fn blocks(self) -> &'static str {
        match self {
            Self::TcgIcount => "boots",
            Self::NativeWall | Self::ClusterWall => "blocks",
        }
    }

    /// Of a table with some fifty cells: fewer blocks of a clock can be chance, whatever they say.
    pub(in crate::bench) fn blocks_for_a_verdict(self) -> u32 {
        match self {
            Self::TcgIcount => 5,
            Self::NativeWall | Self::ClusterWall => 12,
        }
    }

    /// What the numbers hold and what they do not, for the head of a table.
    pub(in crate::bench) fn meaning(self) -> &'static str {
        match self {
            Self::TcgIcount => {
                "What is counted: a fixed amount of work, all that the guest's one processor does for it, in server, client and kernel, \
                 without its idle time. Instructions are not time: no cache, no second processor."
            }
            Self::NativeWall => {
                "What is taken: the time of this machine for a fixed amount of work, with all its processors and with whatever else ran \
                 on it. In each block every system is measured in a random order and then in the reverse order; the number of a block \
                 is the geometric mean of the two."
            }
            Self::ClusterWall => {
                "What is taken: the time of a node, in a pod for each system that `kubectl exec` goes to, every pod in a random order and then \
                 in the reverse order. The smallest overhead that can be seen is that of a second pod without a policy. Without KVM the \
                 node's processor is emulated: the numbers say which system does more, not how long a processor takes for it."
            }
        }
    }

    /// Overheads below this part do not matter.
    pub(in crate::bench) fn margin(self) -> f64 {
        match self {
            Self::TcgIcount => 0.002,
            Self::NativeWall | Self::ClusterWall => 0.01,
        }
    }
}

/// What may be said about an overhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::bench) enum Verdict {
    /// The interval is above zero, and the estimate beyond both the margin and what could be seen at all.
    Slower,
    /// The same below zero.
    Faster,
    /// The interval is inside the margin (two one-sided tests).
    Equivalent,
    /// Nothing of these.
    Inconclusive,
}

impl Verdict {
    pub(in crate::bench) fn word(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// An overhead as a logarithm, positive where the system costs more, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::bench) struct Estimate {
    pub(in crate::bench) blocks: usize,
    pub(in crate::bench) overhead: f64,
    pub(in crate::bench) low: f64,
    pub(in crate::bench) high: f64,
    /// How often chance alone would do as much in this cell; 1 in runs that did not ask.
    #[serde(default = "certain_chance")]
    pub(in crate::bench) chance: f64,
}

fn certain_chance() -> f64 {
    1.0
}

/// The overhead of one block: its slots under the system against its slots without it. `None` where something is
/// missing or has no logarithm.
pub(in crate::bench) fn log_ratio(baseline: &[f64], system: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| {
        let count = f64::from(u32::try_from(values.len()).ok().filter(|count| *count > 0)?);
        let usable = values.iter().all(|value| value.is_finite() && *value > 0.0);
        usable.then(|| values.iter().map(|value| value.ln()).sum::<f64>() / count)
    };
    Some(mean(system)? - mean(baseline)?)
}

/// The median of the blocks' overheads and its percentile bootstrap interval.
pub(in crate::bench) fn estimate(ratios: &[f64], seed: u64) -> Option<Estimate> {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let overhead = middle(&sorted)?;
    let count = sorted.len();
    let mut random = Random::new(seed);
    let mut drawn = vec![0_usize; count];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            drawn.fill(0);
            for _ in 0..count {
                drawn[random.below(count)] += 1;
            }
            // The series is sorted, so that how often each value was drawn tells where the middle is.
            let at = |place: usize| {
                let mut below = 0;
                drawn
                    .iter()
                    .position(|times| {
                        below += times;
                        below > place
                    })
                    .map_or(overhead, |index| sorted[index])
            };
            f64::midpoint(at((count - 1) / 2), at(count / 2))
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small part of a small number"
    )]
    let tail = (TAIL * RESAMPLES as f64) as usize;
    Some(Estimate {
        blocks: count,
        overhead,
        low: medians[tail],
        high: medians[RESAMPLES - 1 - tail],
        chance: sign_flip(ratios, seed),
    })
}

/// The smallest overhead that a run can see, from the overheads of a system against itself.
pub(in crate::bench) fn detectable(same: &[f64]) -> f64 {
    let Some(center) = median(same) else {
        return f64::INFINITY;
    };
    let away: Vec<f64> = same.iter().map(|ratio| (ratio - center).abs()).collect();
    let away = median(&away).unwrap_or(f64::INFINITY);
    let blocks = u32::try_from(same.len()).map_or(f64::INFINITY, f64::from);
    POWER * COST_OF_MEDIAN * MAD_TO_SIGMA * away / blocks.sqrt()
}

/// An overhead that nobody would mind is equivalent even where it is certain. One that is larger than the margin must also be
/// larger than what the run could see, or it is not called a difference. Fewer than three blocks decide nothing.
pub(in crate::bench) fn judge(estimate: &Estimate, detectable: f64, margin: f64) -> Verdict {
    let margin = margin.ln_1p();
    let certain = estimate.overhead.abs() > margin.max(detectable);
    if estimate.blocks < LEAST_BLOCKS {
        Verdict::Inconclusive
    } else if estimate.low > -margin && estimate.high < margin {
        Verdict::Equivalent
    } else if certain && estimate.low > 0.0 {
        Verdict::Slower
    } else if certain && estimate.high < 0.0 {
        Verdict::Faster
    } else {
        Verdict::Inconclusive
    }
}

#[cfg(test)]
mod tests {
    use super::{Backend, Estimate, Verdict, detectable, estimate, judge, log_ratio};

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn block_compares_geometric_means() {
        let ratio = log_ratio(&[100.0, 400.0], &[202.0, 202.0]).unwrap();
        assert!(close(ratio, 1.01_f64.ln()));
        assert_eq!(log_ratio(&[], &[1.0]), None);
        assert_eq!(log_ratio(&[1.0, 0.0], &[1.0]), None);
    }

    #[test]
    fn interval_holds_the_median_and_shrinks_with_blocks() {
        let series: Vec<f64> = (0..81).map(|number| f64::from(number) / 1000.0).collect();
        let large = estimate(&series, 5).unwrap();
        assert!(close(large.overhead, 0.04) && large.low < 0.04 && large.high > 0.04);
        let few: Vec<f64> = series.iter().step_by(8).copied().collect();
        let small = estimate(&few, 5).unwrap();
        assert!(large.high - large.low < small.high - small.low);
        assert_eq!(estimate(&series, 5), Some(large));
        assert_eq!(estimate(&[], 5), None);
    }

    #[test]
    fn interval_of_the_median_is_where_the_binomial_distribution_puts_it() {
        // Of 25 values, the bootstrap's median lies at or below the eighth in 3.0 % of all resamples, and at or below the
        // seventh in 1.0 %: the 2.5 % quantile is the eighth value, and by symmetry the other one the eighteenth.
        let series: Vec<f64> = (1..=25).map(f64::from).collect();
        let known = estimate(&series, 11).unwrap();
        assert!(close(known.low, 8.0) && close(known.high, 18.0), "{known:?}");
    }

    #[test]
    fn detectable_effect_follows_the_formula() {
        let same: Vec<f64> = (0..50)
            .map(|number| if number % 2 == 0 { 0.01 } else { -0.01 })
            .collect();
        // 2.8 · 1.253 · 1.4826 · 0.01 / √50
        assert!((detectable(&same) - 0.007_356).abs() < 1e-5);
        assert!(detectable(&[]).is_infinite());
    }

    #[test]
    fn two_blocks_are_too_few_for_a_verdict() {
        let found = estimate(&[0.02, 0.02], 1).unwrap();
        assert_eq!(judge(&found, 0.0, 0.01), Verdict::Inconclusive);
        let found = estimate(&[0.02, 0.02, 0.02], 1).unwrap();
        assert_eq!(judge(&found, 0.0, 0.01), Verdict::Slower);
    }

    #[test]
    fn verdict_needs_interval_margin_and_power() {
        let verdict = |low, overhead, high, detectable| {
            let estimate = Estimate {
                blocks: 20,
                overhead,
                low,
                high,
                chance: 0.0,
            };
            judge(&estimate, detectable, Backend::NativeWall.margin())
        };
        assert_eq!(verdict(0.015, 0.02, 0.025, 0.005), Verdict::Slower);
        assert_eq!(verdict(-0.025, -0.02, -0.015, 0.005), Verdict::Faster);
        assert_eq!(verdict(0.001, 0.004, 0.008, 0.002), Verdict::Equivalent);
        assert_eq!(verdict(-0.01, 0.02, 0.05, 0.005), Verdict::Inconclusive);
        assert_eq!(verdict(0.015, 0.02, 0.025, 0.03), Verdict::Inconclusive);
        assert_eq!(verdict(0.002, 0.008, 0.015, 0.001), Verdict::Inconclusive);
    }
}
