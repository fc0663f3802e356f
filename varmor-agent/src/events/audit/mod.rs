//! What `AppArmor` and seccomp did: read from the kernel's audit, beside whoever else reads it.
//!
//! The multicast group of the audit's netlink is preferred: it has every record, whole, also where auditd runs. Where
//! it is missing (no `CAP_AUDIT_READ`, another network namespace than the machine's, audit off), the kernel log has
//! the records that auditd does not take.

mod detail;
mod kernel_log;
mod netlink;
mod operation;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use varmor_common::audit::{AVC, Record, SECCOMP};
use varmor_common::compile::apparmor::PREFIX;

pub use detail::{AppArmorDetail, SeccompDetail, seccomp_action};
pub use operation::operation;

use super::event::{Action, Detail, Event, Process};
use crate::containers::cgroup::Hierarchy;
use crate::enforcer::CgroupId;
use crate::text::from_kernel;

/// Records that wait for the agent; beyond it they are lost, and counted.
const WAITING: usize = 4096;
const STACK: usize = 128 << 10;

/// A record and what was known about its process when it came: a moment later the process may be gone.
#[derive(Debug)]
pub struct Observed {
    pub record: Record,
    /// The innermost first; empty for a process that is gone.
    pub cgroups: Vec<CgroupId>,
    pub executable: String,
    pub mount_namespace: u32,
}

/// Records that nobody has seen, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// How often the kernel found the socket full; it does not say how many records that were.
    pub overruns: u64,
    /// Messages of the kernel log that were overwritten or suppressed before they were read.
    pub log_gaps: u64,
    /// What the audit itself says that it has lost.
    pub kernel: u64,
    /// Records that the agent had no room for.
    pub queue: u64,
    /// Records that could not be understood.
    pub unreadable: u64,
    /// Records of seccomp whose process was gone before its container could be told: they name no policy.
    pub gone: u64,
}

#[derive(Debug, Default)]
struct Counters {
    overruns: AtomicU64,
    log_gaps: AtomicU64,
    kernel: AtomicU64,
    queue: AtomicU64,
    unreadable: AtomicU64,
}

/// Where the records come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Netlink,
    KernelLog,
}

impl Source {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Netlink => "audit netlink",
            Self::KernelLog => "kernel log",
        }
    }
}

/// A reader at work.
pub struct Reader {
    pub records: mpsc::Receiver<Observed>,
    pub source: Source,
    /// Why it is not the better source; empty if it is.
    pub drawback: String,
    counters: Arc<Counters>,
}

impl Reader {
    /// Begins to read; else says what stands in the way of each source.
    pub fn open() -> Result<Self, String> {
        let counters = Arc::new(Counters::default());
        let (sender, records) = mpsc::channel(WAITING);
        let intake = Intake {
            sender,
            counters: Arc::clone(&counters),
            hierarchy: Hierarchy::find().ok(),
        };
        let by_netlink = shares_network_with_machine().and_then(|()| netlink::Socket::open());
        let (source, drawback, outcome) = match by_netlink {
            Ok(socket) => {
                let outcome = spawn(move || socket.run(&intake));
                (Source::Netlink, String::new(), outcome)
            }
            Err(netlink) => match kernel_log::KernelLog::open() {
                Ok(log) => {
                    let drawback = format!("audit netlink: {netlink}");
                    (Source::KernelLog, drawback, spawn(move || log.run(&intake)))
                }
                Err(log) => return Err(format!("audit netlink: {netlink}; kernel log: {log}")),
            },
        };
        outcome.map_err(|error| format!("start a thread: {error}"))?;
        Ok(Self {
            records,
            source,
            drawback,
            counters,
        })
    }

    /// What was lost before a record came out of here.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        Losses {
            overruns: read(&counters.overruns),
            log_gaps: read(&counters.log_gaps),
            kernel: read(&counters.kernel),
            queue: read(&counters.queue),
            unreadable: read(&counters.unreadable),
            gone: 0,
        }
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let named = thread::Builder::new().name("audit".to_owned());
    named.stack_size(STACK).spawn(work).map(drop)
}

/// The kernel sends the audit's records to sockets of the first network namespace only; elsewhere one would wait
/// for ever, without an error.
fn shares_network_with_machine() -> io::Result<()> {
    let of = |process: &str| fs::metadata(format!("/proc/{process}/ns/net")).map(|file| file.ino());
    if of("self")? == of("1")? {
        Ok(())
    } else {
        Err(io::Error::other(
            "this process is not in the machine's network namespace",
        ))
    }
}

/// Where a source puts what it reads.
struct Intake {
    sender: mpsc::Sender<Observed>,
    counters: Arc<Counters>,
    hierarchy: Option<Hierarchy>,
}

impl Intake {
    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    fn take(&self, record: Record) {
        if !is_of_interest(&record) {
            return;
        }
        let observed = self.observe(record);
        if self.sender.try_send(observed).is_err() {
            count(&self.counters.queue, 1);
        }
    }

    fn observe(&self, record: Record) -> Observed {
        let process = record.number("pid").and_then(|pid| u32::try_from(pid).ok());
        let mut observed = Observed {
            record,
            cgroups: Vec::new(),
            executable: String::new(),
            mount_namespace: 0,
        };
        let (Some(pid), Some(hierarchy)) = (process, &self.hierarchy) else {
            return observed;
        };
        observed.cgroups = hierarchy.of_process(pid).unwrap_or_default();
        if !observed.cgroups.is_empty() {
            use std::os::unix::ffi::OsStrExt as _;
            let executable = fs::read_link(format!("/proc/{pid}/exe"));
            observed.executable =
                executable.map_or_else(|_| String::new(), |path| from_kernel(path.as_os_str().as_bytes()));
            let namespace = fs::metadata(format!("/proc/{pid}/ns/mnt")).map(|file| file.ino());
            observed.mount_namespace = namespace
                .ok()
                .and_then(|inode| u32::try_from(inode).ok())
                .unwrap_or_default();
        }
        observed
    }
}

fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// Seccomp's records name no profile, so whose they are is found later.
fn is_of_interest(record: &Record) -> bool {
    match record.kind {
        AVC => {
            // A profile of another namespace of AppArmor may have any name.
            let is_ours = record
                .get("profile")
                .is_some_and(|name| name.starts_with(PREFIX.as_bytes()));
            is_ours && record.get("namespace").is_none() && detail::apparmor_action(record).is_some()
        }
        SECCOMP => true,
        _ => false,
    }
}

/// The name of the policy's profile: of `varmor-x//child` that is `varmor-x`.
#[must_use]
pub fn base_profile(record: &Record) -> Option<String> {
    let field = if record.kind == AVC { "profile" } else { "subj" };
    let name = from_kernel(record.get(field)?);
    let base = name.split(['/', ' ']).next().unwrap_or_default();
    base.starts_with(PREFIX).then(|| base.to_owned())
}

/// The record as an event; `None` for a kind that is none.
#[must_use]
pub fn event(observed: &Observed) -> Option<Event> {
    let record = &observed.record;
    let (action, hook, detail) = match record.kind {
        AVC => {
            let detail = AppArmorDetail::of(record);
            let action = detail::apparmor_action(record)?;
            (
                action,
                detail.operation.clone(),
                Detail::AppArmor(Box::new(detail)),
            )
        }
        SECCOMP => {
            let detail = SeccompDetail::of(record);
            (
                seccomp_action(record),
                "syscall".to_owned(),
                Detail::Seccomp(detail),
            )
        }
        _ => return None,
    };
    let word = |key: &str| {
        let number = record.number(key).and_then(|number| u32::try_from(number).ok());
        number.unwrap_or_default()
    };
    let executable = record.get("exe").map(from_kernel);
    Some(Event {
        action,
        hook,
        fault: None,
        cgroup: observed.cgroups.first().copied().unwrap_or(CgroupId(0)),
        identity: 0,
        repeated: 0,
        monotonic: 0,
        mount_namespace: observed.mount_namespace,
        executable: executable.unwrap_or_else(|| observed.executable.clone()),
        process: Process {
            pid: word("pid"),
            tid: 0,
            comm: record.get("comm").map(from_kernel).unwrap_or_default(),
            uid: if record.kind == AVC {
                word("fsuid")
            } else {
                word("uid")
            },
            gid: word("gid"),
            ancestors: Vec::new(),
        },
        detail,
    })
}

#[cfg(test)]
mod tests;
