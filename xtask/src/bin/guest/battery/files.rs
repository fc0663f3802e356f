//! F: files under other names, other mounts, and by calls that are no open.

use std::{
    fs::{self, File, OpenOptions},
    os::fd::AsRawFd,
    process::{Command, Stdio},
};

use nix::{
    fcntl::{AT_FDCWD, RenameFlags, renameat2},
    sys::{
        ptrace,
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, chdir},
};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};

use super::{
    case::{Case, Done, Failure, Under, broken, setup},
    execution::{guest, recreate},
    identity::{read, secret},
    mutators,
    place::ROOT,
    policies::RULES,
    raw::{self, Submission},
    stage::DEPTHS,
};

const FILE: &str = "/ro/file";

pub(super) fn cases() -> Vec<Case> {
    vec![
        links(),
        renames(),
        parents(),
        mutators::case(),
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
                fs::hard_link(FILE, "/field/hard")?;
                append("/field/hard")
            }),
            rules.attack("by linkat through /proc/self/fd", || {
                let file = setup("open", File::open(FILE))?;
                let name = format!("/proc/self/fd/{}", file.as_raw_fd());
                linkat(CWD, name, CWD, "/field/hard", AtFlags::SYMLINK_FOLLOW)?;
                append("/field/hard")
            }),
            rules.attack("by linkat with AT_EMPTY_PATH", || {
                let file = setup("open", open(FILE, OFlags::PATH, Mode::empty()))?;
                linkat(file, "", CWD, "/field/hard", AtFlags::EMPTY_PATH)?;
                append("/field/hard")
            }),
            rules.attack("on a volume", || {
                fs::hard_link("/vol/ro/file", "/vol/field/hard")?;
                append("/vol/field/hard")
            }),
            rules.attack("by io_uring", || {
                let (from, to) = (raw::text(FILE), raw::text("/field/hard"));
                uring_two(39, from.as_bytes_with_nul(), &to)?;
                append("/field/hard")
            }),
            rules.benign("link another file", || {
                fs::hard_link("/field/file", "/field/hard")?;
                append("/field/hard")
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
            rules.attack("rename it away", || Ok(fs::rename(FILE, "/field/away")?)),
            rules.attack("rename over it", || Ok(fs::rename("/field/file", FILE)?)),
            rules.attack("exchange, it being the new name", || {
                exchange("/field/file", FILE)
            }),
            rules.attack("exchange, it being the old name", || {
                exchange(FILE, "/field/file")
            }),
            rules.attack("rename it away on a volume", || {
                Ok(fs::rename("/vol/ro/file", "/vol/field/away")?)
            }),
            rules.attack("exchange on a volume", || {
                exchange("/vol/field/file", "/vol/ro/file")
            }),
            rules.attack("exchange on a volume, the other way", || {
                exchange("/vol/ro/file", "/vol/field/file")
            }),
            rules.attack("rename it away by io_uring", || {
                uring_two(35, raw::text(FILE).as_bytes_with_nul(), &raw::text("/field/away"))
            }),
            rules.benign("rename and exchange other files", || {
                fs::write("/field/one", "1")?;
                exchange("/field/one", "/field/file")?;
                Ok(fs::rename("/field/one", "/field/two")?)
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
            rules
                .attack("rename the folder", || {
                    fs::rename("/prot", "/field/p2")?;
                    read("/field/p2/secret")
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
                exchange("/vol/field", "/vol/deep")?;
                read("/vol/field/er/prot/secret")
            }),
            rules.benign("rename another folder", || {
                Ok(fs::rename("/vol/field", "/vol/field-2")?)
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
            rules
                .attack("1,500 down, by a relative path", || read("secret"))
                .after(|| {
                    chdir("/vol/prot")?;
                    for _ in 0..1500 {
                        fs::create_dir("d")?;
                        chdir("d")?;
                    }
                    Ok(fs::write("secret", "content")?)
                }),
            rules.attack("after moving its folder deeper", || {
                fs::create_dir_all("/vol/field/a/b/c/d")?;
                fs::rename("/vol/prot/sub", "/vol/field/a/b/c/d/sub")?;
                read("/vol/field/a/b/c/d/sub/secret")
            }),
            rules.benign("many folders down elsewhere", || {
                let folder = format!("/field/{}", "d/".repeat(40));
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

fn exchange(one: &str, other: &str) -> Done {
    Ok(renameat2(
        AT_FDCWD,
        one,
        AT_FDCWD,
        other,
        RenameFlags::RENAME_EXCHANGE,
    )?)
}

/// An operation of `io_uring` with two paths.
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
    Ok(Pid::from_raw(
        i32::try_from(child.id()).map_err(|_| broken("no pid"))?,
    ))
}
