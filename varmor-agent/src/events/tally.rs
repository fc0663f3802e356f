//! How many violations there were, by policy, rule and enforcer: what the metrics say.

use std::collections::BTreeMap;

use super::event::Action;
use super::violation::Violation;

/// Series that are told apart. Rules come from policies and from nowhere else, so a machine has far fewer.
const MOST: usize = 10_000;
/// Stands for the rules beyond.
const OTHER: &str = "(other)";

/// What is counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    pub policy: String,
    pub namespace: String,
    pub rule: String,
    pub enforcer: &'static str,
    pub action: Action,
}

#[derive(Clone, Debug, Default)]
pub struct Tally {
    series: BTreeMap<Series, u64>,
}

impl Tally {
    /// Counts a violation and those that it stands for.
    pub fn add(&mut self, violation: &Violation) {
        self.add_repeated(violation, violation.count);
    }

    /// Counts so many more of the same sort.
    pub fn add_repeated(&mut self, violation: &Violation, count: u64) {
        let mut series = Series {
            policy: violation.policy_name.clone(),
            namespace: violation.policy_namespace.clone(),
            rule: violation.rule_id.clone(),
            enforcer: violation.enforcer,
            action: violation.action,
        };
        if self.series.len() >= MOST && !self.series.contains_key(&series) {
            OTHER.clone_into(&mut series.policy);
            OTHER.clone_into(&mut series.rule);
            series.namespace.clear();
        }
        *self.series.entry(series).or_default() += count;
    }

    pub fn series(&self) -> impl Iterator<Item = (&Series, u64)> {
        self.series.iter().map(|(series, count)| (series, *count))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use varmor_common::abi;

    use super::*;
    use crate::enforcer::Resolution;
    use crate::events::event::{Event, tests::raw};
    use crate::events::violation::Node;

    fn violation(rule: &str) -> Violation {
        let event = Event::try_from(&raw(abi::EVENT_FILE, abi::operation::OPEN, "/a")).unwrap();
        let resolution = Resolution {
            rule: Some(rule.to_owned()),
            ..Resolution::default()
        };
        Violation::new(event, resolution, None, &Node::default(), 1, SystemTime::now())
    }

    #[test]
    fn violations_of_one_rule_are_one_series() {
        let mut tally = Tally::default();
        tally.add(&violation("a"));
        tally.add_repeated(&violation("a"), 4);
        tally.add(&violation("b"));
        let counts: Vec<_> = tally
            .series()
            .map(|(series, count)| (series.rule.as_str(), count))
            .collect();
        assert_eq!(counts, [("a", 5), ("b", 1)]);
    }

    #[test]
    fn series_are_bounded() {
        let mut tally = Tally::default();
        for number in 0..MOST + 20 {
            tally.add(&violation(&number.to_string()));
        }
        assert_eq!(tally.series().count(), MOST + 1);
        let other = tally.series().find(|(series, _)| series.rule == OTHER).unwrap();
        assert_eq!(other.1, 20);
    }
}
