//! Attempts to mount, unmount, and to reach files on mounts that are nowhere.

use std::os::fd::OwnedFd;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsmount,
        fsopen, move_mount, open_tree,
    },
};

use super::{
    attempt::Attempt,
    policies::{RULES, RUNTIME_DEFAULT},
};
use crate::attack::Failure;

const NOTHING: Option<&str> = None;

pub(super) fn attempts() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, RULES, run);
    vec![
        attack("mount a file system", mount_tmpfs),
        attack("mount with a flag bit that means unmount inside", || {
            mount(
                Some("tmpfs"),
                "/stack",
                Some("tmpfs"),
                MsFlags::from_bits_retain(0x200),
                NOTHING,
            )?;
            Ok(umount2("/stack", MntFlags::MNT_DETACH)?)
        }),
        attack("bind a folder by a relative path", || {
            std::env::set_current_dir("/")?;
            mount(Some("open"), "/stack", NOTHING, MsFlags::MS_BIND, NOTHING)?;
            Ok(umount2("/stack", MntFlags::MNT_DETACH)?)
        }),
        attack("unmount a file system", || {
            umount2("/scratch", MntFlags::MNT_DETACH)?;
            Ok(mount(
                Some("tmpfs"),
                "/scratch",
                Some("tmpfs"),
                MsFlags::empty(),
                NOTHING,
            )?)
        }),
        attack("mount through the new mount API", new_api),
        attack("read through a detached copy of a mount", || {
            let tree = copy_of("/prot")?;
            read_at(&tree, "secret")
        }),
        attack("open core_pattern through a detached procfs", || {
            let tree = copy_of("/proc")?;
            openat(&tree, "sys/kernel/core_pattern", OFlags::WRONLY, Mode::empty()).map_err(failure)?;
            Ok(())
        }),
        Attempt::attack("mount a file system by default", RUNTIME_DEFAULT, mount_tmpfs),
    ]
}

fn mount_tmpfs() -> Result<(), Failure> {
    mount(Some("tmpfs"), "/stack", Some("tmpfs"), MsFlags::empty(), NOTHING)?;
    Ok(umount2("/stack", MntFlags::MNT_DETACH)?)
}

fn new_api() -> Result<(), Failure> {
    let context = fsopen("tmpfs", FsOpenFlags::empty()).map_err(failure)?;
    fsconfig_create(&context).map_err(failure)?;
    let made = fsmount(&context, FsMountFlags::empty(), MountAttrFlags::empty()).map_err(failure)?;
    move_mount(&made, "", CWD, "/stack", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(failure)?;
    Ok(umount2("/stack", MntFlags::MNT_DETACH)?)
}

fn copy_of(path: &str) -> Result<OwnedFd, Failure> {
    open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE).map_err(failure)
}

fn read_at(folder: &OwnedFd, name: &str) -> Result<(), Failure> {
    openat(folder, name, OFlags::RDONLY, Mode::empty()).map_err(failure)?;
    Ok(())
}

fn failure(errno: Errno) -> Failure {
    nix::errno::Errno::from_raw(errno.raw_os_error()).into()
}
