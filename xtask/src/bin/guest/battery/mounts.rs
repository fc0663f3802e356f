//! M: mounts by the old and the new interface, by any spelling of their source.

use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::symlink},
};

use nix::{
    libc,
    mount::{MntFlags, MsFlags, mount, umount2},
    unistd::chdir,
};
use rustix::{
    fs::{Mode, OFlags, openat},
    mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick},
};

use super::{
    case::{Case, Done, Under},
    place::{Place, ROOT},
    policies::{ALLOW_LIST, MOUNT_CALLS, MOUNTS, RUNTIME},
    raw,
    views::{clone_of, mask_proc, new_mount},
};
use rustix::thread::CapabilitySet as Cap;

const NOTHING: Option<&str> = None;
const PLACE: &str = "/stack";

pub(super) fn cases() -> Vec<Case> {
    let mounts = Under(MOUNTS, ROOT);
    let runtime = Under(RUNTIME, Place::with(Cap::SYS_ADMIN));
    let listed = Under(ALLOW_LIST, ROOT);
    vec![
        new_interface(),
        Case::new(
            "M-2",
            "hide the type of a file system behind the flag bit 0x200",
            vec![
                mounts.plain("mount a procfs", || new("proc", MsFlags::empty())),
                mounts.attack("with the bit", || new("proc", MsFlags::from_bits_retain(0x200))),
                mounts.attack("a cgroup2 with the bit", || {
                    new("cgroup2", MsFlags::from_bits_retain(0x200))
                }),
                mounts.benign("mount a tmpfs", || new("tmpfs", MsFlags::empty())),
                mounts.benign("mount a tmpfs with the bit", || {
                    new("tmpfs", MsFlags::from_bits_retain(0x200))
                }),
            ],
        ),
        spellings(),
        Case::new(
            "M-6",
            "mount the types that exact names forget",
            vec![
                mounts.plain("mount a cgroup hierarchy of version 1", || {
                    new_with("cgroup", Some("none,name=battery"))
                }),
                mounts.attack("cgroup2", || new("cgroup2", MsFlags::empty())),
                listed.plain("mount a tmpfs where nothing is allowed", || {
                    new("tmpfs", MsFlags::empty())
                }),
                listed.attack("bpf", || new("bpf", MsFlags::empty())),
                listed.attack("tracefs", || new("tracefs", MsFlags::empty())),
                listed.attack("overlay", || new_with("overlay", Some("lowerdir=/vault:/exact"))),
                listed.attack("cgroup2 where nothing is allowed", || {
                    new("cgroup2", MsFlags::empty())
                }),
            ],
        ),
        Case::new(
            "M-7",
            "unmount a mask",
            vec![
                runtime
                    .plain("unmount the mask of kcore", || {
                        Ok(umount2("/proc/kcore", MntFlags::empty())?)
                    })
                    .after(mask_proc),
                runtime
                    .attack("lazily", || Ok(umount2("/proc/kcore", MntFlags::MNT_DETACH)?))
                    .after(mask_proc),
                runtime
                    .attack("the read-only mount of /proc/sys", || {
                        Ok(umount2("/proc/sys", MntFlags::MNT_DETACH)?)
                    })
                    .after(mask_proc),
                runtime
                    .attack("by a relative path", || {
                        chdir("/proc")?;
                        Ok(umount2("kcore", MntFlags::MNT_DETACH)?)
                    })
                    .after(mask_proc),
                runtime
                    .attack("by moving it away", || {
                        Ok(mount(
                            Some("/proc/sys"),
                            "/stack",
                            NOTHING,
                            MsFlags::MS_MOVE,
                            NOTHING,
                        )?)
                    })
                    .after(mask_proc),
            ],
        ),
    ]
}

fn new_interface() -> Case {
    let mounts = Under(MOUNTS, ROOT);
    let runtime = Under(RUNTIME, Place::with(Cap::SYS_ADMIN));
    // Beside the mounts, what `varmor run` needs to put the filter on the step.
    let rights = Cap::SYS_ADMIN.union(Cap::DAC_OVERRIDE);
    let calls = Under(MOUNT_CALLS, Place::with(rights).host_pids());
    Case::new(
        "M-1",
        "mount through fsopen, open_tree and mount_setattr",
        vec![
            mounts.plain("a procfs by mount", || new("proc", MsFlags::empty())),
            mounts.attack("a procfs by fsopen", || used(&new_mount("proc")?, "self")),
            mounts.plain("a securityfs by mount", || new("securityfs", MsFlags::empty())),
            mounts.attack("a securityfs by fsopen", || {
                used(&new_mount("securityfs")?, "lsm")
            }),
            mounts.plain("a cgroup2 by mount", || new("cgroup2", MsFlags::empty())),
            mounts.attack("a cgroup2 by fsopen", || {
                used(&new_mount("cgroup2")?, "cgroup.procs")
            }),
            mounts.benign("a tmpfs by fsopen", || used(&new_mount("tmpfs")?, ".")),
            runtime
                .plain("make a read-only mount writable", || {
                    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
                    Ok(mount(NOTHING, "/proc/sys", NOTHING, flags, NOTHING)?)
                })
                .after(mask_proc),
            runtime.attack("make it writable by fspick", || {
                let picked = fspick(rustix::fs::CWD, "/vol", FsPickFlags::empty())?;
                fsconfig_set_flag(&picked, "rw")?;
                Ok(fsconfig_reconfigure(&picked)?)
            }),
            runtime
                .attack("trigger a system request through a copy of a mount", || {
                    clone_of("/proc", "sysrq-trigger")
                })
                .after(mask_proc),
            calls.plain("mount a tmpfs", || new("tmpfs", MsFlags::empty())),
            calls
                .attack("make a read-only mount writable by mount_setattr", || {
                    Ok(raw::mount_setattr(
                        None,
                        c"/proc/sys",
                        0,
                        0,
                        libc::MOUNT_ATTR_RDONLY,
                    )?)
                })
                .after(mask_proc),
            calls.attack("copy a mount by open_tree", || clone_of("/field", "file")),
        ],
    )
    .note("mount_setattr has no LSM hook: the Seccomp part of disallow-mount refuses it")
}

fn spellings() -> Case {
    let mounts = Under(MOUNTS, ROOT);
    let bind = |name, run| mounts.attack(name, run);
    Case::new(
        "M-3",
        "spell the source of a bind mount otherwise",
        vec![
            mounts.plain("/proc", || bound("/proc")),
            bind("proc", || bound("proc")),
            bind("./proc", || bound("./proc")),
            bind("//proc", || bound("//proc")),
            bind("a link to /proc", || linked("/proc")),
            bind("/proc/self/root/proc", || bound("/proc/self/root/proc")),
            mounts.plain("/sys", || bound("/sys")),
            bind("sys", || bound("sys")),
            bind("./sys", || bound("./sys")),
            bind("//sys", || bound("//sys")),
            bind("a link to /sys", || linked("/sys")),
            bind("/proc/self/root/sys", || bound("/proc/self/root/sys")),
            mounts.plain("/vault", || bound("/vault")),
            bind("vault", || bound("vault")),
            bind("./vault", || bound("./vault")),
            bind("//vault", || bound("//vault")),
            bind("/field/../vault", || bound("/field/../vault")),
            bind("a link to /vault", || linked("/vault")),
            bind("/proc/self/root/vault", || bound("/proc/self/root/vault")),
            mounts.benign("another folder", || bound("/field")),
        ],
    )
}

fn new(kind: &str, flags: MsFlags) -> Done {
    mount(Some("p"), PLACE, Some(kind), flags, NOTHING)?;
    Ok(umount2(PLACE, MntFlags::MNT_DETACH)?)
}

fn new_with(kind: &str, data: Option<&str>) -> Done {
    mount(Some("p"), PLACE, Some(kind), MsFlags::empty(), data)?;
    Ok(umount2(PLACE, MntFlags::MNT_DETACH)?)
}

/// A mount is only worth what is reached through it.
fn used(made: &OwnedFd, name: &str) -> Done {
    openat(
        made,
        name,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::PATH,
        Mode::empty(),
    )?;
    Ok(())
}

fn bound(source: &str) -> Done {
    chdir("/")?;
    mount(Some(source), PLACE, NOTHING, MsFlags::MS_BIND, NOTHING)?;
    Ok(umount2(PLACE, MntFlags::MNT_DETACH)?)
}

fn linked(to: &str) -> Done {
    let link = "/field/source";
    symlink(to, link)?;
    let done = bound(link);
    fs::remove_file(link)?;
    done
}
