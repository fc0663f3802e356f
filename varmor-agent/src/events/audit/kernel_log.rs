//! `/dev/kmsg`: the kernel's log, where the audit's records are that no auditd takes.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use tracing::error;
use varmor_common::audit::{KernelLine, parse};

use super::{Intake, count};

/// The kernel gives whole messages, and these are never longer.
const LONGEST: usize = 16 << 10;
/// How soon the thread notices that nobody listens any more.
const PATIENCE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

pub(super) struct KernelLog {
    file: File,
}

/// What was read so far.
#[derive(Default)]
struct Position {
    sequence: Option<u64>,
    audit_lost: Option<u64>,
}

impl KernelLog {
    /// Begins behind the last message: what stands there is of another agent's time.
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(open("/dev/kmsg", flags, Mode::empty())?);
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file })
    }

    /// Reads until nobody listens any more.
    pub(super) fn run(mut self, intake: &Intake) {
        let mut buffer = vec![0; LONGEST];
        let mut position = Position::default();
        while !intake.is_closed() {
            match self.file.read(&mut buffer) {
                Ok(0) => {}
                Ok(length) => {
                    position.line(&buffer[..length], intake);
                    continue;
                }
                Err(error) => match Errno::from_io_error(&error) {
                    // Messages were overwritten; the next one's number tells how many.
                    Some(Errno::PIPE | Errno::INTR) => continue,
                    Some(Errno::AGAIN) => {}
                    _ => {
                        error!(%error, "the kernel log cannot be read any more; violations of AppArmor and seccomp are in no log");
                        return;
                    }
                },
            }
            let _ = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&PATIENCE));
        }
    }
}

impl Position {
    fn line(&mut self, bytes: &[u8], intake: &Intake) {
        let Ok(line) = KernelLine::parse(bytes) else {
            return;
        };
        if let Some(last) = self.sequence.replace(line.sequence) {
            let gap = line.sequence.saturating_sub(last).saturating_sub(1);
            count(&intake.counters.log_gaps, gap);
        }
        if !line.is_of_kernel {
            return;
        }
        if let Some(suppressed) = line.suppressed() {
            count(&intake.counters.log_gaps, suppressed);
        } else if let Some(now) = line.audit_lost() {
            // It is said when something was lost, so the first one tells of one at least.
            let before = self.audit_lost.replace(now).unwrap_or(now.saturating_sub(1));
            count(&intake.counters.kernel, now.saturating_sub(before));
        } else if line.message.starts_with(b"audit: type=") {
            match parse(&line.message) {
                Ok(record) => intake.take(record),
                Err(_) => count(&intake.counters.unreadable, 1),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::tests::intake;
    use super::*;

    #[test]
    fn records_gaps_and_losses_are_read() {
        let (intake, mut records) = intake(4);
        let mut position = Position::default();
        for line in [
            "6,10,1,-;something else",
            "5,11,1,-;audit: type=1400 audit(1.002:3): apparmor=\"DENIED\" operation=\"open\" profile=\"varmor-a-b\" name=\"/x\"",
            "5,15,1,-;audit: type=1300 audit(1.002:3): arch=1",
            "4,16,1,-;kauditd_printk_skb: 4 callbacks suppressed",
            "3,17,1,-;audit: audit_lost=3 audit_rate_limit=0",
            "3,18,1,-;audit: audit_lost=8 audit_rate_limit=0",
            "5,19,1,-;audit: type=1400 broken",
        ] {
            position.line(line.as_bytes(), &intake);
        }
        assert_eq!(records.try_recv().unwrap().record.get("name").unwrap(), b"/x");
        assert!(records.try_recv().is_err());
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &intake.counters;
        assert_eq!(
            (
                read(&counters.log_gaps),
                read(&counters.kernel),
                read(&counters.unreadable)
            ),
            (3 + 4, 1 + 5, 1)
        );
    }

    #[test]
    fn a_program_cannot_write_a_record() {
        let (intake, mut records) = intake(4);
        Position::default().line(
            b"13,1,1,-;audit: type=1400 audit(1.002:3): apparmor=\"DENIED\" profile=\"varmor-a-b\"",
            &intake,
        );
        assert!(records.try_recv().is_err());
    }
}
