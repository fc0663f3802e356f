//! F-4: every call that changes a file without opening it, by path, by descriptor and relative to a folder.

use std::{
    fs::{self, File, OpenOptions},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{PermissionsExt, chown, fchown, lchown, symlink},
            net::UnixListener,
        },
    },
};

use nix::{
    sys::stat::{Mode, SFlag, mknod},
    unistd::{mkfifo, truncate},
};
use rustix::fs::{
    AtFlags, CWD, FileType, IFlags, Mode as RustixMode, OFlags, RenameFlags, Timespec, Timestamps,
    XattrFlags, chmodat, chownat, fremovexattr, fsetxattr, futimens, ioctl_getflags, ioctl_setflags, linkat,
    lsetxattr, mkdirat, mknodat, open, openat, removexattr, renameat, renameat_with, setxattr, symlinkat,
    unlinkat, utimensat,
};

use super::{
    case::{Case, Done, Failure, Step, Under, setup},
    identity::inherit,
    place::ROOT,
    policies::RULES,
    raw::{self, Mapping, Submission},
};

/// The protected folder is elsewhere in containers, and on the machine that they run on.
fn base() -> String {
    let place = std::env::var("BATTERY_BASE").unwrap_or_else(|_| "/data".to_owned());
    if fs::metadata(format!("{place}/ro")).is_ok() {
        place
    } else {
        String::new()
    }
}

fn at(name: &str) -> String {
    format!("{}/ro/{name}", base())
}

fn file() -> String {
    at("file")
}

const TRUSTED: &str = "trusted.battery";
const ACL: &str = "system.posix_acl_access";
/// Version 2; the owner and the group may read and write, others may read.
const ACL_VALUE: [u8; 28] = [
    2, 0, 0, 0, 1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, 4, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, 0x20, 0, 4, 0, 0xff,
    0xff, 0xff, 0xff,
];

pub(super) fn case() -> Case {
    Case::new(
        "F-4",
        "change a write-protected file or folder by calls that are no open",
        direct()
            .into_iter()
            .chain(
                INHERITED
                    .iter()
                    .map(|(name, run)| Under(RULES, ROOT).attack(name, *run).after(inherit_writable)),
            )
            .collect(),
    )
}

/// The steps that can be made on a file system that only containers have.
pub(super) fn on_disk(case: &str) -> Vec<Step> {
    if case == "F-4" { direct() } else { renames() }
}

fn direct() -> Vec<Step> {
    let rules = Under(RULES, ROOT);
    let mut steps = vec![rules.plain("open it for writing", || open_write(&file()))];
    let tables: [&[Entry]; 4] = [CONTENT, NAMES, ATTRIBUTES, DESCRIPTORS];
    steps.extend(
        tables
            .into_iter()
            .flatten()
            .map(|(name, run)| rules.attack(name, *run)),
    );
    steps.push(rules.benign("the same calls elsewhere", elsewhere));
    steps
}

fn renames() -> Vec<Step> {
    let rules = Under(RULES, ROOT);
    vec![
        rules.plain("open it for writing", || open_write(&file())),
        rules.attack("rename it away", || {
            Ok(fs::rename(file(), format!("{}/field/away", base()))?)
        }),
        rules.attack("rename over it", || Ok(fs::rename(neighbour()?, file())?)),
        rules.attack("exchange, it being the new name", || {
            exchange(&neighbour()?, &file())
        }),
        rules.attack("exchange, it being the old name", || {
            exchange(&file(), &neighbour()?)
        }),
        rules.attack("rename the folder", || {
            Ok(fs::rename(format!("{}/ro", base()), format!("{}/rw", base()))?)
        }),
        rules.benign("rename another file", || {
            Ok(fs::rename(neighbour()?, format!("{}/field/other", base()))?)
        }),
    ]
}

type Entry = (&'static str, fn() -> Done);

const CONTENT: &[Entry] = &[
    ("truncate", || Ok(truncate(file().as_str(), 3)?)),
    ("open with O_TRUNC", || {
        open(file(), OFlags::RDONLY | OFlags::TRUNC, RustixMode::empty())?;
        Ok(())
    }),
    ("open with O_CREAT, which must leave nothing", || {
        let path = at("new");
        let result = File::create(&path);
        if result.is_err() && fs::symlink_metadata(&path).is_ok() {
            return Err(Failure::Broken(format!("{path} was refused and yet exists")));
        }
        Ok(result.map(drop)?)
    }),
    ("O_TMPFILE and linkat", || {
        let flags = OFlags::WRONLY | OFlags::TMPFILE;
        let made = open(format!("{}/ro", base()), flags, RustixMode::RUSR)?;
        linkat(made, "", CWD, at("new"), AtFlags::EMPTY_PATH)?;
        Ok(())
    }),
    ("open by io_uring", || {
        let path = raw::text(&file());
        raw::uring(&Submission {
            opcode: 18,
            address: Some(path.as_bytes_with_nul()),
            flags: OFlags::WRONLY.bits(),
            ..Submission::default()
        })?;
        Ok(())
    }),
];

const NAMES: &[Entry] = &[
    ("unlink", || Ok(fs::remove_file(file())?)),
    ("unlinkat", || Ok(unlinkat(folder()?, "file", AtFlags::empty())?)),
    ("unlink by io_uring", || {
        let path = raw::text(&file());
        raw::uring(&Submission {
            opcode: 36,
            address: Some(path.as_bytes_with_nul()),
            ..Submission::default()
        })?;
        Ok(())
    }),
    ("rmdir", || Ok(fs::remove_dir(at("empty"))?)),
    ("unlinkat with AT_REMOVEDIR", || {
        Ok(unlinkat(folder()?, "empty", AtFlags::REMOVEDIR)?)
    }),
    ("mkdir", || Ok(fs::create_dir(at("new"))?)),
    ("mkdirat", || Ok(mkdirat(folder()?, "new", RustixMode::RWXU)?)),
    ("mkdir by io_uring", || {
        let path = raw::text(&at("new"));
        raw::uring(&Submission {
            opcode: 37,
            address: Some(path.as_bytes_with_nul()),
            length: 0o700,
            ..Submission::default()
        })?;
        Ok(())
    }),
    ("mknod", || {
        Ok(mknod(at("new").as_str(), SFlag::S_IFIFO, Mode::S_IRUSR, 0)?)
    }),
    ("mknodat", || {
        Ok(mknodat(
            folder()?,
            "new",
            FileType::RegularFile,
            RustixMode::RUSR,
            0,
        )?)
    }),
    ("mkfifo", || Ok(mkfifo(at("new").as_str(), Mode::S_IRUSR)?)),
    ("symlink", || Ok(symlink("anything", at("new"))?)),
    ("symlinkat", || Ok(symlinkat("anything", folder()?, "new")?)),
    ("link into it", || Ok(fs::hard_link(neighbour()?, at("new"))?)),
    ("rename into it", || Ok(fs::rename(neighbour()?, at("new"))?)),
    ("renameat out of it", || {
        Ok(renameat(
            folder()?,
            "file",
            CWD,
            format!("{}/field/away", base()),
        )?)
    }),
    ("bind a unix socket in it", || {
        UnixListener::bind(at("socket"))?;
        Ok(())
    }),
];

const ATTRIBUTES: &[Entry] = &[
    ("chmod", || {
        Ok(fs::set_permissions(file(), PermissionsExt::from_mode(0o600))?)
    }),
    ("fchmodat", || {
        Ok(chmodat(folder()?, "file", RustixMode::RUSR, AtFlags::empty())?)
    }),
    ("chown", || Ok(chown(file(), Some(1), Some(1))?)),
    ("lchown", || Ok(lchown(file(), Some(1), Some(1))?)),
    ("fchownat", || {
        Ok(chownat(
            folder()?,
            "file",
            None,
            Some(rustix::fs::Gid::from_raw(1)),
            AtFlags::empty(),
        )?)
    }),
    ("setxattr", || {
        Ok(setxattr(file(), TRUSTED, b"x", XattrFlags::empty())?)
    }),
    ("lsetxattr", || {
        Ok(lsetxattr(file(), TRUSTED, b"x", XattrFlags::empty())?)
    }),
    ("removexattr", || match removexattr(file(), TRUSTED) {
        // There is none: the kernel has let us try.
        Err(rustix::io::Errno::NODATA) => Ok(()),
        other => Ok(other?),
    }),
    ("set an ACL", || {
        Ok(setxattr(file(), ACL, &ACL_VALUE, XattrFlags::empty())?)
    }),
    ("remove an ACL", || match removexattr(file(), ACL) {
        Err(rustix::io::Errno::NODATA) => Ok(()),
        other => Ok(other?),
    }),
    ("utimensat with a time", || {
        Ok(utimensat(CWD, file(), &times(), AtFlags::empty())?)
    }),
    ("utimensat relative to the folder", || {
        Ok(utimensat(folder()?, "file", &times(), AtFlags::empty())?)
    }),
    ("touch", || Ok(utimensat(CWD, file(), &now(), AtFlags::empty())?)),
    ("file_setattr", || raw::file_setattr(&raw::text(&file()))),
];

/// With a descriptor that may only read.
const DESCRIPTORS: &[Entry] = &[
    ("fchmod", || {
        Ok(reading()?.set_permissions(PermissionsExt::from_mode(0o600))?)
    }),
    ("fchown", || Ok(fchown(reading()?, Some(1), Some(1))?)),
    ("fsetxattr", || {
        Ok(fsetxattr(reading()?, TRUSTED, b"x", XattrFlags::empty())?)
    }),
    ("fremovexattr", || match fremovexattr(reading()?, TRUSTED) {
        Err(rustix::io::Errno::NODATA) => Ok(()),
        other => Ok(other?),
    }),
    ("futimens", || Ok(futimens(reading()?, &times())?)),
    ("FS_IOC_SETFLAGS", || {
        let file = reading()?;
        let flags = ioctl_getflags(&file)?;
        Ok(ioctl_setflags(&file, flags | IFlags::NODUMP)?)
    }),
    ("chmod through /proc/self/fd", || {
        use std::os::fd::AsRawFd;
        let file = setup("open", open(file(), OFlags::PATH, RustixMode::empty()))?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(fs::set_permissions(path, PermissionsExt::from_mode(0o600))?)
    }),
    ("reopen for writing through /proc/self/fd", || {
        use std::os::fd::AsRawFd;
        let file = reading()?;
        open_write(&format!("/proc/self/fd/{}", file.as_raw_fd()))
    }),
    ("map it shared and writable", || {
        let file = OpenOptions::new().read(true).write(true).open(file())?;
        Ok(raw::map_file(file, Mapping::SharedWritable)?)
    }),
];

/// With a descriptor that may write and was open before the container started.
const INHERITED: &[Entry] = &[("ftruncate an inherited descriptor", || {
    let file = File::from(raw::inherited(100)?);
    Ok(file.set_len(3)?)
})];

fn inherit_writable() -> Done {
    inherit(OpenOptions::new().read(true).write(true).open(file())?)
}

fn elsewhere() -> Done {
    let path = neighbour()?;
    truncate(path.as_str(), 3)?;
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640))?;
    chown(&path, Some(1), Some(1))?;
    utimensat(CWD, path.as_str(), &times(), AtFlags::empty())?;
    setxattr(path.as_str(), TRUSTED, b"x", XattrFlags::empty())?;
    let made = format!("{}/field/made", base());
    fs::create_dir(&made)?;
    fs::remove_dir(&made)?;
    Ok(fs::remove_file(path)?)
}

fn exchange(one: &str, other: &str) -> Done {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

fn open_write(path: &str) -> Done {
    OpenOptions::new().write(true).open(path)?;
    Ok(())
}

/// A file beside the protected folder.
fn neighbour() -> Result<String, Failure> {
    let path = format!("{}/field/neighbour", base());
    setup("write", fs::write(&path, "content"))?;
    Ok(path)
}

fn folder() -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    setup(
        "open the folder",
        openat(CWD, format!("{}/ro", base()), flags, RustixMode::empty()),
    )
}

fn reading() -> Result<File, Failure> {
    setup("open", File::open(file()))
}

fn times() -> Timestamps {
    let time = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn now() -> Timestamps {
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
