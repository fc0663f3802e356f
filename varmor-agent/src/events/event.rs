//! Raw events of the kernel, checked once and typed ever after.

use std::net::{IpAddr, Ipv6Addr};

use serde::Serialize;
use thiserror::Error;
use varmor_common::abi;

use super::audit::{AppArmorDetail, SeccompDetail};
use super::names;
use crate::enforcer::{CgroupId, KernelEvent};
use crate::text::{comm, from_kernel};

/// An event as the rest of the agent sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub action: Action,
    /// The hook that asked: `open`, `rename`, `mprotect`.
    pub hook: String,
    /// Why the operation could not be judged.
    pub fault: Option<String>,
    pub cgroup: CgroupId,
    /// Equal for equal events of one process.
    pub identity: u64,
    /// Equal events before this one that were only counted.
    pub repeated: u64,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub monotonic: u64,
    pub mount_namespace: u32,
    pub executable: String,
    pub process: Process,
    pub detail: Detail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Action {
    Denied,
    Audit,
    Allowed,
    /// Logged and allowed: what a seccomp filter says about a call that is to be logged.
    #[serde(rename = "AUDIT|ALLOWED")]
    AuditAllowed,
}

/// The task that asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    pub pid: u32,
    pub tid: u32,
    pub comm: String,
    pub uid: u32,
    pub gid: u32,
    /// Parent first.
    pub ancestors: Vec<Ancestor>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ancestor {
    pub pid: u32,
    pub comm: String,
    /// Empty for a thread of the kernel.
    pub executable: String,
}

/// What was asked for, in the shapes of vArmor's BPF events.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "operation")]
pub enum Detail {
    File {
        permissions: Vec<String>,
        path: String,
    },
    Bprm {
        permissions: Vec<String>,
        path: String,
    },
    Capability {
        capability: String,
    },
    Network(Network),
    Mount {
        path: String,
        r#type: String,
        flags: Vec<String>,
    },
    Ptrace {
        permission: String,
        external: bool,
        #[serde(rename = "peerPID")]
        peer: u32,
    },
    /// Something of the enforcer itself.
    Enforcer {
        object: String,
        id: u64,
    },
    Namespace {
        namespace: String,
    },
    /// Has an operation of its own, in the kernel's words.
    #[serde(untagged)]
    AppArmor(Box<AppArmorDetail>),
    #[serde(untagged)]
    Seccomp(SeccompDetail),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Network {
    Socket {
        socket: Socket,
    },
    Connect {
        address: Address,
    },
    /// A local address that the outside could reach.
    Listen {
        address: Address,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Socket {
    pub domain: String,
    pub r#type: String,
    pub protocol: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Address {
    /// As the kernel judged it: an IPv4-mapped IPv6 address is the IPv4 address.
    pub ip: IpAddr,
    pub port: u16,
}

impl Detail {
    /// Who asked and decided, as vArmor calls it.
    #[must_use]
    pub const fn enforcer(&self) -> &'static str {
        match self {
            Self::AppArmor(_) => "AppArmor",
            Self::Seccomp(_) => "Seccomp",
            _ => "BPF",
        }
    }
}

/// Numbers of the texts.
const PATH: usize = 0;
const EXECUTABLE: usize = 1;
const ANCESTORS: usize = 2;

#[derive(Debug, Error, PartialEq, Eq)]
pub enum EventError {
    #[error("event of unknown kind {0}; the kernel programs and this agent are of different versions")]
    Kind(u32),
    #[error("event with unknown action {0}; the kernel programs and this agent are of different versions")]
    Action(u32),
}

impl TryFrom<&KernelEvent> for Event {
    type Error = EventError;

    fn try_from(event: &KernelEvent) -> Result<Self, EventError> {
        let raw = &event.head;
        let action = match raw.action {
            abi::ACTION_DENIED | abi::ACTION_FAULT => Action::Denied,
            abi::ACTION_AUDIT => Action::Audit,
            abi::ACTION_ALLOWED => Action::Allowed,
            other => return Err(EventError::Action(other)),
        };
        let is_fault = raw.action == abi::ACTION_FAULT || raw.fault != abi::FAULT_NONE;
        Ok(Self {
            action,
            hook: names::operation(raw.operation),
            fault: is_fault.then(|| names::fault(raw.fault)),
            cgroup: CgroupId(raw.cgroup),
            identity: raw.identity,
            repeated: raw.repeated.into(),
            monotonic: raw.time,
            mount_namespace: raw.mount_namespace,
            executable: text(event, EXECUTABLE),
            process: Process {
                pid: raw.tgid,
                tid: raw.tid,
                comm: comm(&raw.comm),
                uid: raw.uid,
                gid: raw.gid,
                ancestors: raw
                    .ancestors
                    .iter()
                    .enumerate()
                    .take_while(|(_, ancestor)| ancestor.tgid != 0)
                    .map(|(number, ancestor)| Ancestor {
                        pid: ancestor.tgid,
                        comm: comm(&ancestor.comm),
                        executable: text(event, ANCESTORS + number),
                    })
                    .collect(),
            },
            detail: detail(event)?,
        })
    }
}

fn detail(event: &KernelEvent) -> Result<Detail, EventError> {
    let raw = &event.head;
    let path = || text(event, PATH);
    Ok(match raw.kind {
        abi::EVENT_FILE => Detail::File {
            permissions: names::permissions(raw.requested),
            path: path(),
        },
        abi::EVENT_EXEC => Detail::Bprm {
            permissions: names::permissions(raw.requested),
            path: path(),
        },
        abi::EVENT_CAPABILITY => Detail::Capability {
            capability: names::capability(raw.data[0]),
        },
        abi::EVENT_SOCKET => Detail::Network(Network::Socket {
            socket: Socket {
                domain: names::family(raw.data[0]),
                r#type: names::socket_type(raw.data[1]),
                protocol: names::protocol(raw.data[0], raw.data[2]),
            },
        }),
        abi::EVENT_CONNECT => {
            let address = address(raw.data);
            Detail::Network(match raw.operation {
                abi::operation::BIND | abi::operation::LISTEN | abi::operation::ACCEPT => {
                    Network::Listen { address }
                }
                _ => Network::Connect { address },
            })
        }
        abi::EVENT_MOUNT => Detail::Mount {
            path: path(),
            r#type: filesystem(raw.data),
            flags: names::mount_flags(low(raw.data[0])),
        },
        abi::EVENT_PTRACE => Detail::Ptrace {
            permission: names::ptrace(low(raw.data[0])).join("|"),
            external: raw.data[2] != 0,
            peer: low(raw.data[1]),
        },
        abi::EVENT_GUARD => Detail::Enforcer {
            object: names::own(raw.data[0]),
            id: raw.data[1],
        },
        abi::EVENT_NAMESPACE => Detail::Namespace {
            namespace: "user".to_owned(),
        },
        other => return Err(EventError::Kind(other)),
    })
}

/// A text of the event; `...` stands before one that is only the tail.
fn text(event: &KernelEvent, number: usize) -> String {
    let bytes = match number {
        PATH => &event.path,
        EXECUTABLE => &event.executable,
        _ => &event.ancestors[number - ANCESTORS],
    };
    let is_tail = event.head.tails & (1 << number) != 0 && !bytes.is_empty();
    let mark = if is_tail { "..." } else { "" };
    format!("{mark}{}", from_kernel(bytes))
}

fn address(data: [u64; 4]) -> Address {
    let bits = u128::from(data[0]) << 64 | u128::from(data[1]);
    let port = u16::try_from(data[2] & 0xffff).expect("sixteen bits fit");
    Address {
        ip: Ipv6Addr::from_bits(bits).to_canonical(),
        port,
    }
}

fn filesystem(data: [u64; 4]) -> String {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&data[1].to_le_bytes());
    bytes[8..].copy_from_slice(&data[2].to_le_bytes());
    comm(&bytes)
}

fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).expect("thirty-two bits fit")
}

#[cfg(test)]
pub(crate) mod tests {
    use varmor_common::abi::RawEvent;

    use super::*;

    pub(crate) fn raw(kind: u32, operation: u32, path: &str) -> KernelEvent {
        let mut head = RawEvent {
            kind,
            operation,
            action: abi::ACTION_DENIED,
            time: 5_000,
            cgroup: 42,
            identity: 77,
            slot: 1,
            generation: 1,
            site: 1,
            requested: abi::PERM_READ,
            tgid: 100,
            tid: 101,
            uid: 1000,
            gid: 1000,
            mount_namespace: 4_026_532_000,
            comm: *b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0",
            ..RawEvent::default()
        };
        head.ancestors[0] = abi::Ancestor {
            tgid: 99,
            _pad: 0,
            comm: *b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        };
        KernelEvent {
            head,
            path: path.into(),
            executable: b"/bin/cat".to_vec(),
            ancestors: [b"/bin/sh".to_vec(), Vec::new(), Vec::new(), Vec::new()],
        }
    }

    fn json(event: &KernelEvent) -> serde_json::Value {
        serde_json::to_value(Event::try_from(event).unwrap().detail).unwrap()
    }

    #[test]
    fn file_event_is_typed() {
        let event = Event::try_from(&raw(abi::EVENT_FILE, abi::operation::OPEN, "/etc/shadow")).unwrap();
        assert_eq!(event.action, Action::Denied);
        assert_eq!(
            (event.hook.as_str(), event.executable.as_str()),
            ("open", "/bin/cat")
        );
        assert_eq!(
            event.detail,
            Detail::File {
                permissions: vec!["read".into()],
                path: "/etc/shadow".into()
            }
        );
        assert_eq!(
            event.process.ancestors,
            [Ancestor {
                pid: 99,
                comm: "sh".into(),
                executable: "/bin/sh".into(),
            }]
        );
        assert_eq!(event.fault, None);
    }

    #[test]
    fn shapes_are_those_of_varmor() {
        let mut event = raw(abi::EVENT_CAPABILITY, abi::operation::CAPABLE, "");
        event.head.data[0] = 12;
        assert_eq!(
            json(&event),
            serde_json::json!({"operation": "Capability", "capability": "CAP_NET_ADMIN"})
        );

        let mut event = raw(abi::EVENT_SOCKET, abi::operation::SOCKET_CREATE, "");
        event.head.data = [2, 3, 1, 0];
        assert_eq!(
            json(&event),
            serde_json::json!({"operation": "Network", "type": "socket",
                "socket": {"domain": "inet", "type": "raw", "protocol": "icmp"}})
        );

        let mut event = raw(abi::EVENT_CONNECT, abi::operation::CONNECT, "");
        event.head.data = [0, 0xffff_a9fe_a9fe, 80, 10];
        assert_eq!(
            json(&event),
            serde_json::json!({"operation": "Network", "type": "connect",
                "address": {"ip": "169.254.169.254", "port": 80}})
        );

        let mut event = raw(abi::EVENT_CONNECT, abi::operation::BIND, "");
        event.head.data = [0, 0, 8080, 10];
        assert_eq!(
            json(&event),
            serde_json::json!({"operation": "Network", "type": "listen",
                "address": {"ip": "::", "port": 8080}})
        );

        let mut event = raw(abi::EVENT_MOUNT, abi::operation::MOUNT, "/dev/sda1");
        event.head.data = [1, u64::from_le_bytes(*b"ext4\0\0\0\0"), 0, 0];
        assert_eq!(
            json(&event),
            serde_json::json!({"operation": "Mount", "path": "/dev/sda1", "type": "ext4", "flags": ["ro"]})
        );

        let mut event = raw(abi::EVENT_PTRACE, abi::operation::PTRACE, "");
        event.head.data = [u64::from(abi::PTRACE_TRACE), 77, 1, 0];
        assert_eq!(
            json(&event),
            serde_json::json!({"operation": "Ptrace", "permission": "trace", "external": true, "peerPID": 77})
        );
    }

    #[test]
    fn fault_is_a_denial_with_a_reason() {
        let mut event = raw(abi::EVENT_FILE, abi::operation::OPEN, "/x");
        (event.head.action, event.head.fault) = (abi::ACTION_FAULT, abi::FAULT_DEPTH);
        let event = Event::try_from(&event).unwrap();
        assert_eq!(event.action, Action::Denied);
        assert!(event.fault.unwrap().contains("deeper"));
    }

    #[test]
    fn any_bytes_are_safe() {
        let mut event = raw(abi::EVENT_FILE, 12_345, "/x");
        (event.path, event.executable) = (vec![0xff, 0], vec![0xff; 9]);
        event.head.comm = [0xff; 16];
        let event = Event::try_from(&event).unwrap();
        assert_eq!(
            event.detail,
            Detail::File {
                permissions: vec!["read".into()],
                path: "\\xff\\u{0}".into()
            }
        );
        assert_eq!(
            Event::try_from(&raw(99, 1, "")).unwrap_err(),
            EventError::Kind(99)
        );
        let mut event = raw(abi::EVENT_FILE, 1, "");
        event.head.action = 77;
        assert_eq!(Event::try_from(&event).unwrap_err(), EventError::Action(77));
    }

    #[test]
    fn tail_of_a_path_is_marked() {
        let mut event = raw(abi::EVENT_FILE, abi::operation::OPEN, "/deep/file");
        event.head.tails = 0b111;
        let event = Event::try_from(&event).unwrap();
        assert_eq!(
            serde_json::to_value(&event.detail).unwrap()["path"],
            ".../deep/file"
        );
        assert_eq!(event.executable, ".../bin/cat");
        assert_eq!(event.process.ancestors[0].executable, ".../bin/sh");
    }

    #[test]
    fn control_characters_in_paths_are_escaped() {
        let event = Event::try_from(&raw(abi::EVENT_EXEC, abi::operation::EXEC, "/tmp/a\nb")).unwrap();
        assert_eq!(
            event.detail,
            Detail::Bprm {
                permissions: vec!["read".into()],
                path: "/tmp/a\\u{a}b".into()
            }
        );
    }
}
