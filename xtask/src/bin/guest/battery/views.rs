//! F-5 to F-7: files through mounts that are nowhere, stacked, or elsewhere.

use std::{
    fs::{self, File},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::symlink,
    },
};

use nix::{
    libc,
    mount::{MsFlags, mount},
};
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsmount,
        fsopen, move_mount, open_tree,
    },
    thread::CapabilitySet as Cap,
};

use super::{
    case::{Case, Done, Failure, Under, setup},
    files::open_write,
    identity::{helper, read, secret, start_helper},
    place::{Place, ROOT},
    policies::{RULES, RUNTIME},
    raw::{self, Submission},
};

const NOTHING: Option<&str> = None;
pub(super) const CORE_PATTERN: &str = "sys/kernel/core_pattern";
const TOKEN_FOLDER: &str = "/run/secrets/kubernetes.io/serviceaccount";

pub(super) fn cases() -> Vec<Case> {
    vec![detached(), stacked(), other_views()]
}

fn detached() -> Case {
    let admin = Under(RULES, Place::with(Cap::SYS_ADMIN));
    let runtime = Under(RUNTIME, Place::with(Cap::SYS_ADMIN));
    Case::new(
        "F-5",
        "reach files through mounts that are nowhere",
        vec![
            runtime.plain("open core_pattern for writing", || {
                open_write("/proc/sys/kernel/core_pattern")
            }),
            runtime
                .attack("through a copy of /proc without its masks", || {
                    clone_of("/proc", CORE_PATTERN)
                })
                .after(mask_proc),
            runtime
                .attack("through a new procfs", || {
                    let made = new_mount("proc")?;
                    write_at(&made, CORE_PATTERN)
                })
                .after(mask_proc),
            runtime
                .attack("through a copy whose read-only flag is cleared", || {
                    let tree = tree("/proc/sys", OpenTreeFlags::OPEN_TREE_CLONE)?;
                    setup(
                        "mount_setattr",
                        raw::mount_setattr(Some(&tree), c"", libc::AT_EMPTY_PATH, 0, libc::MOUNT_ATTR_RDONLY),
                    )?;
                    write_at(&tree, "kernel/core_pattern")
                })
                .after(mask_proc),
            runtime
                .plain("read the service account's token", || {
                    read(&format!("{TOKEN_FOLDER}/token"))
                })
                .after(token),
            runtime
                .attack("through a copy of its volume", || {
                    let tree = tree(TOKEN_FOLDER, OpenTreeFlags::OPEN_TREE_CLONE)?;
                    read_at(&tree, "token")
                })
                .after(token),
            admin.plain("read a protected file", secret),
            admin.attack("through a copy of its folder", || {
                read_at(&tree("/prot", OpenTreeFlags::OPEN_TREE_CLONE)?, "secret")
            }),
            admin.attack("through a copy of the root with all its mounts", || {
                let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE;
                read_at(&tree("/", flags)?, "prot/secret")
            }),
            admin.attack("by a relative path in the copy", || {
                let tree = tree("/prot", OpenTreeFlags::OPEN_TREE_CLONE)?;
                setup("fchdir", rustix::process::fchdir(&tree))?;
                read("secret")
            }),
            admin.attack("by io_uring in the copy", || {
                let tree = tree("/prot", OpenTreeFlags::OPEN_TREE_CLONE)?;
                raw::uring(&Submission {
                    opcode: 18,
                    fd: Some(tree.as_raw_fd()),
                    address: Some(b"secret\0"),
                    ..Submission::default()
                })?;
                Ok(())
            }),
        ],
    )
}

fn stacked() -> Case {
    let admin = Under(RULES, Place::with(Cap::SYS_ADMIN));
    Case::new(
        "F-6",
        "read a file below two mounts on one folder",
        vec![
            admin.plain("read it below no mount", secret),
            admin
                .attack("two file systems on the folder", secret)
                .after(|| stack("/prot")),
            admin
                .attack("the same on a volume", || read("/vol/prot/secret"))
                .after(|| stack("/vol/prot")),
            admin
                .attack("a bind mount below a file system", secret)
                .after(|| {
                    mount(Some("/vault"), "/prot", NOTHING, MsFlags::MS_BIND, NOTHING)?;
                    stack("/prot")
                }),
            admin
                .attack("a bind mount over a file system", || read("/prot/file"))
                .after(|| {
                    stack("/prot")?;
                    Ok(mount(
                        Some("/vault"),
                        "/prot",
                        NOTHING,
                        MsFlags::MS_BIND,
                        NOTHING,
                    )?)
                }),
        ],
    )
}

fn other_views() -> Case {
    let admin = Under(
        RULES,
        Place::with(Cap::SYS_ADMIN.union(Cap::DAC_READ_SEARCH).union(Cap::SYS_PTRACE)),
    );
    let runtime = Under(RUNTIME, ROOT);
    Case::new(
        "F-7",
        "another view of the same object",
        vec![
            runtime.plain("open core_pattern for writing", || {
                open_write("/proc/sys/kernel/core_pattern")
            }),
            runtime
                .attack("on another procfs", || open_write("/hp/sys/kernel/core_pattern"))
                .after(other_proc),
            runtime
                .attack("modprobe's path on it", || open_write("/hp/sys/kernel/modprobe"))
                .after(other_proc),
            runtime
                .attack("sysrq-trigger on it", || open_write("/hp/sysrq-trigger"))
                .after(other_proc),
            runtime
                .attack("kcore on it", || read_one("/hp/kcore"))
                .after(other_proc),
            runtime
                .attack("the memory of process 1 on it", || open_write("/hp/1/mem"))
                .after(other_proc),
            runtime
                .attack("binfmt's folder on a bind of /proc/sys", || {
                    open_write("/hp/kernel/core_pattern")
                })
                .after(|| {
                    Ok(mount(
                        Some("/proc/sys"),
                        "/hp",
                        NOTHING,
                        MsFlags::MS_BIND,
                        NOTHING,
                    )?)
                }),
            runtime
                .attack("a kernel setting on another sysfs", || {
                    open_write("/hp/kernel/mm/ksm/run")
                })
                .after(|| {
                    Ok(mount(
                        Some("sys"),
                        "/hp",
                        Some("sysfs"),
                        MsFlags::empty(),
                        NOTHING,
                    )?)
                }),
            admin.plain("read a protected file", secret),
            admin.attack("through /proc/PID/root", || {
                let path = format!("/proc/{}/root/prot/secret", std::process::id());
                read(&path)
            }),
            Under(RULES, ROOT.host_pids())
                .attack("through the root of a process in another mount namespace", || {
                    read(&format!("/proc/{}/root/prot/secret", helper()?))
                })
                .after(start_helper),
            admin.attack("by a file handle", || {
                let volume = setup("open", File::open("/vol"))?;
                raw::open_by_handle(volume, c"/vol/prot/secret").map(drop)
            }),
            admin.attack("on a bind mount of its folder", || {
                mount(Some("/prot"), "/stack", NOTHING, MsFlags::MS_BIND, NOTHING)?;
                read("/stack/secret")
            }),
            admin.attack("on a bind mount of the root", || {
                mount(
                    Some("/"),
                    "/stack",
                    NOTHING,
                    MsFlags::MS_BIND | MsFlags::MS_REC,
                    NOTHING,
                )?;
                read("/stack/prot/secret")
            }),
            admin.attack("on a copy that is moved into place", || {
                let tree = tree("/prot", OpenTreeFlags::OPEN_TREE_CLONE)?;
                move_mount(&tree, "", CWD, "/stack", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
                read("/stack/secret")
            }),
            admin.benign("on a bind mount of another folder", || {
                mount(Some("/vault"), "/stack", NOTHING, MsFlags::MS_BIND, NOTHING)?;
                read("/stack/file")
            }),
        ],
    )
}

pub(super) fn clone_of(path: &str, below: &str) -> Done {
    write_at(&tree(path, OpenTreeFlags::OPEN_TREE_CLONE)?, below)
}

/// What runtimes do to /proc.
pub(super) fn mask_proc() -> Done {
    mount(
        Some("/dev/null"),
        "/proc/kcore",
        NOTHING,
        MsFlags::MS_BIND,
        NOTHING,
    )?;
    mount(Some("/proc/sys"), "/proc/sys", NOTHING, MsFlags::MS_BIND, NOTHING)?;
    let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    Ok(mount(NOTHING, "/proc/sys", NOTHING, read_only, NOTHING)?)
}

fn token() -> Done {
    fs::create_dir_all(TOKEN_FOLDER)?;
    mount(
        Some("tmpfs"),
        TOKEN_FOLDER,
        Some("tmpfs"),
        MsFlags::empty(),
        NOTHING,
    )?;
    fs::create_dir(format!("{TOKEN_FOLDER}/..data"))?;
    fs::write(format!("{TOKEN_FOLDER}/..data/token"), "token")?;
    Ok(symlink("..data/token", format!("{TOKEN_FOLDER}/token"))?)
}

fn stack(folder: &str) -> Done {
    for _ in 0..2 {
        mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), NOTHING)?;
    }
    Ok(fs::write(format!("{folder}/secret"), "content")?)
}

fn other_proc() -> Done {
    Ok(mount(
        Some("proc"),
        "/hp",
        Some("proc"),
        MsFlags::empty(),
        NOTHING,
    )?)
}

pub(super) fn tree(path: &str, flags: OpenTreeFlags) -> Result<OwnedFd, Failure> {
    Ok(open_tree(CWD, path, flags)?)
}

/// A new file system that is mounted nowhere.
pub(super) fn new_mount(kind: &str) -> Result<OwnedFd, Failure> {
    let context = fsopen(kind, FsOpenFlags::empty())?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::empty(), MountAttrFlags::empty())?)
}

fn write_at(folder: &OwnedFd, path: &str) -> Done {
    openat(folder, path, OFlags::WRONLY, Mode::empty())?;
    Ok(())
}

fn read_at(folder: &OwnedFd, path: &str) -> Done {
    openat(folder, path, OFlags::RDONLY, Mode::empty())?;
    Ok(())
}

/// The first bytes: some files have no end.
fn read_one(path: &str) -> Done {
    File::open(path)?;
    Ok(())
}
