//! Attempts to reach a protected file under another name of its place, and to take the place away.

use std::fs;

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::{chdir, chroot, getppid, pivot_root},
};
use rustix::{
    fs::CWD,
    mount::{FsOpenFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsopen, move_mount, open_tree},
};

use super::{attempt::Attempt, files::read, policies::ALIASES};
use crate::attack::Failure;

const NOTHING: Option<&str> = None;

/// All in a mount namespace of their own, which ends with the attempt.
pub(super) fn attempts() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, ALIASES, run);
    let benign = |name, run| Attempt::benign(name, ALIASES, run);
    vec![
        attack("read through a bind mount of a protected folder", || {
            bind("/prot", "/stack")?;
            read("/stack/secret")
        }),
        attack("read through a bind mount of the root", || {
            bind("/", "/stack")?;
            read("/stack/prot/secret")
        }),
        attack("read through a bind mount of a bind mount", || {
            bind("/prot", "/scratch")?;
            bind("/scratch", "/stack")?;
            read("/stack/secret")
        }),
        attack("write through a bind mount on another filesystem", || {
            bind("/disk/ro", "/stack")?;
            fs::OpenOptions::new().append(true).open("/stack/file")?;
            Ok(())
        }),
        attack("read through a bind mount of a file", || {
            bind("/prot/secret", "/open/file")?;
            read("/open/file")
        }),
        attack(
            "read through a copy of the tree that was moved into place",
            || {
                own_namespace()?;
                let tree = open_tree(CWD, "/prot", OpenTreeFlags::OPEN_TREE_CLONE).map_err(failure)?;
                move_mount(&tree, "", CWD, "/stack", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
                    .map_err(failure)?;
                read("/stack/secret")
            },
        ),
        attack("move the mount below a protected path away", || {
            own_namespace()?;
            mount(Some("/mnt/vol"), "/stack", NOTHING, MsFlags::MS_MOVE, NOTHING)?;
            Ok(())
        }),
        attack("move it through the new mount API", || {
            own_namespace()?;
            move_mount(CWD, "/mnt/vol", CWD, "/stack", MoveMountFlags::empty()).map_err(failure)
        }),
        attack("unmount it", || {
            own_namespace()?;
            Ok(umount2("/mnt/vol", MntFlags::MNT_DETACH)?)
        }),
        attack("make a protected folder the root", || {
            // The first root of a guest cannot be exchanged, a bind mount of it can.
            bind("/", "/stack")?;
            chroot("/stack")?;
            chdir("/")?;
            bind("/prot", "/moved")?;
            Ok(pivot_root("/moved", "/moved/empty")?)
        }),
        attack("make a procfs through the new mount API", || make("proc")),
        attack("mount from a source with a name that is too long", || {
            own_namespace()?;
            let source = "s".repeat(300);
            Ok(mount(
                Some(source.as_str()),
                "/stack",
                Some("tmpfs"),
                MsFlags::empty(),
                NOTHING,
            )?)
        })
        .saying("a string is longer than what can be judged"),
        benign("read through a bind mount of another folder", || {
            bind("/open", "/stack")?;
            read("/stack/file")?;
            fs::write("/stack/new", "content")?;
            Ok(fs::remove_file("/open/new")?)
        }),
        benign(
            "read an unprotected file through a bind mount of the root",
            || {
                bind("/", "/stack")?;
                read("/stack/open/file")
            },
        ),
        benign("mount and unmount elsewhere", || {
            own_namespace()?;
            mount(Some("tmpfs"), "/stack", Some("tmpfs"), MsFlags::empty(), NOTHING)?;
            Ok(umount2("/stack", MntFlags::MNT_DETACH)?)
        }),
        benign("make a tmpfs through the new mount API", || make("tmpfs")),
    ]
}

fn own_namespace() -> Result<(), Failure> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    Ok(mount(
        NOTHING,
        "/",
        NOTHING,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        NOTHING,
    )?)
}

fn bind(from: &str, to: &str) -> Result<(), Failure> {
    if !is_in_own_namespace() {
        own_namespace()?;
    }
    mount(Some(from), to, NOTHING, MsFlags::MS_BIND, NOTHING)
        .map_err(|error| Failure::Broken(format!("bind {from}: {error}")))
}

fn is_in_own_namespace() -> bool {
    let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    of("self") != of(&getppid().to_string())
}

fn make(fstype: &str) -> Result<(), Failure> {
    let context = fsopen(fstype, FsOpenFlags::empty()).map_err(failure)?;
    fsconfig_create(&context).map_err(failure)
}

fn failure(errno: rustix::io::Errno) -> Failure {
    nix::errno::Errno::from_raw(errno.raw_os_error()).into()
}
