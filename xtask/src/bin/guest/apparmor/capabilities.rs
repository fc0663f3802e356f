//! One operation for each capability that needs it and no other.

use std::{
    fs::{self, File},
    io::Read,
    net::TcpListener,
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
};

use nix::{
    errno::Errno,
    libc,
    sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::RcvBufForce},
    unistd::{Gid, Uid, setegid, seteuid, setgid, setuid},
};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::{
    entry::Entry,
    operations::{Done, broken, change_root, host_name, load_module, read, with_stranger},
    raw,
    stage::NOBODY,
};
use crate::attack::Failure;

const AF_INET: u16 = 2;

/// The neighbour of every rule about one capability is another one.
const fn rule(id: &'static str, forbidden: fn() -> Done) -> Entry {
    Entry::new(id, forbidden, change_root)
}

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("disable-cap-all", host_name, || read("/srv/file")),
    Entry::new("disable-cap-all-except-net-bind-service", host_name, bind_80),
    rule("disable-cap-privileged", host_name),
    rule("disable-cap-chown", || {
        Ok(std::os::unix::fs::chown("/srv/file", Some(NOBODY), None)?)
    }),
    rule("disable-cap-dac-override", || {
        fs::OpenOptions::new().write(true).open("/srv/nobodys")?;
        Ok(())
    }),
    rule("disable-cap-dac-read-search", || {
        let mount = File::open("/disk").map_err(|error| broken("open", error))?;
        raw::open_by_handle(c"/disk/file", &mount)?;
        Ok(())
    }),
    rule("disable-cap-fowner", || {
        Ok(fs::set_permissions(
            "/srv/nobodys",
            fs::Permissions::from_mode(0o600),
        )?)
    }),
    rule("disable-cap-fsetid", keep_set_group_id),
    rule("disable-cap-kill", || {
        with_stranger(|pid| Ok(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None)?))
    }),
    rule("disable-cap-setgid", || Ok(setgid(Gid::from_raw(NOBODY))?)),
    rule("disable-cap-setuid", || Ok(setuid(Uid::from_raw(NOBODY))?)),
    rule("disable-cap-setpcap", || {
        // PR_CAPBSET_DROP, CAP_WAKE_ALARM
        raw::numbers(libc::SYS_prctl, &[24, 35])?;
        Ok(())
    }),
    rule("disable-cap-linux-immutable", || {
        let file = File::open("/disk/file").map_err(|error| broken("open", error))?;
        let flags = rustix::fs::ioctl_getflags(&file).map_err(|error| broken("flags", error))?;
        rustix::fs::ioctl_setflags(&file, flags | rustix::fs::IFlags::APPEND).map_err(of_rustix)?;
        rustix::fs::ioctl_setflags(&file, flags).map_err(of_rustix)
    }),
    Entry::new("disable-cap-net-bind-service", bind_80, change_root),
    rule("disable-cap-net-broadcast", || {
        let socket = netlink(0)?;
        let mut one = 1_i32.to_ne_bytes();
        // SOL_NETLINK, NETLINK_LISTEN_ALL_NSID
        raw::with_buffer(libc::SYS_setsockopt, &[socket, 270, 8, 0, 4], 3, &mut one)?;
        Ok(())
    }),
    rule("disable-cap-net-admin", || {
        let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::empty(), None)
            .map_err(|errno| broken("socket", errno))?;
        Ok(setsockopt(&socket, RcvBufForce, &65_536)?)
    }),
    rule("disable-cap-net-raw", || {
        super::operations::socket(AF_INET, rustix::net::SocketType::RAW, 1)
    }),
    rule("disable-cap-ipc-lock", lock_memory),
    rule("disable-cap-ipc-owner", read_foreign_queue),
    rule("disable-cap-sys-module", load_module),
    rule("disable-cap-sys-rawio", || {
        raw::numbers(libc::SYS_ioperm, &[0x80, 1, 1])?;
        Ok(())
    }),
    Entry::new("disable-cap-sys-chroot", change_root, host_name),
    rule("disable-cap-sys-ptrace", || {
        with_stranger(|pid| {
            nix::sys::ptrace::seize(
                nix::unistd::Pid::from_raw(pid),
                nix::sys::ptrace::Options::empty(),
            )?;
            Ok(())
        })
    }),
    rule("disable-cap-sys-pacct", || {
        raw::numbers(libc::SYS_acct, &[0])?;
        Ok(())
    }),
    rule("disable-cap-sys-admin", host_name),
    rule("disable-cap-sys-boot", || {
        // Ctrl-Alt-Del sends a signal from now on, as it does anyway.
        raw::numbers(libc::SYS_reboot, &[0xfee1_dead, 672_274_793, 0])?;
        Ok(())
    }),
    rule("disable-cap-sys-nice", || {
        raw::numbers(libc::SYS_setpriority, &[0, 0, -5])?;
        Ok(())
    }),
    rule("disable-cap-sys-resource", raise_limit),
    rule("disable-cap-sys-time", || {
        let mut zone = [0; 8];
        raw::with_buffer(libc::SYS_settimeofday, &[0, 0], 1, &mut zone)?;
        Ok(())
    }),
    rule("disable-cap-sys-tty-config", || {
        // Without a terminal there is nothing to hang up.
        nix::unistd::setsid().map_err(|errno| broken("setsid", errno))?;
        raw::numbers(libc::SYS_vhangup, &[])?;
        Ok(())
    }),
    rule("disable-cap-mknod", || {
        let (kind, mode) = (nix::sys::stat::SFlag::S_IFCHR, nix::sys::stat::Mode::S_IRUSR);
        nix::sys::stat::mknod("/tmp/null", kind, mode, nix::sys::stat::makedev(1, 3))?;
        Ok(fs::remove_file("/tmp/null")?)
    }),
    rule("disable-cap-lease", || {
        let file = File::open("/srv/nobodys").map_err(|error| broken("open", error))?;
        // F_SETLEASE, F_RDLCK
        raw::numbers(libc::SYS_fcntl, &[i64::from(file.as_raw_fd()), 1024, 0])?;
        Ok(())
    }),
    // AUDIT_USER
    rule("disable-cap-audit-write", || audit_message(1005)),
    // AUDIT_GET
    rule("disable-cap-audit-control", || audit_message(1000)),
    rule("disable-cap-setfcap", || {
        // Version 2, CAP_CHOWN permitted.
        let value = [0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let name = "security.capability";
        rustix::fs::setxattr("/scratch/file", name, &value, rustix::fs::XattrFlags::empty())
            .map_err(of_rustix)?;
        rustix::fs::removexattr("/scratch/file", name).map_err(of_rustix)
    }),
    rule("disable-cap-mac-override", || Ok(()))
        .unless(|| Some("nothing in this kernel asks for CAP_MAC_OVERRIDE: only Smack does".to_owned())),
    rule("disable-cap-mac-admin", || {
        let policy = "/sys/kernel/security/apparmor/policy";
        let namespace = format!("{policy}/namespaces/of-a-container");
        remove_profile("/sys/kernel/security/apparmor/.remove")
            .or_else(|_| remove_profile(&format!("{policy}/.remove")))
            .or_else(|_| fs::create_dir(&namespace).and_then(|()| fs::remove_dir(&namespace)))?;
        Ok(())
    }),
    rule("disable-cap-syslog", || {
        without_administrator()?;
        // SYSLOG_ACTION_CONSOLE_LEVEL
        raw::numbers(libc::SYS_syslog, &[8, 0, 7])?;
        Ok(())
    }),
    rule("disable-cap-wake-alarm", || {
        // CLOCK_BOOTTIME_ALARM; without a clock that wakes the machine there is no timer, after the question.
        match raw::numbers(libc::SYS_timerfd_create, &[9, 0]) {
            Ok(_) | Err(Errno::EOPNOTSUPP) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }),
    rule("disable-cap-block-suspend", keep_awake),
    rule("disable-cap-audit-read", || {
        let socket = netlink(9)?;
        // struct sockaddr_nl: family, padding, port, groups.
        let mut address = [16, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        raw::with_buffer(libc::SYS_bind, &[socket, 0, 12], 1, &mut address)?;
        Ok(())
    }),
    rule("disable-cap-perfmon", || {
        without_administrator()?;
        // struct perf_event_attr: software event "cpu clock", of every process on processor 0.
        let mut attributes = [0; 128];
        attributes[..8].copy_from_slice(&[1, 0, 0, 0, 112, 0, 0, 0]);
        raw::with_buffer(libc::SYS_perf_event_open, &[0, -1, 0, -1, 0], 0, &mut attributes)?;
        Ok(())
    }),
    rule("disable-cap-bpf", || {
        without_administrator()?;
        Ok(raw::load_bpf_program()?)
    }),
    rule("disable-cap-checkpoint-restore", || {
        without_administrator()?;
        let path = "/proc/sys/kernel/ns_last_pid";
        let last = fs::read(path).map_err(|error| broken("read", error))?;
        Ok(fs::write(path, last)?)
    }),
];

/// Asks AppArmor to remove a profile that is not there.
fn remove_profile(file: &str) -> std::io::Result<()> {
    match fs::write(file, "no-such-profile") {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn of_rustix(error: rustix::io::Errno) -> Failure {
    Errno::from_raw(error.raw_os_error()).into()
}

/// Gives up the capability that stands for several newer ones.
fn without_administrator() -> Done {
    let mut sets = capabilities(None).map_err(|error| broken("capget", error))?;
    sets.effective -= CapabilitySet::SYS_ADMIN;
    sets.permitted -= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets).map_err(|error| broken("capset", error))
}

fn bind_80() -> Done {
    TcpListener::bind("127.0.0.1:80")?;
    Ok(())
}

/// Without the capability the bit is dropped, and nothing is said.
fn keep_set_group_id() -> Done {
    let path = "/scratch/set-group-id";
    let result = (|| {
        File::create(path).map_err(|error| broken("create", error))?;
        std::os::unix::fs::chown(path, None, Some(NOBODY)).map_err(|error| broken("chown", error))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o2755))
            .map_err(|error| broken("chmod", error))?;
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o2000 == 0 {
            return Err(Failure::Refused("the bit was dropped".to_owned()));
        }
        Ok(())
    })();
    let _ = fs::remove_file(path);
    result
}

fn lock_memory() -> Done {
    use nix::libc::RLIMIT_MEMLOCK;
    let mut none = [0; 16];
    raw::with_buffer(
        libc::SYS_prlimit64,
        &[0, i64::from(RLIMIT_MEMLOCK), 0, 0],
        2,
        &mut none,
    )
    .map_err(|errno| broken("prlimit", errno))?;
    let mut page = vec![0; 8192];
    raw::with_buffer(libc::SYS_mlock, &[0, 4096], 0, &mut page)?;
    Ok(())
}

/// A queue that another user has made.
fn read_foreign_queue() -> Done {
    setegid(Gid::from_raw(NOBODY)).map_err(|errno| broken("setegid", errno))?;
    seteuid(Uid::from_raw(NOBODY)).map_err(|errno| broken("seteuid", errno))?;
    let queue = raw::numbers(libc::SYS_msgget, &[0, 0o600]).map_err(|errno| broken("msgget", errno))?;
    seteuid(Uid::from_raw(0)).map_err(|errno| broken("seteuid back", errno))?;
    setegid(Gid::from_raw(0)).map_err(|errno| broken("setegid back", errno))?;
    let mut about = [0; 256];
    // IPC_STAT
    let read = raw::with_buffer(libc::SYS_msgctl, &[queue, 2], 2, &mut about);
    // IPC_RMID; CAP_SYS_ADMIN is enough for it.
    let _ = raw::numbers(libc::SYS_msgctl, &[queue, 0, 0]);
    read?;
    Ok(())
}

fn raise_limit() -> Done {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = |most| Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(512);
    let lower = hard.min(512);
    setrlimit(Resource::Nofile, limit(lower)).map_err(|error| broken("setrlimit", error))?;
    setrlimit(Resource::Nofile, limit(lower + 1)).map_err(of_rustix)
}

fn netlink(protocol: i64) -> Result<i64, Failure> {
    let (family, kind) = (i64::from(libc::AF_NETLINK), i64::from(libc::SOCK_RAW));
    raw::numbers(libc::SYS_socket, &[family, kind, protocol]).map_err(|errno| broken("socket", errno))
}

/// Sends a message to the kernel's audit and reads its answer.
fn audit_message(kind: u16) -> Done {
    const NETLINK_AUDIT: i64 = 9;
    let socket = netlink(NETLINK_AUDIT)?;
    // struct nlmsghdr: length, type, NLM_F_REQUEST and NLM_F_ACK, sequence, port; then a text.
    let mut message = [0_u8; 32];
    message[0] = 32;
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6] = 5;
    message[16..20].copy_from_slice(b"test");
    raw::with_buffer(libc::SYS_sendto, &[socket, 0, 32, 0, 0, 0], 1, &mut message)?;
    let mut answer = [0_u8; 4096];
    raw::with_buffer(libc::SYS_recvfrom, &[socket, 0, 4096, 0, 0, 0], 1, &mut answer)
        .map_err(|errno| broken("recv", errno))?;
    // NLMSG_ERROR carries an errno, zero if all is well.
    let is_error = u16::from_ne_bytes([answer[4], answer[5]]) == 2;
    let code = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    if is_error && code != 0 {
        return Err(Errno::from_raw(-code).into());
    }
    Ok(())
}

/// Without the capability the flag is dropped, and nothing is said.
fn keep_awake() -> Done {
    const EPOLLWAKEUP: u32 = 1 << 29;
    let poll = raw::numbers(libc::SYS_epoll_create1, &[0]).map_err(|errno| broken("epoll", errno))?;
    let watched = raw::numbers(libc::SYS_eventfd2, &[0, 0]).map_err(|errno| broken("eventfd", errno))?;
    let mut event = [0_u8; 16];
    event[..4].copy_from_slice(&(EPOLLWAKEUP | 1).to_ne_bytes());
    raw::with_buffer(libc::SYS_epoll_ctl, &[poll, 1, watched, 0], 3, &mut event)
        .map_err(|errno| broken("epoll_ctl", errno))?;
    let mut text = String::new();
    File::open(format!("/proc/self/fdinfo/{poll}"))
        .and_then(|mut file| file.read_to_string(&mut text))
        .map_err(|error| broken("fdinfo", error))?;
    let events = text.split_once("events:").map(|(_, rest)| rest.trim_start());
    let mask = events.and_then(|rest| {
        let word = rest.split_whitespace().next()?;
        u32::from_str_radix(word, 16).ok()
    });
    match mask {
        Some(mask) if mask & EPOLLWAKEUP != 0 => Ok(()),
        Some(_) => Err(Failure::Refused("the flag was dropped".to_owned())),
        None => Err(Failure::Broken(text)),
    }
}
