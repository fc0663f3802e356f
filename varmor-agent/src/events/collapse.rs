//! Equal events within a second become one line with a count, so that a loop in a container cannot fill the log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::event::{Action, Detail};
use super::violation::Violation;

/// Events are equal within this time.
pub(super) const WINDOW: Duration = Duration::from_secs(1);
/// The kernel counts repetitions for one window and hands them over within the next.
const REMEMBER: Duration = Duration::from_secs(5);
/// Different events that are remembered; beyond it every event is its own line until old ones have left.
const MAX_OPEN: usize = 8192;

/// What makes two events equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    cgroup: u64,
    action: Action,
    profile: String,
    rule: String,
    hook: String,
    detail: Detail,
    executable: String,
    fault: Option<String>,
}

struct Open {
    since: Instant,
    /// The last of the events that followed the line that was written, and their number.
    held: Option<(Violation, u64)>,
}

#[derive(Default)]
pub(super) struct Collapse {
    open: BTreeMap<Key, Open>,
    /// Events of the last seconds by the kernel's identity, to say what a repetition was a repetition of.
    recent: BTreeMap<u64, (Instant, Violation)>,
}

impl Collapse {
    /// Takes an event with its identity.
    pub(super) fn event(&mut self, violation: Violation, identity: u64, now: Instant) -> Option<Violation> {
        if self.recent.len() < MAX_OPEN || self.recent.contains_key(&identity) {
            let mut remembered = violation.clone();
            remembered.count = 1;
            self.recent.insert(identity, (now, remembered));
        }
        self.push(violation, now)
    }

    /// The event of the last seconds with this identity.
    pub(super) fn remembered(&self, identity: u64) -> Option<&Violation> {
        self.recent.get(&identity).map(|(_, violation)| violation)
    }

    /// Takes repetitions that the kernel only counted.
    pub(super) fn repeat(&mut self, identity: u64, count: u64, now: Instant) -> Option<Violation> {
        let (_, violation) = self.recent.remove(&identity)?;
        self.push(Violation { count, ..violation }, now)
    }

    /// Takes a violation with its count. The first of its sort comes back at once; those that follow within the
    /// window are held until [`Self::expire`].
    pub(super) fn push(&mut self, violation: Violation, now: Instant) -> Option<Violation> {
        let key = Key::of(&violation);
        if let Some(open) = self.open.get_mut(&key) {
            let count = open.held.as_ref().map_or(0, |(_, count)| *count);
            let more = violation.count;
            open.held = Some((violation, count + more));
            return None;
        }
        if self.open.len() < MAX_OPEN {
            self.open.insert(
                key,
                Open {
                    since: now,
                    held: None,
                },
            );
        }
        Some(violation)
    }

    /// Lines for the held events whose window is over.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Violation> {
        self.recent
            .retain(|_, (since, _)| now.duration_since(*since) < REMEMBER);
        let mut lines = Vec::new();
        self.open.retain(|_, open| {
            if now.duration_since(open.since) < WINDOW {
                return true;
            }
            let Some((mut violation, count)) = open.held.take() else {
                return false;
            };
            violation.count = count;
            lines.push(violation);
            // Still going on: the next line comes a window later.
            open.since = now;
            true
        });
        lines
    }

    /// Everything that is held, at the end.
    pub(super) fn finish(&mut self) -> Vec<Violation> {
        let held = std::mem::take(&mut self.open)
            .into_values()
            .filter_map(|open| open.held);
        held.map(|(mut violation, count)| {
            violation.count = count;
            violation
        })
        .collect()
    }
}

impl Key {
    fn of(violation: &Violation) -> Self {
        // The peer of a ptrace is no part of what makes two attempts equal: a scan tries every process. Nor are the
        // number and the time of a record.
        let detail = match &violation.event {
            Detail::AppArmor(detail) => Detail::AppArmor(Box::new(detail.without_occasion())),
            Detail::Seccomp(detail) => Detail::Seccomp(detail.without_occasion()),
            Detail::Ptrace {
                permission, external, ..
            } => Detail::Ptrace {
                permission: permission.clone(),
                external: *external,
                peer: 0,
            },
            other => other.clone(),
        };
        Self {
            cgroup: violation.cgroup,
            action: violation.action,
            profile: violation.profile_name.clone(),
            rule: violation.rule_id.clone(),
            hook: violation.hook.clone(),
            detail,
            executable: violation.executable.clone(),
            fault: violation.fault.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use varmor_common::abi;

    use super::*;
    use crate::enforcer::Resolution;
    use crate::events::event::{Event, tests::raw};
    use crate::events::violation::Node;

    fn violation(path: &str) -> Violation {
        let event = Event::try_from(&raw(abi::EVENT_FILE, abi::operation::OPEN, path)).unwrap();
        Violation::new(
            event,
            Resolution::default(),
            None,
            &Node::default(),
            1,
            std::time::SystemTime::now(),
        )
    }

    #[test]
    fn burst_becomes_one_line_and_one_sum() {
        let (mut collapse, start) = (Collapse::default(), Instant::now());
        let written: Vec<_> = (0..1000)
            .filter_map(|_| collapse.push(violation("/a"), start))
            .collect();
        assert_eq!(written.len(), 1);
        assert_eq!(written[0].count, 1);
        assert!(collapse.expire(start + WINDOW / 2).is_empty());
        let sums = collapse.expire(start + WINDOW);
        assert_eq!(sums.iter().map(|line| line.count).collect::<Vec<_>>(), [999]);
        assert!(collapse.expire(start + WINDOW * 2).is_empty());
        assert!(collapse.open.is_empty());
    }

    #[test]
    fn different_paths_are_different_events() {
        let (mut collapse, now) = (Collapse::default(), Instant::now());
        assert!(collapse.push(violation("/a"), now).is_some());
        assert!(collapse.push(violation("/b"), now).is_some());
        assert!(collapse.push(violation("/a"), now).is_none());
    }

    #[test]
    fn no_event_is_lost_from_the_counts() {
        let (mut collapse, start) = (Collapse::default(), Instant::now());
        let mut total = 0;
        for step in 0..5000_u32 {
            let now = start + Duration::from_millis(step.into());
            total += collapse.expire(now).iter().map(|line| line.count).sum::<u64>();
            total += collapse.push(violation("/a"), now).map_or(0, |line| line.count);
        }
        total += collapse.finish().iter().map(|line| line.count).sum::<u64>();
        assert_eq!(total, 5000);
    }

    #[test]
    fn repetitions_of_the_kernel_are_in_the_sums() {
        let (mut collapse, start) = (Collapse::default(), Instant::now());
        assert_eq!(
            collapse.event(violation("/a"), 5, start).map(|line| line.count),
            Some(1)
        );
        let later = start + WINDOW * 2;
        collapse.expire(later);
        assert_eq!(
            collapse.repeat(6, 7, later).map(|line| line.count),
            None,
            "of nothing that is known"
        );
        let line = collapse.repeat(5, 99, later).unwrap();
        assert_eq!((line.count, line.object().as_str()), (99, "/a"));
        collapse.expire(later + REMEMBER);
        assert!(collapse.recent.is_empty());
    }

    #[test]
    fn memory_is_bounded_and_events_still_come_through() {
        let (mut collapse, now) = (Collapse::default(), Instant::now());
        let written = (0..MAX_OPEN + 100)
            .filter_map(|n| collapse.push(violation(&format!("/{n}")), now))
            .count();
        assert_eq!(written, MAX_OPEN + 100);
        assert_eq!(collapse.open.len(), MAX_OPEN);
    }
}
