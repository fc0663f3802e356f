//! The operations: what is done, and the questions that `varmor explain` is asked about it.

use std::{
    fs::{self, File, OpenOptions},
    io,
    net::SocketAddr,
    os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, lchown, symlink},
    process::{Command, Stdio},
};

use nix::{
    errno::Errno,
    libc,
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::{ptrace, signal, wait::waitpid},
    unistd::{Gid, Pid, Uid, chroot, gethostname, setgid, sethostname, setuid},
};
use serde::{Deserialize, Serialize};

use super::{raw, stage};

/// One operation with the words of `varmor explain` for it: the kernel refuses it if one of these is denied.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Operation {
    pub(super) act: Act,
    pub(super) asks: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Act {
    /// Flags of open(2).
    Open {
        path: String,
        flags: i32,
    },
    Unlink {
        path: String,
    },
    Mkdir {
        path: String,
    },
    Rmdir {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Link {
        from: String,
        to: String,
    },
    Symlink {
        path: String,
    },
    Chmod {
        path: String,
    },
    Chown {
        path: String,
    },
    Truncate {
        path: String,
    },
    Exec {
        path: String,
    },
    Connect {
        to: SocketAddr,
        stream: bool,
    },
    Send {
        to: SocketAddr,
    },
    Bind {
        at: SocketAddr,
        stream: bool,
    },
    Socket {
        domain: i32,
        kind: i32,
        protocol: i32,
    },
    /// At `stage::FREE`, in a mount namespace of its own.
    Mount {
        source: String,
        fstype: Option<String>,
        flags: u64,
    },
    Umount {
        path: String,
    },
    Capable {
        name: String,
    },
    /// Of a child, or of a process outside of the policy.
    Ptrace {
        attach: bool,
        outside: Option<i32>,
    },
    UserNamespace,
}

impl Act {
    /// For the counts.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Unlink { .. } => "unlink",
            Self::Mkdir { .. } => "mkdir",
            Self::Rmdir { .. } => "rmdir",
            Self::Rename { .. } => "rename",
            Self::Link { .. } => "link",
            Self::Symlink { .. } => "symlink",
            Self::Chmod { .. } => "chmod",
            Self::Chown { .. } => "chown",
            Self::Truncate { .. } => "truncate",
            Self::Exec { .. } => "exec",
            Self::Connect { .. } => "connect",
            Self::Send { .. } => "send",
            Self::Bind { .. } => "bind",
            Self::Socket { .. } => "socket",
            Self::Mount { .. } => "mount",
            Self::Umount { .. } => "umount",
            Self::Capable { .. } => "capable",
            Self::Ptrace { .. } => "ptrace",
            Self::UserNamespace => "userns",
        }
    }

    /// What the kernel says to it.
    pub(super) fn outcome(&self) -> Outcome {
        match self.run() {
            Ok(()) => Outcome::Allowed,
            Err(Errno::EPERM | Errno::EACCES) => Outcome::Denied,
            Err(errno) => Outcome::Failed(errno as i32),
        }
    }

    fn run(&self) -> nix::Result<()> {
        match self {
            Self::Open { path, flags } => open(path, *flags),
            Self::Unlink { path } => fs::remove_file(path).map_err(errno),
            Self::Mkdir { path } => fs::create_dir(path).map_err(errno),
            Self::Rmdir { path } => fs::remove_dir(path).map_err(errno),
            Self::Rename { from, to } => fs::rename(from, to).map_err(errno),
            Self::Link { from, to } => fs::hard_link(from, to).map_err(errno),
            Self::Symlink { path } => symlink("nowhere", path).map_err(errno),
            Self::Chmod { path } => {
                fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(errno)
            }
            Self::Chown { path } => lchown(path, Some(0), Some(0)).map_err(errno),
            Self::Truncate { path } => nix::unistd::truncate(path.as_str(), 3),
            Self::Exec { path } => exec(path),
            Self::Connect { to, stream } => {
                let socket = inet(*to, *stream)?;
                match raw::with_address(raw::Addressed::Connect, &socket, &bytes(*to)) {
                    // It was asked and nobody listens, or it goes on.
                    Err(Errno::EINPROGRESS | Errno::ECONNREFUSED) => Ok(()),
                    said => said,
                }
            }
            Self::Send { to } => raw::with_address(raw::Addressed::Send, &inet(*to, false)?, &bytes(*to)),
            Self::Bind { at, stream } => {
                raw::with_address(raw::Addressed::Bind, &inet(*at, *stream)?, &bytes(*at))
            }
            Self::Socket {
                domain,
                kind,
                protocol,
            } => raw::socket(*domain, *kind, *protocol).map(drop),
            Self::Mount {
                source,
                fstype,
                flags,
            } => in_namespace(|| {
                let flags = MsFlags::from_bits_retain(*flags);
                // A remount and a change of propagation are about what is there.
                let place = if flags.intersects(MsFlags::MS_REMOUNT | MsFlags::MS_PRIVATE) {
                    stage::MOUNTED
                } else {
                    stage::FREE
                };
                mount(
                    Some(source.as_str()),
                    place,
                    fstype.as_deref(),
                    flags,
                    None::<&str>,
                )
            }),
            Self::Umount { path } => in_namespace(|| umount2(path.as_str(), MntFlags::MNT_DETACH)),
            Self::Capable { name } => capable(name),
            Self::Ptrace { attach, outside } => peer(*attach, *outside),
            Self::UserNamespace => raw::in_child(|| unshare(CloneFlags::CLONE_NEWUSER)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Allowed,
    Denied,
    /// With this errno.
    Failed(i32),
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn errno(error: io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

fn open(path: &str, flags: i32) -> nix::Result<()> {
    let mode = flags & libc::O_ACCMODE;
    OpenOptions::new()
        .read(mode != libc::O_WRONLY)
        .write(mode != libc::O_RDONLY)
        .custom_flags(flags & !libc::O_ACCMODE)
        .open(path)
        .map(drop)
        .map_err(errno)
}

/// That it begins is enough.
fn exec(path: &str) -> nix::Result<()> {
    let mut child = Command::new(path)
        .arg("--help")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(errno)?;
    child.kill().map_err(errno)?;
    child.wait().map(drop).map_err(errno)
}

fn inet(address: SocketAddr, stream: bool) -> nix::Result<std::os::fd::OwnedFd> {
    let domain = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = if stream {
        libc::SOCK_STREAM
    } else {
        libc::SOCK_DGRAM
    };
    raw::socket(domain, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0)
}

/// As an address holds them.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// `struct sockaddr_in` or `struct sockaddr_in6`.
fn bytes(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(v4) => {
            let family = AF_INET.to_ne_bytes();
            [&family[..], &port, &v4.ip().octets(), &[0; 8]].concat()
        }
        SocketAddr::V6(v6) => {
            let family = AF_INET6.to_ne_bytes();
            [&family[..], &port, &[0; 4], &v6.ip().octets(), &[0; 4]].concat()
        }
    }
}

/// The mounts of others stay as they are.
fn in_namespace(part: impl FnOnce() -> nix::Result<()>) -> nix::Result<()> {
    raw::in_child(|| {
        unshare(CloneFlags::CLONE_NEWNS)?;
        part()
    })
}

/// What needs the capability, and no other that a policy could refuse alone.
fn capable(name: &str) -> nix::Result<()> {
    const NOBODY: u32 = 65534;
    let nobody = || Pid::from_raw(1);
    match name {
        "sys_admin" => sethostname(gethostname()?),
        "sys_chroot" => raw::in_child(|| chroot("/")),
        "sys_nice" => raw::in_child(|| raw::numbers(libc::SYS_setpriority, &[0, 0, -1]).map(drop)),
        "setuid" => raw::in_child(|| setuid(Uid::from_raw(NOBODY))),
        "setgid" => raw::in_child(|| setgid(Gid::from_raw(NOBODY))),
        // PR_CAPBSET_DROP, CAP_WAKE_ALARM
        "setpcap" => raw::in_child(|| raw::numbers(libc::SYS_prctl, &[24, 35]).map(drop)),
        "sys_time" => raw::set_clock(),
        "sys_resource" => raw::in_child(raw::raise_limit),
        "sys_module" => match raw::delete_module() {
            Err(Errno::ENOENT) => Ok(()),
            said => said,
        },
        // LINUX_REBOOT_CMD_CAD_OFF: what Ctrl-Alt-Del does
        "sys_boot" => raw::numbers(libc::SYS_reboot, &[0xfee1_dead, 672_274_793, 0]).map(drop),
        "dac_override" => OpenOptions::new()
            .write(true)
            .open(stage::NOBODYS)
            .map(drop)
            .map_err(errno),
        "fowner" => fs::set_permissions(stage::NOBODYS, fs::Permissions::from_mode(0o600)).map_err(errno),
        "chown" => chown(stage::NOBODYS, Some(NOBODY), Some(0))
            .and_then(|()| chown(stage::NOBODYS, Some(NOBODY), Some(NOBODY)))
            .map_err(errno),
        "net_raw" => raw::socket(libc::AF_INET, libc::SOCK_RAW, 1).map(drop),
        "net_bind_service" => {
            let at: SocketAddr = ([127, 0, 0, 1], 99).into();
            raw::with_address(raw::Addressed::Bind, &inet(at, false)?, &bytes(at))
        }
        "kill" => raw::in_child(|| {
            setuid(Uid::from_raw(NOBODY))?;
            // Without the capability a stranger may not be asked for.
            match signal::kill(nobody(), None) {
                Err(Errno::EPERM) => Ok(()),
                said => said,
            }
        }),
        _ => Err(Errno::ENOSYS),
    }
}

fn peer(attach: bool, outside: Option<i32>) -> nix::Result<()> {
    let child = match outside {
        Some(_) => None,
        None => Some(raw::sleeper()?),
    };
    let pid = child.unwrap_or_else(|| Pid::from_raw(outside.unwrap_or(1)));
    let said = if attach {
        ptrace::attach(pid).and_then(|()| {
            waitpid(pid, None)?;
            ptrace::detach(pid, None)
        })
    } else {
        // PTRACE_MODE_READ, and no path is opened.
        fs::read_link(format!("/proc/{pid}/exe")).map(drop).map_err(errno)
    };
    if let Some(child) = child {
        signal::kill(child, signal::Signal::SIGKILL)?;
        waitpid(child, None)?;
    }
    said
}

/// Whether a file can be made where there is none yet.
pub(super) fn touch(path: &str) -> io::Result<()> {
    File::create(path).map(drop)
}
