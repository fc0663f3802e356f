//! What the entries of the table do. Each leaves the guest as it was, and runs in a process of its own.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use nix::{
    errno::Errno,
    libc,
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::{gethostname, sethostname},
};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};

use super::raw;
use crate::attack::Failure;

pub(super) type Done = Result<(), Failure>;

const NOTHING: Option<&str> = None;

pub(super) fn broken(what: &str, error: impl std::fmt::Display) -> Failure {
    Failure::Broken(format!("{what}: {error}"))
}

pub(super) fn read(path: &str) -> Done {
    use std::io::Read;
    // A byte is enough: a disk is large.
    let _ = File::open(path)?.read(&mut [0; 1])?;
    Ok(())
}

/// Opens for writing and changes nothing.
pub(super) fn write(path: &str) -> Done {
    OpenOptions::new().write(true).open(path)?;
    Ok(())
}

pub(super) fn create(path: &str) -> Done {
    File::create(path)?;
    Ok(fs::remove_file(path)?)
}

/// Runs a program; how it ends does not matter, that it began does.
pub(super) fn run(path: &str) -> Done {
    Command::new(path)
        .arg("--help")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    Ok(())
}

/// Runs a copy of this program, which says on its own what became of the operation.
pub(super) fn through(program: &str, operation: &str) -> Done {
    let output = Command::new(program)
        .args(["apparmor", "--operation", operation])
        .output()?;
    match serde_json::from_slice(&output.stdout) {
        Ok(crate::attack::Outcome::Allowed) => Ok(()),
        Ok(crate::attack::Outcome::Denied(detail)) => Err(Failure::Refused(detail)),
        Ok(crate::attack::Outcome::Broken(detail)) => Err(Failure::Broken(detail)),
        Err(error) => Err(broken(program, error)),
    }
}

pub(super) fn mount_new(source: &str, kind: &str) -> Done {
    mount(Some(source), "/mnt", Some(kind), MsFlags::empty(), NOTHING)?;
    Ok(umount2("/mnt", MntFlags::MNT_DETACH)?)
}

pub(super) fn bind(source: &str) -> Done {
    mount(Some(source), "/mnt", NOTHING, MsFlags::MS_BIND, NOTHING)?;
    Ok(umount2("/mnt", MntFlags::MNT_DETACH)?)
}

/// In a mount namespace of its own, so that the mount is there again for others.
pub(super) fn umount_scratch() -> Done {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| broken("unshare", errno))?;
    Ok(umount2("/scratch", MntFlags::MNT_DETACH)?)
}

pub(super) fn host_name() -> Done {
    Ok(sethostname(gethostname()?)?)
}

pub(super) fn change_root() -> Done {
    Ok(nix::unistd::chroot("/")?)
}

/// A text is no module: the kernel says so after it has asked whether it may be loaded.
pub(super) fn load_module() -> Done {
    use std::os::fd::AsRawFd;
    let file = File::open("/srv/file").map_err(|error| broken("open", error))?;
    let mut parameters = [0; 8];
    match raw::with_buffer(
        libc::SYS_finit_module,
        &[i64::from(file.as_raw_fd())],
        1,
        &mut parameters,
    ) {
        Err(Errno::ENOEXEC) => Ok(()),
        Err(errno) => Err(errno.into()),
        Ok(_) => Err(Failure::Broken("the kernel took a text for a module".to_owned())),
    }
}

/// A family that the kernel does not have was still asked about.
pub(super) fn socket(family: u16, kind: SocketType, protocol: u32) -> Done {
    let protocol = std::num::NonZeroU32::new(protocol).map(Protocol::from_raw);
    match socket_with(
        AddressFamily::from_raw(family),
        kind,
        SocketFlags::CLOEXEC,
        protocol,
    ) {
        Ok(_) | Err(rustix::io::Errno::AFNOSUPPORT) => Ok(()),
        Err(error) => Err(Errno::from_raw(error.raw_os_error()).into()),
    }
}

/// A child under another user, which waits until it is killed.
pub(super) fn with_stranger(part: impl FnOnce(i32) -> Done) -> Done {
    let mut child = Command::new("/varmor-guest")
        .arg("wait")
        .uid(super::stage::NOBODY)
        .gid(super::stage::NOBODY)
        // It may outlive us; whoever waits for our output must not wait for it.
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| broken("start a child", error))?;
    let pid = i32::try_from(child.id()).map_err(|error| broken("pid", error))?;
    let done = part(pid);
    // A child that we may not kill ends with us: its pid is unknown to nobody else.
    let killed = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    if killed.is_ok() {
        let _ = child.wait();
    }
    done
}
