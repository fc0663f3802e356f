//! what the rules about system calls are for, by other calls and other entries of the kernel.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
};

use nix::{
    fcntl::{SpliceFFlags, splice, tee},
    libc,
    sys::{sendfile::sendfile, socket::setsockopt, socket::sockopt},
    unistd::pipe,
};

use super::{
    case::{Case, Done, Under, setup},
    place::{Place, ROOT},
    policies::CALLS,
    raw::{self, Submission},
};

/// `varmor run`, which puts the filter on the step, names its cgroup by its process.
const PLACE: Place = ROOT.host_pids();
const TOOL: &str = "/field/tool";
const SOL_SOCKET: u64 = 1;
const SO_ATTACH_FILTER: u64 = 26;
const SO_ATTACH_REUSEPORT_CBPF: u64 = 51;
const PROG_LOAD: u64 = 5;
/// A bit of the register that the kernel does not look at, because the argument is an `int`.
const ABOVE: u64 = 1 << 32;

pub(super) fn cases() -> Vec<Case> {
    vec![executable(), filters(), programs(), pages(), entries()]
}

fn executable() -> Case {
    let calls = Under(CALLS, PLACE);
    Case::new(
        "Q-2",
        "make a file executable by another call than chmod",
        vec![
            calls
                .plain("chmod", || Ok(fs::set_permissions(TOOL, Permissions::from_mode(0o755))?))
                .after(tool),
            calls
                .attack("fchmod", || {
                    let file = setup("open", File::open(TOOL))?;
                    Ok(file.set_permissions(Permissions::from_mode(0o711))?)
                })
                .after(tool),
            calls
                .attack("fchmodat, for the group", || {
                    Ok(rustix::fs::chmodat(
                        rustix::fs::CWD,
                        TOOL,
                        rustix::fs::Mode::from_raw_mode(0o610),
                        rustix::fs::AtFlags::empty(),
                    )?)
                })
                .after(tool),
            calls
                .attack("chmod through the descriptor's link", || {
                    let file = setup("open", File::open(TOOL))?;
                    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
                    Ok(fs::set_permissions(link, Permissions::from_mode(0o755))?)
                })
                .after(tool),
            calls
                .benign("chmod without an executable bit", || {
                    Ok(fs::set_permissions(TOOL, Permissions::from_mode(0o600))?)
                })
                .after(tool),
            calls.benign("create a file with the default mode", || {
                File::create("/field/new")?;
                Ok(())
            }),
        ],
    )
    .note("a file may still be created executable, as copying and linking programs do: rules about executing judge it")
}

fn filters() -> Case {
    let calls = Under(CALLS, PLACE);
    Case::new(
        "Q-3",
        "load classic BPF by other options than SO_ATTACH_FILTER",
        vec![
            calls.plain("SO_ATTACH_FILTER", || attach(SO_ATTACH_FILTER)),
            calls.attack("SO_ATTACH_REUSEPORT_CBPF", || attach(SO_ATTACH_REUSEPORT_CBPF)),
            calls.attack("with a bit above the argument", || attach(SO_ATTACH_FILTER | ABOVE)),
            calls.benign("SO_KEEPALIVE", || {
                let socket = setup("socket", raw::socket(libc::AF_INET, libc::SOCK_STREAM, 0))?;
                Ok(setsockopt(&socket, sockopt::KeepAlive, &true)?)
            }),
        ],
    )
    .note("the rule is about setsockopt(2); a process may put a seccomp filter on itself, which only takes rights away")
}

fn programs() -> Case {
    let calls = Under(CALLS, PLACE);
    Case::new(
        "Q-4",
        "load a program by another spelling of the command",
        vec![
            calls.plain("BPF_PROG_LOAD", || Ok(raw::load_program(PROG_LOAD)?)),
            calls.attack("with a bit above the argument", || {
                Ok(raw::load_program(PROG_LOAD | ABOVE)?)
            }),
            calls.benign("make a map", || {
                // BPF_MAP_TYPE_ARRAY with one element of four bytes.
                let mut attribute = [0; 16];
                attribute[..4].copy_from_slice(&[2, 4, 4, 1]);
                raw::bpf_fd(0, &mut attribute)?;
                Ok(())
            }),
        ],
    )
    .note("the rule is about loading programs: what other commands do needs a program")
}

fn pages() -> Case {
    let calls = Under(CALLS, PLACE);
    Case::new(
        "Q-5",
        "move pages of a file into a pipe by another call than splice",
        vec![
            calls.plain("splice", || {
                let (_reader, writer) = setup("pipe", pipe())?;
                let file = setup("open", File::open("/field/file"))?;
                splice(&file, Some(&mut 0), &writer, None, 1, SpliceFFlags::empty())?;
                Ok(())
            }),
            calls.attack("a ring that could do it", || {
                // IORING_OP_NOP: the ring itself is refused, because its requests pass no filter.
                raw::uring(&Submission::default())?;
                Ok(())
            }),
            calls.benign("tee", || {
                let (reader, writer) = setup("pipe", pipe())?;
                let (_other, target) = setup("pipe", pipe())?;
                setup("write", nix::unistd::write(&writer, b"x"))?;
                tee(&reader, &target, 1, SpliceFFlags::empty())?;
                Ok(())
            }),
            calls.benign("sendfile to a file", || {
                let from = setup("open", File::open("/field/file"))?;
                let to = setup("create", File::create("/field/copy"))?;
                sendfile(&to, &from, None, 1)?;
                Ok(())
            }),
        ],
    )
    .note(
        "from 5.12 on sendfile(2) to a pipe shares pages too; it cannot be told from other uses by a filter, and kernels \
         with CVE-2022-0847 mended do no harm by it",
    )
}

fn entries() -> Case {
    let calls = Under(CALLS, PLACE);
    Case::new(
        "Q-6",
        "enter the kernel as a program of another architecture",
        vec![
            calls
                .plain("fchmod", || {
                    let file = setup("open", File::open(TOOL))?;
                    Ok(file.set_permissions(Permissions::from_mode(0o755))?)
                })
                .after(tool),
            calls
                .attack("as a 32-bit program", || {
                    let file = setup("open", File::open(TOOL))?;
                    Ok(raw::fchmod_32(&file, 0o755)?)
                })
                .after(tool),
            calls
                .attack("by the x32 numbers", || {
                    let file = setup("open", File::open(TOOL))?;
                    let number = u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap_or(u64::MAX);
                    raw::numbers(libc::SYS_fchmod | 0x4000_0000, [number, 0o755, 0, 0])?;
                    Ok(())
                })
                .after(tool),
            calls
                .benign("as a 32-bit program, without an executable bit", || {
                    let file = setup("open", File::open(TOOL))?;
                    Ok(raw::fchmod_32(&file, 0o600)?)
                })
                .after(tool),
        ],
    )
    .note("a process keeps the filter it was started with; the BPF rules of a container that runs change with its policy (I-9)")
}

fn attach(option: u64) -> Done {
    let socket = setup("socket", raw::socket(libc::AF_INET, libc::SOCK_DGRAM, 0))?;
    if option == SO_ATTACH_REUSEPORT_CBPF {
        setup("share the port", setsockopt(&socket, sockopt::ReusePort, &true))?;
    }
    Ok(raw::attach_filter(&socket, SOL_SOCKET, option)?)
}

/// A file that nobody may execute yet.
fn tool() -> Done {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o644)
        .open(TOOL)?;
    Ok(())
}
