//! Runs a command without refusing anything, and records what it does.
//!
//! Recording is a complaining allow-list that allows nothing: every operation is an event of the enforcer, with the names
//! that rules will be matched against. What the kernel could not hand over is counted.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use varmor_common::model::Recording;
use varmor_common::policy;
use varmor_common::profile::{NodeFacts, Profile, build};

use super::supervise::Sink;
use super::{begin, load_bpf, supervise};
use crate::enforcer::Enforcer as _;
use crate::events::{EventError, Violation};
use crate::observe::take_calls;

const POLICY: &str = "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {name: learn}\nspec: \
    {target: {kind: Pod, name: x}, policy: {enforcer: BPF, mode: BehaviorModeling, modelingOptions: {duration: 1}}}\n";

/// What the command and everything it starts do, and how the command ended.
pub(in crate::cli) fn record(
    command: &[OsString],
    limit: Option<Duration>,
) -> anyhow::Result<(Recording, ExitCode)> {
    let (mut place, locked_memory) = begin()?;
    let profile = profile()?;
    let mut enforcer = load_bpf(&profile, &place)?;
    enforcer
        .record_everything(true)
        .context("lift the limit of events")?;
    let calls = enforcer
        .record_calls(&profile.name)
        .context("record system calls")?;
    let mut recording = Recording::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let entry = supervise::Entry {
        label: None,
        filters: None,
        locked_memory: &locked_memory,
        command,
        limit,
    };
    let code = runtime.block_on(supervise::supervise(
        Some(&mut enforcer),
        &place,
        entry,
        &mut recording,
    ))?;
    place.end_processes();
    supervise::take(&mut enforcer, &mut recording).context("read the last events")?;
    take_calls(&mut recording, calls.seen().context("read the system calls")?);
    drop(calls);
    for activity in enforcer.activity().context("count what was not recorded")? {
        recording.losses.lost += activity.lost;
        recording.losses.limited += activity.limited;
    }
    enforcer.uninstall().context("take the kernel programs down")?;
    place.remove();
    Ok((recording, code))
}

fn profile() -> anyhow::Result<Profile> {
    let loaded = policy::load("learn", POLICY.as_bytes());
    let document = loaded
        .documents
        .first()
        .context("the recording's policy is not read")?;
    let built = build(document, &NodeFacts::default());
    built.profile.context("the recording's policy means nothing")
}

impl Sink for Recording {
    fn event(&mut self, event: Result<Violation, EventError>) -> anyhow::Result<()> {
        match event {
            Ok(violation) => {
                let line = serde_json::to_string(&violation).context("write an event")?;
                self.add(&line).context("read an event")?;
            }
            Err(error) => {
                self.losses.unreadable += 1;
                self.note(error.to_string(), 1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use varmor_common::abi;
    use varmor_common::profile::ProfileMode;

    use super::*;
    use crate::enforcer::Resolution;
    use crate::events::{Event, Node, raw_event};

    #[test]
    fn recording_refuses_nothing() {
        let profile = profile().unwrap();
        assert_eq!((profile.mode, profile.rules.len()), (ProfileMode::Complain, 0));
    }

    #[test]
    fn events_are_taken_and_what_cannot_be_read_is_counted() {
        let mut recording = Recording::default();
        let mut raw = raw_event(abi::EVENT_FILE, abi::operation::OPEN, "/etc/passwd");
        raw.head.action = abi::ACTION_ALLOWED;
        let event = Event::try_from(&raw).unwrap();
        let now = std::time::SystemTime::now();
        let violation = Violation::new(event, Resolution::default(), None, &Node::default(), 1, now);
        recording.event(Ok(violation)).unwrap();
        recording.event(Err(EventError::Kind(99))).unwrap();
        let seen: Vec<String> = recording
            .operations()
            .map(|(operation, _)| operation.to_string())
            .collect();
        assert_eq!(seen, ["open r /etc/passwd"]);
        assert_eq!(recording.losses.unreadable, 1);
    }
}
