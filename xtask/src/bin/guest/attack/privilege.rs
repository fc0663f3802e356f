//! Operations that need privileges: mounts, namespaces, other processes, capabilities.

use std::{fs, process::Command};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::RcvBufForce},
    unistd::{gethostname, sethostname},
};

use super::{Failure, Operation};

pub(super) const OPERATIONS: &[Operation] = &[
    Operation::attack("mount", "mount a file system", mount_tmpfs),
    Operation::attack("umount", "unmount a file system", umount_scratch),
    Operation::attack(
        "unshare-read",
        "unshare -Urm, then read /etc/shadow",
        unshare_read,
    ),
    Operation::attack("host-root", "read the host's files through /proc/1/root", || {
        fs::read("/proc/1/root/etc/debian_version")?;
        Ok(())
    }),
    Operation::attack("cap-net-admin", "use CAP_NET_ADMIN", || {
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::empty(), None)?;
        Ok(setsockopt(&socket, RcvBufForce, &65_536)?)
    }),
    Operation::attack("cap-sys-admin", "use CAP_SYS_ADMIN", || {
        Ok(sethostname(gethostname()?)?)
    }),
    Operation::benign("start-thread", "start a thread and a child", || {
        std::thread::spawn(|| ())
            .join()
            .map_err(|_| Failure::Broken("the thread panicked".to_owned()))?;
        Command::new("/usr/bin/true").status()?;
        Ok(())
    }),
];

const NOTHING: Option<&str> = None;

fn mount_tmpfs() -> Result<(), Failure> {
    mount(Some("tmpfs"), "/mnt", Some("tmpfs"), MsFlags::empty(), NOTHING)?;
    Ok(umount2("/mnt", MntFlags::MNT_DETACH)?)
}

fn umount_scratch() -> Result<(), Failure> {
    umount2("/scratch", MntFlags::MNT_DETACH)?;
    Ok(mount(
        Some("tmpfs"),
        "/scratch",
        Some("tmpfs"),
        MsFlags::empty(),
        NOTHING,
    )?)
}

/// What `unshare -Urm cat /etc/shadow` does. This process is alone in its namespaces afterwards and ends.
fn unshare_read() -> Result<(), Failure> {
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", "0 0 1")?;
    fs::write("/proc/self/gid_map", "0 0 1")?;
    fs::read("/etc/shadow")?;
    Ok(())
}
