//! Starts the command, passes signals on, says violations as they happen, waits for the end.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::locked_memory::LockedMemory;
use super::place::Place;
use crate::enforcer::Enforcer;
use crate::events::{Event, EventError, Node, Violation, wake_on, wall_clock};

/// The command, and what its process does before it becomes the command.
pub(super) struct Entry<'e> {
    /// The `AppArmor` profile to enter.
    pub(super) label: Option<&'e str>,
    /// File with the filters to load.
    pub(super) filters: Option<&'e Path>,
    pub(super) locked_memory: &'e LockedMemory,
    pub(super) command: &'e [OsString],
    /// The command is asked to end after this time.
    pub(super) limit: Option<Duration>,
}

/// Takes violations, and events that cannot be read.
pub(super) trait Sink {
    fn event(&mut self, event: Result<Violation, EventError>) -> anyhow::Result<()>;
}

pub(super) async fn supervise(
    mut enforcer: Option<&mut dyn Enforcer>,
    place: &Place,
    entry: Entry<'_>,
    sink: &mut dyn Sink,
) -> anyhow::Result<ExitCode> {
    let mut wake = match enforcer.as_ref().and_then(|enforcer| enforcer.event_fd()) {
        Some(fd) => Some(wake_on(fd.try_clone_to_owned()?)?),
        None => None,
    };
    let listen = |kind| signal(kind).context("listen for signals");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut ctrl_backslash = listen(SignalKind::quit())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hang_up = listen(SignalKind::hangup())?;
    // A terminal sends its signals to the command as well.
    let passes_keys = !std::io::stdin().is_terminal();

    let mut child = Command::new(std::env::current_exe().context("find this program")?)
        .arg("enter")
        .arg("--cgroup")
        .arg(place.cgroup())
        .args(entry.label.iter().flat_map(|name| ["--apparmor", name]))
        .args(
            entry
                .filters
                .iter()
                .flat_map(|path| [OsStr::new("--seccomp"), path.as_os_str()]),
        )
        .args(["--memlock", &entry.locked_memory.to_string()])
        .arg("--")
        .args(entry.command)
        .spawn()
        .context("start the command")?;
    let limit = entry.limit.unwrap_or(Duration::MAX);
    let mut end = std::pin::pin!(tokio::time::sleep(limit));
    let mut asked = entry.limit.is_none();
    loop {
        tokio::select! {
            () = &mut end, if !asked => {
                asked = true;
                pass(&child, Signal::TERM);
            },
            status = child.wait() => return Ok(exit_code(status.context("wait for the command")?)),
            Some(()) = next(wake.as_mut()) => if let Some(enforcer) = &mut enforcer {
                take(&mut **enforcer, sink)?;
            },
            _ = interrupt.recv() => if passes_keys { pass(&child, Signal::INT) },
            _ = ctrl_backslash.recv() => if passes_keys { pass(&child, Signal::QUIT) },
            _ = terminate.recv() => pass(&child, Signal::TERM),
            _ = hang_up.recv() => pass(&child, Signal::HUP),
        }
    }
}

async fn next(wake: Option<&mut mpsc::Receiver<()>>) -> Option<()> {
    wake?.recv().await
}

/// Where violations go.
pub(super) struct Report {
    quiet: bool,
    file: Option<File>,
}

impl Report {
    pub(super) fn new(quiet: bool, path: Option<&Path>) -> anyhow::Result<Self> {
        let file = path
            .map(|path| {
                File::create(path)
                    .with_context(|| format!("create the file {} for violations", path.display()))
            })
            .transpose()?;
        Ok(Self { quiet, file })
    }

    /// Says what is still in the ring after the end, and what is in no line.
    pub(super) fn rest(&mut self, enforcer: &mut dyn Enforcer) {
        if let Err(error) = take(enforcer, self) {
            eprintln!("varmor: {error:#}");
        }
        for activity in enforcer.activity().unwrap_or_default() {
            let (repeated, left_out) = (activity.repeated, activity.limited + activity.lost);
            if !self.quiet && repeated + left_out > 0 {
                eprintln!(
                    "varmor: {repeated} repetitions and {left_out} more violations have no line of their own"
                );
            }
        }
    }

    fn say(&mut self, violation: &Violation) -> anyhow::Result<()> {
        if !self.quiet {
            eprintln!("varmor: {}", sentence(violation));
        }
        if let Some(file) = &mut self.file {
            let line = serde_json::to_string(violation)? + "\n";
            file.write_all(line.as_bytes())
                .context("write the file for violations")?;
        }
        Ok(())
    }
}

impl Sink for Report {
    fn event(&mut self, event: Result<Violation, EventError>) -> anyhow::Result<()> {
        match event {
            Ok(violation) => self.say(&violation)?,
            Err(error) => eprintln!("varmor: {error}"),
        }
        Ok(())
    }
}

/// Hands over what is in the ring.
pub(super) fn take(enforcer: &mut dyn Enforcer, sink: &mut dyn Sink) -> anyhow::Result<()> {
    let mut pending = Vec::new();
    enforcer
        .drain(&mut |event| pending.push(event))
        .context("read events")?;
    for raw in &pending {
        sink.event(Event::try_from(raw).map(|event| {
            let resolution = enforcer.resolve(&raw.head);
            let wall = wall_clock(event.monotonic);
            Violation::new(event, resolution, None, &Node::default(), wall, SystemTime::now())
        }))?;
    }
    Ok(())
}

/// `denied open /etc/shadow by cat (pid 7): rule x, spec.policy...`.
fn sentence(violation: &Violation) -> String {
    use crate::events::Action;
    let verb = match violation.action {
        Action::Denied => "denied",
        Action::Audit | Action::AuditAllowed => "audit:",
        Action::Allowed => "would deny",
    };
    let reason = violation.fault.as_ref().map_or_else(
        || format!("rule {} ({})", violation.rule_id, violation.policy_field),
        |fault| format!("it cannot be judged: {fault}"),
    );
    format!(
        "{verb} {} {} by {} (pid {}): {reason}",
        violation.hook,
        violation.object(),
        violation.process.comm,
        violation.pid
    )
}

fn pass(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        // It may have ended; then its status is picked up next.
        let _ = kill_process(pid, signal);
    }
}

/// The command's own code, or 128 and the number of the signal that ended it, as of shells.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use varmor_common::abi;
    use varmor_common::profile::Origin;

    use super::*;
    use crate::enforcer::Resolution;
    use crate::events::raw_event;

    #[test]
    fn violation_reads_as_a_sentence() {
        let event =
            Event::try_from(&raw_event(abi::EVENT_FILE, abi::operation::OPEN, "/etc/shadow")).unwrap();
        let resolution = Resolution {
            rule: Some("disable-x".into()),
            origin: Some(Origin {
                policy: "VarmorPolicy a/b".into(),
                field: "spec.policy".into(),
            }),
            ..Resolution::default()
        };
        let violation = Violation::new(event, resolution, None, &Node::default(), 1, SystemTime::now());
        assert_eq!(
            sentence(&violation),
            "denied open /etc/shadow by cat (pid 100): rule disable-x (spec.policy)"
        );
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        let code = |raw| format!("{:?}", exit_code(ExitStatus::from_raw(raw)));
        assert_eq!(code(3 << 8), format!("{:?}", ExitCode::from(3)));
        assert_eq!(code(15), format!("{:?}", ExitCode::from(143)));
    }
}
