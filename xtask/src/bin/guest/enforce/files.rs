//! Attempts on files: reading, every way of changing, every other name of the same file.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{PermissionsExt, chown, symlink},
};

use nix::{
    fcntl::{AT_FDCWD, RenameFlags, renameat2},
    sys::stat::{Mode, SFlag, mknod},
    unistd::truncate,
};

use super::{
    attempt::Attempt,
    policies::{NO_CAPABILITY, RULES, RUNTIME_DEFAULT},
    stage::{DEEP, LONG_NAME},
};
use crate::attack::Failure;

const SECRET: &str = "/prot/secret";

pub(super) fn attempts() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, RULES, run);
    vec![
        attack("read a protected file", || read(SECRET)),
        attack("read it through a symbolic link", || read("/open/link")),
        attack("read it through /proc/self/root", || {
            read("/proc/self/root/prot/secret")
        }),
        attack("read it by a relative path", || {
            std::env::set_current_dir("/prot")?;
            read("secret")
        }),
        attack("read a file 70 folders deep", || {
            read(&format!("/prot/{}secret", "d/".repeat(DEEP)))
        }),
        attack("write a protected file", || open_write("/readonly/file")),
        attack("append to a protected file", || {
            OpenOptions::new().append(true).open("/readonly/file")?;
            Ok(())
        }),
        attack("truncate a protected file by path", || {
            Ok(truncate("/readonly/file", 7)?)
        }),
        attack("create a file in a protected folder", create),
        attack("remove a protected file", || {
            fs::remove_file("/readonly/file")?;
            Ok(fs::write("/readonly/file", "content")?)
        }),
        attack("make a folder in a protected folder", || {
            fs::create_dir("/readonly/new")?;
            Ok(fs::remove_dir("/readonly/new")?)
        }),
        attack("remove a protected folder", || {
            fs::remove_dir("/readonly/sub")?;
            Ok(fs::create_dir("/readonly/sub")?)
        }),
        attack("make a device in a protected folder", || {
            mknod("/readonly/node", SFlag::S_IFIFO, Mode::S_IRUSR, 0)?;
            Ok(fs::remove_file("/readonly/node")?)
        }),
        attack("make a symbolic link in a protected folder", || {
            symlink("anything", "/readonly/link")?;
            Ok(fs::remove_file("/readonly/link")?)
        }),
        attack("change the mode of a protected file", || {
            Ok(fs::set_permissions(
                "/readonly/file",
                fs::Permissions::from_mode(0o644),
            )?)
        }),
        attack("change the owner of a protected file", || {
            Ok(chown("/readonly/file", Some(0), Some(0))?)
        }),
        attack("rename a protected file away", || {
            there_and_back("/readonly/file", "/open/away")
        }),
        attack("rename over a protected file", || {
            fs::copy("/readonly/file", "/open/evil").map_err(|error| Failure::Broken(error.to_string()))?;
            Ok(fs::rename("/open/evil", "/readonly/file")?)
        }),
        attack("exchange a protected file with another", || {
            exchange("/open/file", "/readonly/file")?;
            exchange("/open/file", "/readonly/file")
        }),
        attack("give a protected file a second name", || {
            fs::hard_link(SECRET, "/open/hard")?;
            let result = read("/open/hard");
            fs::remove_file("/open/hard")?;
            result
        }),
        attack("rename the folder above protected files", || {
            there_and_back("/prot", "/moved/prot")
        }),
        attack("read a file by a glob", || read("/globs/a.key")),
        attack("read a file with a long name by a glob", || {
            read(&format!("/globs/{LONG_NAME}"))
        }),
        attack("read a file by alternatives and classes", || {
            read("/globs/one/bx.pem")
        }),
        attack("read a file by its exact name", || read("/exact/file")),
        attack("open core_pattern for writing", || {
            open_write("/proc/sys/kernel/core_pattern")
        }),
        attack("open core_pattern on another procfs", || {
            open_write("/hp/sys/kernel/core_pattern")
        }),
        attack("open core_pattern on a bind mount of its folder", || {
            open_write("/bk/core_pattern")
        }),
    ]
    .into_iter()
    .chain(neighbours())
    .chain(under_other_policies())
    .collect()
}

/// What stands beside the attacks and must go on working.
fn neighbours() -> Vec<Attempt> {
    let benign = |name, run| Attempt::benign(name, RULES, run);
    vec![
        benign("read a file of a write-protected folder", || {
            read("/readonly/file")
        }),
        benign("read a file that no glob names", || read("/globs/a.txt")),
        benign("read a long name that no glob names", || {
            read(&format!("/globs/{LONG_NAME}.txt"))
        }),
        benign("read a file outside of the class", || read("/globs/one/dx.pem")),
        benign("read a file whose name only begins like a rule", || {
            read("/exact/file-2")
        }),
        benign("read core_pattern", || read("/proc/sys/kernel/core_pattern")),
        benign("change and move files elsewhere", || {
            fs::write("/open/new", "content")?;
            fs::rename("/open/new", "/open/newer")?;
            fs::hard_link("/open/newer", "/open/hard")?;
            fs::remove_file("/open/hard")?;
            Ok(fs::remove_file("/open/newer")?)
        }),
        benign("reopen a pipe through /proc", reopen_pipe),
    ]
}

fn under_other_policies() -> Vec<Attempt> {
    vec![
        Attempt::benign(
            "copy a file up on overlayfs without capabilities",
            NO_CAPABILITY,
            || {
                OpenOptions::new().append(true).open("/ovl/file")?;
                fs::write(format!("/ovl/new-{}", std::process::id()), "content")?;
                Ok(())
            },
        ),
        Attempt::attack("read kernel memory", RUNTIME_DEFAULT, || {
            File::open("/proc/kcore")?;
            Ok(())
        }),
        Attempt::attack("write a kernel setting", RUNTIME_DEFAULT, || {
            open_write("/proc/sys/kernel/modprobe")
        }),
        Attempt::attack("trigger a system request", RUNTIME_DEFAULT, || {
            open_write("/proc/sysrq-trigger")
        }),
        Attempt::attack("write to sysfs", RUNTIME_DEFAULT, || {
            open_write("/sys/kernel/mm/ksm/run")
        }),
        Attempt::benign("read a kernel setting", RUNTIME_DEFAULT, || {
            read("/proc/sys/kernel/ostype")
        }),
        Attempt::benign("read the status of a process", RUNTIME_DEFAULT, || {
            read("/proc/self/status")
        }),
    ]
}

pub(super) fn read(path: &str) -> Result<(), Failure> {
    fs::read(path)?;
    Ok(())
}

fn open_write(path: &str) -> Result<(), Failure> {
    OpenOptions::new().write(true).open(path)?;
    Ok(())
}

fn create() -> Result<(), Failure> {
    let path = "/readonly/new";
    let result = File::create(path);
    let left = fs::symlink_metadata(path).is_ok();
    match result {
        Ok(_) => Ok(fs::remove_file(path)?),
        Err(_) if left => Err(Failure::Broken(format!("{path} was refused and yet exists"))),
        Err(error) => Err(error.into()),
    }
}

fn there_and_back(from: &str, to: &str) -> Result<(), Failure> {
    fs::rename(from, to)?;
    Ok(fs::rename(to, from)?)
}

fn exchange(one: &str, other: &str) -> Result<(), Failure> {
    Ok(renameat2(
        AT_FDCWD,
        one,
        AT_FDCWD,
        other,
        RenameFlags::RENAME_EXCHANGE,
    )?)
}

fn reopen_pipe() -> Result<(), Failure> {
    use std::os::fd::AsRawFd;
    let (reader, _writer) = std::io::pipe()?;
    OpenOptions::new()
        .write(true)
        .open(format!("/proc/self/fd/{}", reader.as_raw_fd()))?;
    Ok(())
}
