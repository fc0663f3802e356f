//! Attempts on devices by their number, under any name.

use std::fs::{self, File, OpenOptions};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::{Mode, SFlag, makedev, mknod, stat},
};
use rustix::mount::{FsOpenFlags, fsconfig_create, fsconfig_set_string, fsopen};

use super::{attempt::Attempt, policies::DEVICES};
use crate::attack::Failure;

/// A loop device, which `stage` has set up: a disk like any other.
const DISK: &str = "/dev/loop0";
const NOTHING: Option<&str> = None;

pub(super) fn attempts() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, DEVICES, run);
    let benign = |name, run| Attempt::benign(name, DEVICES, run);
    vec![
        attack("read a disk", || read(DISK)),
        attack("write a disk", || {
            OpenOptions::new().write(true).open(DISK)?;
            Ok(())
        }),
        attack("read a disk through a node of another name", || {
            read("/open/innocent")
        }),
        attack("make a node of a disk", || {
            let path = format!("/open/node-{}", std::process::id());
            mknod(path.as_str(), SFlag::S_IFBLK, Mode::S_IRUSR, stat(DISK)?.st_rdev)?;
            Ok(fs::remove_file(path)?)
        }),
        attack("mount a disk", || {
            mount(Some(DISK), "/stack", Some("ext2"), MsFlags::empty(), NOTHING)?;
            Ok(umount2("/stack", MntFlags::MNT_DETACH)?)
        }),
        attack("mount a disk by a node of another name", || {
            mount(
                Some("/open/innocent"),
                "/stack",
                Some("ext2"),
                MsFlags::empty(),
                NOTHING,
            )?;
            Ok(umount2("/stack", MntFlags::MNT_DETACH)?)
        }),
        attack("open the filesystem of a disk through the new mount API", || {
            let context = fsopen("ext2", FsOpenFlags::empty()).map_err(failure)?;
            fsconfig_set_string(&context, "source", DISK).map_err(failure)?;
            fsconfig_create(&context).map_err(failure)
        }),
        benign("read another device", || {
            File::open("/dev/zero")?;
            Ok(())
        }),
        benign("make a node of another device", || {
            let path = format!("/open/null-{}", std::process::id());
            mknod(path.as_str(), SFlag::S_IFCHR, Mode::S_IRUSR, makedev(1, 3))?;
            File::open(&path)?;
            Ok(fs::remove_file(path)?)
        }),
        benign("mount what is no disk", || {
            mount(Some("tmpfs"), "/stack", Some("tmpfs"), MsFlags::empty(), NOTHING)?;
            Ok(umount2("/stack", MntFlags::MNT_DETACH)?)
        }),
    ]
}

fn read(path: &str) -> Result<(), Failure> {
    File::open(path)?;
    Ok(())
}

fn failure(errno: rustix::io::Errno) -> Failure {
    nix::errno::Errno::from_raw(errno.raw_os_error()).into()
}
