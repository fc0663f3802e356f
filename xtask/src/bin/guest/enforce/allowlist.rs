//! Attempts under allow-lists: what no rule names is refused, and what a rule allows works.

use std::{
    ffi::CString,
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    os::unix::fs::{PermissionsExt, chroot, symlink},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use nix::{
    mount::{MsFlags, mount, umount},
    sys::{
        ptrace,
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::{Pid, fexecve, sethostname},
};

use super::{
    attempt::Attempt,
    execution::run,
    files::read,
    policies::{ALLOW_LIST, ALLOW_LIST_LOGGED},
};
use crate::attack::Failure;

const NOTHING: Option<&str> = None;

pub(super) fn prepare() -> Result<()> {
    for folder in ["bin", "data/dir", "flat/dir", "log", "mnt", "read", "spare"] {
        fs::create_dir_all(format!("/allow/{folder}"))?;
    }
    for file in [
        "data/file",
        "data/dir/file",
        "flat/dir/file",
        "log/app.log",
        "read/file",
        "spare/file",
    ] {
        fs::write(format!("/allow/{file}"), "content")?;
    }
    for program in ["bin/tool", "data/tool", "spare/tool"] {
        let program = format!("/allow/{program}");
        fs::copy("/proc/self/exe", &program)
            .with_context(|| format!("copy the guest program to {program}"))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    }
    symlink("/allow/bin/tool", "/allow/spare/link")?;
    Ok(())
}

pub(super) fn attempts() -> Vec<Attempt> {
    [refused(), allowed(), logged()].into_iter().flatten().collect()
}

fn refused() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, ALLOW_LIST, run);
    vec![
        attack("read a file that no rule names", || read("/allow/spare/file")),
        attack("list a folder that no rule names", || {
            Ok(fs::read_dir("/allow/spare").map(drop)?)
        }),
        attack("write a file that may be read", || open_write("/allow/read/file")),
        attack("truncate a file that may be appended to", || {
            Ok(File::create("/allow/log/app.log").map(drop)?)
        }),
        attack("create a file in a folder that no rule names", || {
            File::create("/allow/spare/new")?;
            Ok(fs::remove_file("/allow/spare/new")?)
        }),
        attack("remove a file that may be read", || {
            fs::remove_file("/allow/read/file")?;
            Ok(fs::write("/allow/read/file", "content")?)
        }),
        attack("move a file out of where it may be written", || {
            there_and_back("/allow/data/file", "/allow/spare/away")
        }),
        attack("move a file to where it could be executed", || {
            there_and_back("/allow/data/tool", "/allow/bin/new")
        }),
        attack("link a file to where it could be executed", || {
            fs::hard_link("/allow/data/tool", "/allow/bin/linked")?;
            Ok(fs::remove_file("/allow/bin/linked")?)
        }),
        attack("move a folder of which only the top may be written", || {
            there_and_back("/allow/flat/dir", "/allow/flat/moved")
        }),
        attack("run a program that no rule names", || {
            run(Command::new("/allow/spare/tool").arg("--version"))
        }),
        attack("run a program that may be written only", || {
            run(Command::new("/allow/data/tool").arg("--version"))
        }),
        attack("run a program from memory", from_memory),
        attack("change the root without the capability", || {
            Ok(chroot("/allow/data")?)
        }),
        attack("mount a filesystem of a type that is not allowed", || {
            mount(
                Some("proc"),
                "/allow/mnt",
                Some("proc"),
                MsFlags::empty(),
                NOTHING,
            )?;
            Ok(umount("/allow/mnt")?)
        }),
        attack("mount an allowed type over a folder that may be read", || {
            mount(Some("t"), "/allow/read", Some("tmpfs"), MsFlags::empty(), NOTHING)?;
            Ok(umount("/allow/read")?)
        }),
        attack("bind a folder that may be read to another place", || {
            mount(
                Some("/allow/read"),
                "/allow/mnt",
                NOTHING,
                MsFlags::MS_BIND,
                NOTHING,
            )?;
            Ok(umount("/allow/mnt")?)
        }),
        attack("look up the root of the first process", || {
            Ok(fs::read_link("/proc/1/root").map(drop)?)
        }),
        attack("make a socket that is not allowed", || {
            Ok(UdpSocket::bind("127.0.0.1:0").map(drop)?)
        }),
        attack("connect to a port that is not allowed", || {
            Ok(TcpStream::connect("127.0.0.1:91").map(drop)?)
        }),
    ]
}

fn allowed() -> Vec<Attempt> {
    let benign = |name, run| Attempt::benign(name, ALLOW_LIST, run);
    vec![
        benign("read a file that may be read", || read("/allow/read/file")),
        benign("read a file of an allowed folder by a relative path", || {
            std::env::set_current_dir("/allow/read")?;
            read("file")
        }),
        benign("write and append", || {
            open_write("/allow/data/file")?;
            let mut log = OpenOptions::new().append(true).open("/allow/log/app.log")?;
            Ok(log.write_all(b"line\n")?)
        }),
        benign("create, rename and remove below an allowed folder", || {
            File::create("/allow/data/new")?;
            fs::rename("/allow/data/new", "/allow/data/dir/new")?;
            Ok(fs::remove_file("/allow/data/dir/new")?)
        }),
        benign(
            "make, move and remove a folder of which all may be written",
            || {
                fs::create_dir("/allow/data/folder")?;
                fs::rename("/allow/data/folder", "/allow/data/dir/folder")?;
                Ok(fs::remove_dir("/allow/data/dir/folder")?)
            },
        ),
        benign("run an allowed program", || {
            run(Command::new("/allow/bin/tool").arg("--version"))
        }),
        benign("run an allowed program through a link that no rule names", || {
            run(Command::new("/allow/spare/link").arg("--version"))
        }),
        benign("write to a pipe and to memory", || {
            let (mut reader, mut writer) = std::io::pipe()?;
            writer.write_all(b"x")?;
            reader.read_exact(&mut [0])?;
            let mut memory = File::from(memory("data")?);
            Ok(memory.write_all(b"x")?)
        }),
        benign("use an allowed capability", || {
            let name = nix::unistd::gethostname()?;
            Ok(sethostname(name)?)
        }),
        benign("mount and unmount what is allowed", || {
            mount(Some("t"), "/allow/mnt", Some("tmpfs"), MsFlags::empty(), NOTHING)?;
            Ok(umount("/allow/mnt")?)
        }),
        benign("trace a process of the same container", trace_child),
        benign("connect to an allowed port", || {
            Ok(TcpStream::connect("127.0.0.1:85").map(drop)?)
        }),
    ]
}

/// What an allow-list refuses works while violations are allowed.
fn logged() -> Vec<Attempt> {
    let benign = |name, run| Attempt::benign(name, ALLOW_LIST_LOGGED, run);
    vec![
        benign("violate a logged allow-list by reading", || {
            read("/allow/spare/file")
        }),
        benign("violate a logged allow-list by running", || {
            run(Command::new("/allow/spare/tool").arg("--version"))
        }),
        benign("violate a logged allow-list by a capability", || {
            Ok(chroot("/allow/data")?)
        }),
        benign("violate a logged allow-list by a mount", || {
            mount(Some("t"), "/allow/mnt", Some("tmpfs"), MsFlags::empty(), NOTHING)?;
            Ok(umount("/allow/mnt")?)
        }),
        benign("violate a logged allow-list by a connection", || {
            Ok(TcpStream::connect("127.0.0.1:91").map(drop)?)
        }),
    ]
}

fn open_write(path: &str) -> Result<(), Failure> {
    Ok(OpenOptions::new().write(true).open(path).map(drop)?)
}

fn there_and_back(from: &str, to: &str) -> Result<(), Failure> {
    fs::rename(from, to)?;
    Ok(fs::rename(to, from)?)
}

fn memory(name: &str) -> Result<std::os::fd::OwnedFd, Failure> {
    let created = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::empty());
    created.map_err(|error| Failure::Broken(error.to_string()))
}

/// Becomes a copy of this program in memory, which prints the outcome when it runs.
fn from_memory() -> Result<(), Failure> {
    let broken = |error: std::io::Error| Failure::Broken(error.to_string());
    let program = memory("program")?;
    let mut copy = File::from(program.try_clone().map_err(broken)?);
    let mut own = File::open("/allow/bin/tool").map_err(broken)?;
    std::io::copy(&mut own, &mut copy).map_err(broken)?;
    // A file that is open for writing cannot be executed, memory files can.
    let arguments = ["tool", "enforce", "--say"].map(|word| CString::new(word).unwrap_or_default());
    let environment: [CString; 0] = [];
    match fexecve(program, &arguments, &environment) {
        Ok(never) => match never {},
        Err(errno) => Err(errno.into()),
    }
}

fn trace_child() -> Result<(), Failure> {
    let mut child = Command::new("/allow/bin/tool")
        .args(["enforce", "--wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| Failure::Broken(error.to_string()))?;
    let number = i32::try_from(child.id()).map_err(|error| Failure::Broken(error.to_string()))?;
    let peer = Pid::from_raw(number);
    let traced = ptrace::attach(peer).and_then(|()| {
        waitpid(peer, None)?;
        ptrace::detach(peer, None)
    });
    // The stop of the attachment may still be to come, when what was waited for was the end of the child's exec.
    let _ = kill(peer, Signal::SIGCONT);
    drop(child.stdin.take());
    child.wait().map_err(|error| Failure::Broken(error.to_string()))?;
    Ok(traced?)
}
