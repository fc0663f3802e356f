//! Attempts to change attributes of files: extended ones, ACLs, times, flags.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::chown,
};

use nix::mount::{MsFlags, mount};
use rustix::fs::{
    AtFlags, CWD, IFlags, Timespec, Timestamps, UTIME_NOW, XattrFlags, fremovexattr, fsetxattr, futimens,
    ioctl_getflags, ioctl_setflags, removexattr, setxattr, utimensat,
};

use super::{
    attempt::Attempt,
    policies::{ATTRIBUTES, NO_CAPABILITY},
};
use crate::attack::Failure;

const PROTECTED: &str = "/disk/ro/file";
const FREE: &str = "/disk/free/file";
const NAME: &str = "trusted.lab";
const ACL: &str = "system.posix_acl_access";
const NOTHING: Option<&str> = None;

pub(super) fn attempts() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, ATTRIBUTES, run);
    let benign = |name, run| Attempt::benign(name, ATTRIBUTES, run);
    vec![
        attack("set an extended attribute of a protected file", || {
            xattr(PROTECTED)
        }),
        attack("set an extended attribute through a descriptor", || {
            let file = File::open(PROTECTED)?;
            fsetxattr(&file, NAME, b"value", XattrFlags::empty()).map_err(failure)?;
            fremovexattr(&file, NAME).map_err(failure)
        }),
        attack(
            "remove an extended attribute of a protected file",
            || match removexattr(PROTECTED, "trusted.none") {
                Err(rustix::io::Errno::NODATA) => Ok(()),
                other => other.map_err(failure),
            },
        ),
        attack("set an extended attribute in a new mount namespace", || {
            own_namespace()?;
            xattr(PROTECTED)
        }),
        attack("set the ACL of a protected file", || acl(PROTECTED)),
        attack("set the times of a protected file", || times(PROTECTED, Some(7))),
        attack("touch a protected file", || times(PROTECTED, None)),
        attack("set the times through a descriptor", || {
            let file = File::open(PROTECTED)?;
            futimens(&file, &stamps(Some(7))).map_err(failure)
        }),
        attack("change the owner of a protected file on a disk", || {
            Ok(chown(PROTECTED, Some(0), Some(0))?)
        }),
        attack("change the flags of a protected file", || flags(PROTECTED)),
        benign("set an extended attribute elsewhere", || xattr(FREE)),
        benign("set an ACL elsewhere", || acl(FREE)),
        benign("set times elsewhere", || {
            times(FREE, Some(7))?;
            times(FREE, None)
        }),
        benign("change the owner elsewhere", || {
            Ok(chown(FREE, Some(0), Some(0))?)
        }),
        benign("change flags elsewhere", || flags(FREE)),
        benign("set times of a memory file", || {
            let file = rustix::fs::memfd_create("lab", rustix::fs::MemfdFlags::empty()).map_err(failure)?;
            futimens(&file, &stamps(Some(7))).map_err(failure)
        }),
        benign("copy a file up whose layer is protected", || {
            // The copy takes the attributes along, in the layer that a rule protects by its own name.
            let path = format!("/ovl/copied-{}", std::process::id() % 3);
            OpenOptions::new().append(true).open(&path)?;
            xattr(&path)?;
            times(&path, Some(9))
        }),
        Attempt::benign(
            "set attributes on overlayfs without capabilities",
            NO_CAPABILITY,
            || times("/ovl/file", Some(7)),
        ),
    ]
}

fn xattr(path: &str) -> Result<(), Failure> {
    setxattr(path, NAME, b"value", XattrFlags::empty()).map_err(failure)?;
    removexattr(path, NAME).map_err(failure)
}

/// An ACL that says what the mode says.
fn acl(path: &str) -> Result<(), Failure> {
    const VERSION: u32 = 2;
    const UNDEFINED: u32 = u32::MAX;
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (tag, permissions) in [(0x01_u16, 6_u16), (0x04, 4), (0x20, 4)] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(UNDEFINED.to_le_bytes());
    }
    setxattr(path, ACL, &bytes, XattrFlags::empty()).map_err(failure)
}

fn times(path: &str, seconds: Option<i64>) -> Result<(), Failure> {
    utimensat(CWD, path, &stamps(seconds), AtFlags::empty()).map_err(failure)
}

/// A time, or now.
fn stamps(seconds: Option<i64>) -> Timestamps {
    let time = Timespec {
        tv_sec: seconds.unwrap_or(0),
        tv_nsec: if seconds.is_some() { 0 } else { UTIME_NOW },
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn flags(path: &str) -> Result<(), Failure> {
    let file = File::open(path)?;
    let before = ioctl_getflags(&file).map_err(failure)?;
    ioctl_setflags(&file, before | IFlags::NODUMP).map_err(failure)?;
    ioctl_setflags(&file, before).map_err(failure)
}

fn own_namespace() -> Result<(), Failure> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
    Ok(mount(
        NOTHING,
        "/",
        NOTHING,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        NOTHING,
    )?)
}

fn failure(errno: rustix::io::Errno) -> Failure {
    nix::errno::Errno::from_raw(errno.raw_os_error()).into()
}
