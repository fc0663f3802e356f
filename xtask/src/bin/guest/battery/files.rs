//! F: files under other names, other mounts, and by calls that are no open.

use std::{
    fs::{self, File, OpenOptions},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::symlink,
    },
    process::{Command, Stdio},
};

use nix::{
    fcntl::{AT_FDCWD, RenameFlags, renameat2},
    libc,
    mount::{MsFlags, mount},
    sys::{
        ptrace,
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, chdir},
};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, linkat, open, openat},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsmount, fsopen,
        move_mount, open_tree,
    },
    thread::CapabilitySet as Cap,
};

use super::{
    case::{Case, Done, Failure, Under, broken, setup},
    execution::{guest, recreate},
    identity::{helper, read, secret, start_helper},
    mutators,
    place::{Place, ROOT},
    policies::{RULES, RUNTIME},
    raw::{self, Submission},
    stage::DEPTHS,
};

const NOTHING: Option<&str> = None;
const FILE: &str = "/ro/file";
pub(super) const CORE_PATTERN: &str = "sys/kernel/core_pattern";
const TOKEN_FOLDER: &str = "/run/secrets/kubernetes.io/serviceaccount";

pub(super) fn cases() -> Vec<Case> {
    vec![
        links(),
        renames(),
        parents(),
        mutators::case(),
        detached(),
        stacked(),
        other_views(),
        depths(),
        neighbours(),
        read_denied_program(),
    ]
}

fn links() -> Case {
    let rules = Under(RULES, ROOT);
    Case::new(
        "F-1",
        "write a write-protected file by a hard link",
        vec![
            rules.plain("append to it", || append(FILE)),
            rules.attack("by a new hard link", || {
                fs::hard_link(FILE, "/work/hard")?;
                append("/work/hard")
            }),
            rules.attack("by linkat through /proc/self/fd", || {
                let file = setup("open", File::open(FILE))?;
                let name = format!("/proc/self/fd/{}", file.as_raw_fd());
                linkat(CWD, name, CWD, "/work/hard", AtFlags::SYMLINK_FOLLOW)?;
                append("/work/hard")
            }),
            rules.attack("by linkat with AT_EMPTY_PATH", || {
                let file = setup("open", open(FILE, OFlags::PATH, Mode::empty()))?;
                linkat(file, "", CWD, "/work/hard", AtFlags::EMPTY_PATH)?;
                append("/work/hard")
            }),
            rules.attack("on a volume", || {
                fs::hard_link("/vol/ro/file", "/vol/work/hard")?;
                append("/vol/work/hard")
            }),
            rules.attack("by io_uring", || {
                let (from, to) = (raw::text(FILE), raw::text("/work/hard"));
                uring_two(39, from.as_bytes_with_nul(), &to)?;
                append("/work/hard")
            }),
            rules.benign("link another file", || {
                fs::hard_link("/work/file", "/work/hard")?;
                append("/work/hard")
            }),
        ],
    )
}

fn renames() -> Case {
    let rules = Under(RULES, ROOT);
    Case::new(
        "F-2",
        "move a write-protected file away, or exchange it",
        vec![
            rules.plain("append to it", || append(FILE)),
            rules.attack("rename it away", || Ok(fs::rename(FILE, "/work/away")?)),
            rules.attack("rename over it", || Ok(fs::rename("/work/file", FILE)?)),
            rules.attack("exchange, it being the new name", || exchange("/work/file", FILE)),
            rules.attack("exchange, it being the old name", || exchange(FILE, "/work/file")),
            rules.attack("rename it away on a volume", || Ok(fs::rename("/vol/ro/file", "/vol/work/away")?)),
            rules.attack("exchange on a volume", || exchange("/vol/work/file", "/vol/ro/file")),
            rules.attack("exchange on a volume, the other way", || exchange("/vol/ro/file", "/vol/work/file")),
            rules.attack("rename it away by io_uring", || {
                uring_two(35, raw::text(FILE).as_bytes_with_nul(), &raw::text("/work/away"))
            }),
            rules.benign("rename and exchange other files", || {
                fs::write("/work/one", "1")?;
                exchange("/work/one", "/work/file")?;
                Ok(fs::rename("/work/one", "/work/two")?)
            }),
        ],
    )
}

fn parents() -> Case {
    let rules = Under(RULES, ROOT);
    Case::new(
        "F-3",
        "rename or replace a folder above protected files",
        vec![
            rules.plain("read a protected file", secret),
            rules.attack("rename the folder", || {
                fs::rename("/prot", "/work/p2")?;
                read("/work/p2/secret")
            })
            .after(|| recreate("/prot")),
            rules.attack("rename the folder on a volume", || {
                fs::rename("/vol/prot", "/vol/p2")?;
                read("/vol/p2/secret")
            }),
            rules.attack("rename a parent of it", || {
                fs::rename("/vol/deep/er", "/vol/deep/other")?;
                read("/vol/deep/other/prot/secret")
            }),
            rules.attack("rename a parent of the parent", || {
                fs::rename("/vol/deep", "/vol/shallow")?;
                read("/vol/shallow/er/prot/secret")
            }),
            rules.attack("exchange a parent with another folder", || {
                exchange("/vol/work", "/vol/deep")?;
                read("/vol/work/er/prot/secret")
            }),
            rules.benign("rename another folder", || {
                Ok(fs::rename("/vol/work", "/vol/work-2")?)
            }),
        ],
    )
}

fn detached() -> Case {
    let admin = Under(RULES, Place::with(Cap::SYS_ADMIN));
    let runtime = Under(RUNTIME, Place::with(Cap::SYS_ADMIN));
    Case::new(
        "F-5",
        "reach files through mounts that are nowhere",
        vec![
            runtime.plain("open core_pattern for writing", || open_write("/proc/sys/kernel/core_pattern")),
            runtime.attack("through a copy of /proc without its masks", || clone_of("/proc", CORE_PATTERN)).after(mask_proc),
            runtime.attack("through a new procfs", || {
                let made = new_mount("proc")?;
                write_at(&made, CORE_PATTERN)
            })
            .after(mask_proc),
            runtime.attack("through a copy whose read-only flag is cleared", || {
                let tree = tree("/proc/sys", OpenTreeFlags::OPEN_TREE_CLONE)?;
                setup(
                    "mount_setattr",
                    raw::mount_setattr(Some(&tree), c"", libc::AT_EMPTY_PATH, 0, libc::MOUNT_ATTR_RDONLY),
                )?;
                write_at(&tree, "kernel/core_pattern")
            })
            .after(mask_proc),
            runtime.plain("read the service account's token", || read(&format!("{TOKEN_FOLDER}/token")))
                .after(token),
            runtime.attack("through a copy of its volume", || {
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
            admin.attack("two file systems on the folder", secret).after(|| stack("/prot")),
            admin.attack("the same on a volume", || read("/vol/prot/secret")).after(|| stack("/vol/prot")),
            admin.attack("a bind mount below a file system", secret).after(|| {
                mount(Some("/vault"), "/prot", NOTHING, MsFlags::MS_BIND, NOTHING)?;
                stack("/prot")
            }),
            admin.attack("a bind mount over a file system", || read("/prot/file")).after(|| {
                stack("/prot")?;
                Ok(mount(Some("/vault"), "/prot", NOTHING, MsFlags::MS_BIND, NOTHING)?)
            }),
        ],
    )
}

fn other_views() -> Case {
    let admin = Under(RULES, Place::with(Cap::SYS_ADMIN.union(Cap::DAC_READ_SEARCH).union(Cap::SYS_PTRACE)));
    let runtime = Under(RUNTIME, ROOT);
    Case::new(
        "F-7",
        "another view of the same object",
        vec![
            runtime.plain("open core_pattern for writing", || open_write("/proc/sys/kernel/core_pattern")),
            runtime.attack("on another procfs", || open_write("/hp/sys/kernel/core_pattern")).after(other_proc),
            runtime.attack("modprobe's path on it", || open_write("/hp/sys/kernel/modprobe")).after(other_proc),
            runtime.attack("sysrq-trigger on it", || open_write("/hp/sysrq-trigger")).after(other_proc),
            runtime.attack("kcore on it", || read_one("/hp/kcore")).after(other_proc),
            runtime.attack("the memory of process 1 on it", || open_write("/hp/1/mem")).after(other_proc),
            runtime.attack("binfmt's folder on a bind of /proc/sys", || open_write("/hp/kernel/core_pattern")).after(|| {
                Ok(mount(Some("/proc/sys"), "/hp", NOTHING, MsFlags::MS_BIND, NOTHING)?)
            }),
            runtime.attack("a kernel setting on another sysfs", || open_write("/hp/kernel/mm/ksm/run")).after(|| {
                Ok(mount(Some("sys"), "/hp", Some("sysfs"), MsFlags::empty(), NOTHING)?)
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
                mount(Some("/"), "/stack", NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING)?;
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

fn depths() -> Case {
    let rules = Under(RULES, ROOT);
    Case::new(
        "F-8",
        "read a protected file many folders down",
        vec![
            rules.plain("one down", secret),
            rules.attack("25 down", || deep(DEPTHS[0])),
            rules.attack("31 down", || deep(DEPTHS[1])),
            rules.attack("64 down", || deep(DEPTHS[2])),
            rules.attack("1,500 down, by a relative path", || {
                read("secret")
            })
            .after(|| {
                chdir("/vol/prot")?;
                for _ in 0..1500 {
                    fs::create_dir("d")?;
                    chdir("d")?;
                }
                Ok(fs::write("secret", "content")?)
            }),
            rules.attack("after moving its folder deeper", || {
                fs::create_dir_all("/vol/work/a/b/c/d")?;
                fs::rename("/vol/prot/sub", "/vol/work/a/b/c/d/sub")?;
                read("/vol/work/a/b/c/d/sub/secret")
            }),
            rules.benign("many folders down elsewhere", || {
                let folder = format!("/work/{}", "d/".repeat(40));
                fs::create_dir_all(&folder)?;
                fs::write(format!("{folder}file"), "content")?;
                read(&format!("{folder}file"))
            }),
        ],
    )
    .note("a path of more components than the walk takes cannot be judged and is refused, whatever it names")
}

fn neighbours() -> Case {
    let rules = Under(RULES, ROOT);
    Case::new(
        "F-16",
        "an exact name is no prefix",
        vec![
            rules.plain("read the file that is named", || read("/exact/file")),
            rules.benign("read a longer name", || read("/exact/file-2")),
            rules.benign("read a name with an ending", || read("/exact/file.d")),
            rules.benign("read a file of a folder that begins like a protected one", || {
                fs::create_dir("/prot-2")?;
                fs::write("/prot-2/file", "content")?;
                read("/prot-2/file")
            }),
        ],
    )
}

fn read_denied_program() -> Case {
    let rules = Under(RULES, ROOT);
    Case::new(
        "F-18",
        "run a program that must not be read, and read its memory",
        vec![
            rules.plain("read it", || read("/rdeny/tool")),
            rules.attack("peek at its text as its tracer", peek),
        ],
    )
}

pub(super) fn open_write(path: &str) -> Done {
    OpenOptions::new().write(true).open(path)?;
    Ok(())
}

fn append(path: &str) -> Done {
    OpenOptions::new().append(true).open(path)?;
    Ok(())
}

/// The first bytes: some files have no end.
fn read_one(path: &str) -> Done {
    File::open(path)?;
    Ok(())
}

fn exchange(one: &str, other: &str) -> Done {
    Ok(renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)?)
}

/// An operation of io_uring with two paths.
pub(super) fn uring_two(opcode: u8, from: &[u8], to: &std::ffi::CStr) -> Done {
    raw::uring(&Submission {
        opcode,
        address: Some(from),
        second: Some(to),
        length: (-100_i32).cast_unsigned(),
        ..Submission::default()
    })?;
    Ok(())
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

pub(super) fn clone_of(path: &str, below: &str) -> Done {
    write_at(&tree(path, OpenTreeFlags::OPEN_TREE_CLONE)?, below)
}

fn write_at(folder: &OwnedFd, path: &str) -> Done {
    openat(folder, path, OFlags::WRONLY, Mode::empty())?;
    Ok(())
}

fn read_at(folder: &OwnedFd, path: &str) -> Done {
    openat(folder, path, OFlags::RDONLY, Mode::empty())?;
    Ok(())
}

/// What runtimes do to /proc.
pub(super) fn mask_proc() -> Done {
    mount(Some("/dev/null"), "/proc/kcore", NOTHING, MsFlags::MS_BIND, NOTHING)?;
    mount(Some("/proc/sys"), "/proc/sys", NOTHING, MsFlags::MS_BIND, NOTHING)?;
    let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    Ok(mount(NOTHING, "/proc/sys", NOTHING, read_only, NOTHING)?)
}

fn token() -> Done {
    fs::create_dir_all(TOKEN_FOLDER)?;
    mount(Some("tmpfs"), TOKEN_FOLDER, Some("tmpfs"), MsFlags::empty(), NOTHING)?;
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
    Ok(mount(Some("proc"), "/hp", Some("proc"), MsFlags::empty(), NOTHING)?)
}

fn deep(depth: usize) -> Done {
    read(&format!("/prot/{}secret", format!("d{depth}/").repeat(depth)))
}

fn peek() -> Done {
    let mut command = guest("/rdeny/tool");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = traced(&mut command)?;
    let stopped = setup("wait", waitpid(child, None))?;
    if !matches!(stopped, WaitStatus::Stopped(..)) {
        return Err(Failure::Refused(format!("it did not start: {stopped:?}")));
    }
    let maps = setup("maps", fs::read_to_string(format!("/proc/{child}/maps")))?;
    let start = maps
        .lines()
        .find(|line| line.contains("/rdeny/tool"))
        .and_then(|line| u64::from_str_radix(line.split('-').next()?, 16).ok())
        .ok_or_else(|| broken("the program is not in its own maps"))?;
    let result = ptrace::read(child, start as ptrace::AddressType);
    let _ = ptrace::kill(child);
    result?;
    Ok(())
}

/// Starts a program that is traced from its first instruction.
fn traced(command: &mut Command) -> Result<Pid, Failure> {
    raw::before_exec(command, || ptrace::traceme().map_err(std::io::Error::from));
    let child = command.spawn()?;
    Ok(Pid::from_raw(i32::try_from(child.id()).map_err(|_| broken("no pid"))?))
}
