//! Operations as words: `open r /etc/shadow`, `connect 169.254.169.254:80`, `capable net_raw`.
//!
//! | words | asks about |
//! |---|---|
//! | `open PERMISSIONS PATH` | opening a file; permissions are letters of `rwa` or a word such as `read` |
//! | `exec PATH` | executing a file |
//! | `unlink`, `create`, `mkdir`, `chmod`, `chown`, `truncate`, with PATH | writing a file or its name |
//! | `rmdir PATH` | taking a folder away, or mounting over it: what lies below has another name then |
//! | `rename PATH [-> PATH]`, `link PATH [-> PATH]` | another name for a file; for a folder write a `/` behind the first path |
//! | `connect ADDRESS:PORT`, `bind ADDRESS:PORT` | a destination, a local address; IPv6 in brackets |
//! | `socket DOMAIN TYPE [PROTOCOL]` | making a socket, in words or numbers |
//! | `capable NAME` | using a capability |
//! | `ptrace trace\|read\|traceby\|readby [inside\|outside]` | looking into a process, outside of the container unless said |
//! | `mount SOURCE [type=NAME] [flags=bind,ro]`, `umount PATH` | mounts |
//! | `userns` | creating a user namespace |
//! | `syscall NAME [ARGUMENT...]` | a system call, arguments as numbers |

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

use crate::abi;
use crate::compile::seccomp::{is_syscall, nearest_syscall};
use crate::policy::suggest::nearest;
use crate::policy::vocabulary as words;
use crate::rules::capability_name;

/// One operation of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    File {
        path: String,
        /// `abi::PERM_*`: a rule that refuses one of them refuses the operation.
        access: u32,
        /// Of these an allow-list must allow those that are asked for.
        within: u32,
    },
    /// A second name, or another one, for a file.
    Rename {
        from: String,
        to: String,
    },
    Connect(IpAddr, u16),
    Bind(IpAddr, u16),
    Socket {
        domain: u32,
        kind: u32,
        protocol: u32,
    },
    Capability(u32),
    Ptrace {
        access: u32,
        outside: bool,
    },
    Mount {
        source: String,
        fstype: Option<String>,
        flags: u32,
    },
    UserNamespace,
    Syscall {
        name: String,
        arguments: [u64; 6],
    },
}

/// Why a text is no operation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}; {help}")]
pub struct OperationError {
    pub message: String,
    pub help: String,
}

const VERBS: [&str; 19] = [
    "open", "exec", "unlink", "create", "mkdir", "rmdir", "rename", "link", "chmod", "chown", "truncate",
    "connect", "bind", "socket", "capable", "ptrace", "mount", "umount", "syscall",
];
/// What changes a file or its name needs the permission to write it.
const CHANGES: [&str; 6] = ["unlink", "create", "mkdir", "chmod", "chown", "truncate"];
const EVERY: u32 = u32::MAX;
/// What an allow-list must allow for giving an object another name: who may read and write it could as well copy it.
pub(super) const AWAY: u32 = abi::PERM_READ | ENTRY;
/// What it must allow for an entry of a folder.
pub(super) const ENTRY: u32 = abi::PERM_WRITE | abi::PERM_STRUCT;

impl FromStr for Operation {
    type Err = OperationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        match verb {
            "open" => {
                let (letters, path) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                file(path, access(letters)?, EVERY)
            }
            "exec" => file(rest, abi::PERM_EXEC, EVERY),
            "rmdir" => file(rest, ENTRY, EVERY),
            "rename" | "link" => another_name(rest),
            "connect" => address(rest).map(|address| Self::Connect(address.ip(), address.port())),
            "bind" => address(rest).map(|address| Self::Bind(address.ip(), address.port())),
            "socket" => socket(rest),
            "capable" => capability(rest),
            "ptrace" => ptrace(rest),
            "mount" => mount(rest),
            "umount" => {
                absolute(rest)?;
                Ok(Self::Mount {
                    source: rest.to_owned(),
                    fstype: None,
                    flags: abi::MOUNT_UMOUNT,
                })
            }
            "userns" if rest.is_empty() => Ok(Self::UserNamespace),
            "syscall" => syscall(rest),
            change if CHANGES.contains(&change) => file(rest, abi::PERM_WRITE, EVERY),
            other => {
                let help = nearest(other, VERBS).map_or_else(
                    || format!("use one of {}, userns", VERBS.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                );
                Err(fail(format!("`{other}` is no operation"), &help))
            }
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, access, .. } if *access == abi::PERM_EXEC => write!(f, "exec {path}"),
            Self::File { path, access, within } if *within == AWAY => {
                let is_folder = access & abi::PERM_STRUCT != 0 && !path.ends_with('/');
                write!(f, "rename {path}{}", if is_folder { "/" } else { "" })
            }
            Self::File { path, access, .. } if access & abi::PERM_STRUCT != 0 => write!(f, "rmdir {path}"),
            Self::File { path, access, .. } => {
                write!(f, "open {} {path}", crate::profile::Access(*access))
            }
            Self::Rename { from, to } => write!(f, "rename {from} -> {to}"),
            Self::Connect(ip, port) => write!(f, "connect {}", SocketAddr::new(*ip, *port)),
            Self::Bind(ip, port) => write!(f, "bind {}", SocketAddr::new(*ip, *port)),
            Self::Socket {
                domain,
                kind,
                protocol,
            } => write!(f, "socket {domain} {kind} {protocol}"),
            Self::Capability(number) => match capability_name(*number) {
                Some(name) => write!(f, "capable {name}"),
                None => write!(f, "capable {number}"),
            },
            Self::Ptrace { access, outside } => {
                let names: Vec<&str> = words::ptrace_names()
                    .filter(|name| words::ptrace_permission(name).is_some_and(|bit| bit & access == bit))
                    .filter(|name| *name != "all")
                    .collect();
                let place = if *outside { "outside" } else { "inside" };
                write!(f, "ptrace {} {place}", names.join(","))
            }
            Self::Mount { source, flags, .. } if *flags == abi::MOUNT_UMOUNT => write!(f, "umount {source}"),
            Self::Mount {
                source,
                fstype,
                flags,
            } => {
                write!(f, "mount {source}")?;
                if let Some(fstype) = fstype {
                    write!(f, " type={fstype}")?;
                }
                if *flags != 0 {
                    write!(f, " flags={flags:#x}")?;
                }
                Ok(())
            }
            Self::UserNamespace => f.write_str("userns"),
            Self::Syscall { name, arguments } => {
                write!(f, "syscall {name}")?;
                let used = arguments
                    .iter()
                    .rposition(|value| *value != 0)
                    .map_or(0, |last| last + 1);
                arguments[..used]
                    .iter()
                    .try_for_each(|value| write!(f, " {value:#x}"))
            }
        }
    }
}

fn fail(message: impl Into<String>, help: &str) -> OperationError {
    OperationError {
        message: message.into(),
        help: help.to_owned(),
    }
}

fn absolute(path: &str) -> Result<(), OperationError> {
    if path.starts_with('/') && !path.contains('\0') {
        Ok(())
    } else {
        Err(fail(format!("`{path}` is no absolute path"), "start it with `/`"))
    }
}

fn file(path: &str, access: u32, within: u32) -> Result<Operation, OperationError> {
    absolute(path)?;
    Ok(Operation::File {
        path: path.to_owned(),
        access,
        within,
    })
}

/// Moving an object away must not free it from its rules, so its old name needs every right.
fn another_name(text: &str) -> Result<Operation, OperationError> {
    match text.split_once(" -> ") {
        Some((from, to)) if !from.ends_with('/') => {
            absolute(from)?;
            absolute(to)?;
            Ok(Operation::Rename {
                from: from.to_owned(),
                to: to.to_owned(),
            })
        }
        Some(_) => Err(fail(
            "where a folder goes decides nothing about it",
            "write `rename FOLDER/`, and `mkdir PATH` for its new name",
        )),
        None => {
            let folder = if text.ends_with('/') { abi::PERM_STRUCT } else { 0 };
            file(text, abi::PERM_ALL | folder, AWAY)
        }
    }
}

fn access(text: &str) -> Result<u32, OperationError> {
    // Writing is asked for alone: a task that opens for writing does not ask to append.
    let bit = |letter| match letter {
        'r' => Some(abi::PERM_READ),
        'w' => Some(abi::PERM_WRITE),
        'a' => Some(abi::PERM_APPEND),
        'x' => Some(abi::PERM_EXEC),
        _ => None,
    };
    let word = match text {
        "read" => Some(abi::PERM_READ),
        "write" => Some(abi::PERM_WRITE),
        "append" => Some(abi::PERM_APPEND),
        _ => text
            .chars()
            .map(bit)
            .try_fold(0, |all, one| one.map(|one| all | one)),
    };
    word.filter(|bits| *bits != 0).ok_or_else(|| {
        fail(
            format!("`{text}` are no permissions"),
            "write for example `open r /etc/shadow` or `open rw /tmp/x`",
        )
    })
}

fn address(text: &str) -> Result<SocketAddr, OperationError> {
    text.parse().map_err(|_| {
        fail(
            format!("`{text}` is no address with a port"),
            "write 192.0.2.1:80 or [2001:db8::1]:80",
        )
    })
}

fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let value = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => text.parse().ok()?,
    };
    T::try_from(value).ok()
}

fn socket(text: &str) -> Result<Operation, OperationError> {
    let mut parts = text.split_whitespace();
    let help = "write for example `socket inet stream tcp` or `socket 2 1 6`";
    let mut next = |what: &str, find: fn(&str) -> Option<u32>| {
        let word = parts
            .next()
            .ok_or_else(|| fail(format!("the {what} of the socket is missing"), help))?;
        let word = word.trim_start_matches("AF_").trim_start_matches("SOCK_");
        find(word)
            .or_else(|| number(word))
            .ok_or_else(|| fail(format!("`{word}` is no {what} of a socket"), help))
    };
    let domain = next("domain", words::domain)?;
    let kind = next("type", words::socket_type)?;
    let protocol = match parts.next() {
        None => 0,
        Some(word) => words::protocols(word)
            .and_then(|numbers| numbers.first().copied())
            .or_else(|| number(word))
            .ok_or_else(|| fail(format!("`{word}` is no protocol"), help))?,
    };
    Ok(Operation::Socket {
        domain,
        kind,
        protocol,
    })
}

fn capability(text: &str) -> Result<Operation, OperationError> {
    words::capabilities(text)
        .filter(|set| set.0.is_power_of_two())
        .map(|set| Operation::Capability(set.0.trailing_zeros()))
        .ok_or_else(|| {
            fail(
                format!("`{text}` is no capability"),
                "write for example `capable net_raw`",
            )
        })
}

fn ptrace(text: &str) -> Result<Operation, OperationError> {
    let (word, place) = text.split_once(char::is_whitespace).unwrap_or((text, "outside"));
    let access = words::ptrace_permission(word).ok_or_else(|| {
        fail(
            format!("`{word}` is no access"),
            "use trace, read, traceby or readby",
        )
    })?;
    let outside = match place.trim() {
        "outside" => true,
        "inside" => false,
        other => {
            return Err(fail(
                format!("`{other}` is no place"),
                "use inside or outside, of the container",
            ));
        }
    };
    Ok(Operation::Ptrace { access, outside })
}

fn mount(text: &str) -> Result<Operation, OperationError> {
    let mut parts = text.split_whitespace();
    let source = parts.next().ok_or_else(|| {
        fail(
            "the source of the mount is missing",
            "write `mount proc type=proc`",
        )
    })?;
    let (mut fstype, mut flags) = (None, 0);
    for part in parts {
        match part.split_once('=') {
            Some(("type", name)) => fstype = Some(name.to_owned()),
            Some(("flags", names)) => {
                for name in names.split(',') {
                    flags |= number(name)
                        .or_else(|| words::mount_flag(name).map(|flag| flag.any))
                        .ok_or_else(|| {
                            fail(
                                format!("`{name}` is no mount flag"),
                                "use ro, bind, move, remount ...",
                            )
                        })?;
                }
            }
            _ => {
                return Err(fail(
                    format!("`{part}` is not understood"),
                    "use type=NAME and flags=A,B",
                ));
            }
        }
    }
    Ok(Operation::Mount {
        source: source.to_owned(),
        fstype,
        flags,
    })
}

fn syscall(text: &str) -> Result<Operation, OperationError> {
    let mut parts = text.split_whitespace();
    let name = parts.next().unwrap_or_default();
    if !is_syscall(name) {
        let help = nearest_syscall(name).map_or_else(
            || "write for example `syscall unshare 0x10000000`".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(fail(format!("there is no system call `{name}`"), &help));
    }
    let mut arguments = [0; 6];
    let mut slots = arguments.iter_mut();
    for part in parts {
        let value =
            number(part).ok_or_else(|| fail(format!("`{part}` is no number"), "use decimal or 0x..."))?;
        *slots
            .next()
            .ok_or_else(|| fail("a system call has at most six arguments", "remove some"))? = value;
    }
    Ok(Operation::Syscall {
        name: name.to_owned(),
        arguments,
    })
}
