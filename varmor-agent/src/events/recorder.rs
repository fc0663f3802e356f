//! Takes events, enriches them and writes them: the end of an event's way.

use std::time::{Duration, Instant, SystemTime};

use tracing::{error, warn};

use super::collapse::Collapse;
use super::event::Event;
use super::log_file::LogFile;
use super::outbox::Outbox;
use super::tally::Tally;
use super::violation::{Node, Violation};
use crate::containers::Container;
use crate::enforcer::{KernelEvent, Resolution};

/// A failing log file is reported this often.
const REPORT: Duration = Duration::from_mins(1);

pub struct Recorder {
    node: Node,
    file: LogFile,
    collapse: Collapse,
    tally: Tally,
    outboxes: Vec<Outbox>,
    unreadable: u64,
    failure_reported: Option<Instant>,
}

/// Events that are in no log, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Lost {
    /// The log file could not be written.
    pub file: u64,
    /// The event was of an unknown version.
    pub unreadable: u64,
}

impl Recorder {
    #[must_use]
    pub fn new(node: Node, file: LogFile) -> Self {
        Self {
            node,
            file,
            collapse: Collapse::default(),
            tally: Tally::default(),
            outboxes: Vec::new(),
            unreadable: 0,
            failure_reported: None,
        }
    }

    /// Also hands every line to this output.
    pub fn add(&mut self, outbox: Outbox) {
        self.outboxes.push(outbox);
    }

    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node.name
    }

    /// How many violations there were of each sort.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Logs an event of the kernel, unless `first` takes it.
    pub fn record(
        &mut self,
        raw: &KernelEvent,
        resolution: Resolution,
        container: Option<&Container>,
        first: impl FnOnce(Violation) -> Option<Violation>,
    ) {
        let event = match Event::try_from(raw) {
            Ok(event) => event,
            Err(error) => {
                self.unreadable += 1;
                if self.unreadable == 1 {
                    error!(%error, "event cannot be read");
                }
                return;
            }
        };
        let (wall, identity) = (wall_clock(event.monotonic), event.identity);
        let violation = Violation::new(event, resolution, container, &self.node, wall, SystemTime::now());
        let Some(violation) = first(violation) else { return };
        self.tally.add(&violation);
        if let Some(line) = self.collapse.event(violation, identity, Instant::now()) {
            self.write(&line);
        }
    }

    /// Takes an event of the audit; `wall` is its time in nanoseconds since the epoch.
    pub fn record_audit(
        &mut self,
        event: Event,
        wall: u64,
        resolution: Resolution,
        container: Option<&Container>,
    ) {
        let violation = Violation::new(event, resolution, container, &self.node, wall, SystemTime::now());
        self.tally.add(&violation);
        if let Some(line) = self.collapse.push(violation, Instant::now()) {
            self.write(&line);
        }
    }

    /// Takes repetitions of an event that the kernel only counted.
    pub fn repeat(&mut self, identity: u64, count: u64) {
        if let Some(violation) = self.collapse.remembered(identity) {
            self.tally.add_repeated(violation, count);
        }
        if let Some(line) = self.collapse.repeat(identity, count, Instant::now()) {
            self.write(&line);
        }
    }

    /// Writes the sums of repeated events; to be called about once a second.
    pub fn tick(&mut self) {
        for line in self.collapse.expire(Instant::now()) {
            self.write(&line);
        }
    }

    /// Writes everything that is still held, and gives the outputs a moment for what waits.
    pub fn finish(&mut self) {
        for line in self.collapse.finish() {
            self.write(&line);
        }
        for outbox in self.outboxes.drain(..) {
            outbox.close();
        }
    }

    /// Lines that each output beside the file has lost.
    pub fn lost_by_output(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.outboxes.iter().map(|outbox| (outbox.name(), outbox.lost()))
    }

    #[must_use]
    pub fn lost(&self) -> Lost {
        Lost {
            file: self.file.lost(),
            unreadable: self.unreadable,
        }
    }

    fn write(&mut self, violation: &Violation) {
        warn!(
            action = ?violation.action, operation = %violation.hook, object = %violation.object(),
            rule = %violation.rule_id, profile = %violation.profile_name, container = %violation.container_id,
            pod = %violation.pod_name, pid = violation.pid, executable = %violation.executable,
            count = violation.count, fault = violation.fault, "violation event"
        );
        let line = serde_json::to_string(violation).expect("a violation holds only strings and numbers");
        for outbox in &self.outboxes {
            outbox.offer(&line);
        }
        if let Err(error) = self.file.write(&line) {
            if self
                .failure_reported
                .is_none_or(|since| since.elapsed() >= REPORT)
            {
                self.failure_reported = Some(Instant::now());
                error!(path = %self.file.path().display(), %error, lost = self.file.lost(), "violations cannot be written");
            }
        } else {
            self.failure_reported = None;
        }
    }
}

/// Nanoseconds since the epoch of a `CLOCK_MONOTONIC` time of this boot.
#[must_use]
pub fn wall_clock(monotonic: u64) -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = u64::try_from(now.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(now.tv_nsec).unwrap_or_default();
    epoch_time().saturating_sub(now.saturating_sub(monotonic))
}

/// Nanoseconds since the epoch.
pub(super) fn epoch_time() -> u64 {
    let wall = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use varmor_common::abi;

    use super::*;
    use crate::events::event::tests::raw;

    #[test]
    fn events_become_lines_and_unreadable_ones_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("violations.log");
        let mut recorder = Recorder::new(Node::default(), LogFile::new(path.clone()));
        for _ in 0..3 {
            recorder.record(
                &raw(abi::EVENT_FILE, abi::operation::OPEN, "/a"),
                Resolution::default(),
                None,
                Some,
            );
        }
        recorder.record(
            &raw(77, abi::operation::OPEN, "/a"),
            Resolution::default(),
            None,
            Some,
        );
        recorder.finish();
        let text = std::fs::read_to_string(path).unwrap();
        let counts: Vec<u64> = text
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["count"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        assert_eq!(counts, [1, 2]);
        assert_eq!(
            recorder.lost(),
            Lost {
                file: 0,
                unreadable: 1
            }
        );
    }

    #[test]
    fn monotonic_time_becomes_wall_time() {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let monotonic = u64::try_from(now.tv_sec).unwrap() * 1_000_000_000;
        let wall = Duration::from_nanos(wall_clock(monotonic));
        let real = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert!(real.abs_diff(wall) < Duration::from_secs(2));
    }
}
