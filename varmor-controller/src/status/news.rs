//! Which change of an `ArmorProfile`'s status cannot wait.
//!
//! The agent of every node watches the profiles, so one status is sent as often as there are nodes. What a node that comes, goes
//! or loads changes is a number in all of them: told at once, it would keep the API server busy with nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use varmor_common::policy::ArmorProfileStatus;

use super::judge::{DEGRADED, FAILED};

/// Events a second, at all nodes together, for what can wait.
const EVENTS: u64 = 5_000;

/// A node that cannot hold the profile, or one that can again; or that all nodes have it, for the first time.
pub(super) fn is_news(old: Option<&ArmorProfileStatus>, new: &ArmorProfileStatus) -> bool {
    let was_complete =
        old.is_some_and(|old| is_complete(old) && old.observed_generation == new.observed_generation);
    is_complete(new) && !was_complete || problems(new) != old.map(problems).unwrap_or_default()
}

/// How many statuses that can wait are told in one window.
pub(super) fn share(nodes: usize, window: Duration) -> usize {
    let events = u128::from(EVENTS) * window.as_millis() / 1000;
    let statuses = events / u128::try_from(nodes.max(1)).unwrap_or(u128::MAX);
    usize::try_from(statuses.max(1)).unwrap_or(usize::MAX)
}

fn is_complete(status: &ArmorProfileStatus) -> bool {
    status.desired_number_loaded > 0 && status.current_number_loaded >= status.desired_number_loaded
}

/// What nodes say of this profile; that an agent is silent is no word about it.
fn problems(status: &ArmorProfileStatus) -> BTreeSet<(&str, Option<&str>, Option<&str>)> {
    let of_it = status
        .conditions
        .iter()
        .filter(|one| matches!(one.reason.as_deref(), Some(DEGRADED | FAILED)));
    of_it
        .map(|one| {
            (
                one.node_name.as_str(),
                one.reason.as_deref(),
                one.message.as_deref(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use varmor_common::policy::NodeCondition;

    use super::*;

    fn status(current: i32, desired: i32, conditions: &[(&str, &str)]) -> ArmorProfileStatus {
        let condition = |(node, reason): &(&str, &str)| NodeCondition {
            kind: "Ready".to_owned(),
            status: "False".to_owned(),
            node_name: (*node).to_owned(),
            last_transition_time: None,
            reason: Some((*reason).to_owned()),
            message: Some("m".to_owned()),
        };
        ArmorProfileStatus {
            desired_number_loaded: desired,
            current_number_loaded: current,
            conditions: conditions.iter().map(condition).collect(),
            observed_generation: Some(1),
        }
    }

    #[test]
    fn that_all_nodes_have_it_is_news_and_how_many_have_it_is_not() {
        let none = status(0, 1000, &[]);
        let some = status(400, 1000, &[]);
        let all = status(1000, 1000, &[]);
        let one_more = status(1000, 1001, &[]);
        assert!(!is_news(None, &none));
        assert!(!is_news(None, &status(0, 0, &[])));
        assert!(is_news(None, &all));
        assert!(!is_news(Some(&none), &some));
        assert!(is_news(Some(&some), &all));
        assert!(!is_news(Some(&all), &one_more));
        assert!(is_news(Some(&one_more), &status(1001, 1001, &[])));
        let mut changed = all.clone();
        changed.observed_generation = Some(2);
        assert!(is_news(Some(&all), &changed));
    }

    #[test]
    fn problem_of_a_node_with_the_profile_is_news_and_a_silent_agent_is_not() {
        let all = status(2, 2, &[]);
        let failed = status(1, 2, &[("a", FAILED)]);
        let silent = status(1, 2, &[("a", "Lost")]);
        assert!(is_news(Some(&all), &failed));
        assert!(!is_news(Some(&failed), &failed));
        assert!(is_news(Some(&failed), &status(1, 2, &[("a", DEGRADED)])));
        assert!(is_news(Some(&failed), &all));
        assert!(!is_news(Some(&all), &silent));
    }

    #[test]
    fn share_is_smaller_with_more_nodes_and_never_nothing() {
        let window = Duration::from_secs(5);
        assert_eq!(share(0, window), 25_000);
        assert_eq!(share(1_000, window), 25);
        assert_eq!(share(5_000, Duration::from_secs(10)), 10);
        assert_eq!(share(1_000_000, window), 1);
    }
}
