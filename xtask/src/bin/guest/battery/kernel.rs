//! P: ptrace; Q-1: user namespaces.

use std::{
    fs::{self, File, OpenOptions},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    libc,
    sched::{CloneFlags, setns, unshare},
    sys::ptrace,
    unistd::Pid,
};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::{
    case::{Case, Done, Failure, Under, broken, setup},
    identity::{helper, start_helper},
    place::{NOBODY, ROOT},
    policies::{RUNTIME, USER_NAMESPACES},
    raw,
};

pub(super) fn cases() -> Vec<Case> {
    let inside = Under(RUNTIME, ROOT);
    let outside = Under(RUNTIME, ROOT.host_pids());
    vec![
        Case::new(
            "P-3",
            "a process in another mount namespace is not outside for that",
            vec![
                outside
                    .plain("trace a process outside", trace_outside)
                    .after(start_helper),
                inside.benign("trace a child that has unshared its mount namespace", || {
                    trace_child(Some("--helper"))
                }),
                inside.benign("trace a child", || trace_child(None)),
            ],
        ),
        looks(),
        Case::new(
            "P-5",
            "a raw rule that only audits does not weaken the built-in denial",
            vec![
                outside
                    .plain("trace a process outside", trace_outside)
                    .after(start_helper),
            ],
        )
        .note("the policy is RuntimeDefault together with a raw ptrace rule that audits"),
        user_namespaces(),
    ]
}

fn looks() -> Case {
    let outside = Under(RUNTIME, ROOT.host_pids());
    Case::new(
        "P-4",
        "look into a process outside by every call",
        vec![
            outside.plain("trace it", trace_outside).after(start_helper),
            outside
                .attack("process_vm_readv", || {
                    let pid = helper()?;
                    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
                    let start = maps
                        .split('-')
                        .next()
                        .and_then(|text| u64::from_str_radix(text, 16).ok());
                    Ok(raw::process_vm_readv(
                        pid,
                        start.ok_or_else(|| broken("no maps"))?,
                    )?)
                })
                .after(start_helper),
            outside
                .attack("its memory file", || {
                    OpenOptions::new()
                        .read(true)
                        .write(true)
                        .open(format!("/proc/{}/mem", helper()?))?;
                    Ok(())
                })
                .after(start_helper),
            outside
                .attack("its root", || {
                    fs::read(format!("/proc/{}/root/field/file", helper()?))?;
                    Ok(())
                })
                .after(start_helper),
            outside
                .attack("its namespaces", || {
                    File::open(format!("/proc/{}/ns/mnt", helper()?))?;
                    Ok(())
                })
                .after(start_helper),
            outside
                .attack("its descriptors by pidfd_getfd", || {
                    let pid = rustix::process::Pid::from_raw(helper()?).ok_or_else(|| broken("no pid"))?;
                    let pidfd = setup("pidfd_open", pidfd_open(pid, PidfdFlags::empty()))?;
                    pidfd_getfd(&pidfd, 0, PidfdGetfdFlags::empty())?;
                    Ok(())
                })
                .after(start_helper),
        ],
    )
}

fn user_namespaces() -> Case {
    let users = Under(USER_NAMESPACES, NOBODY);
    Case::new(
        "Q-1",
        "make a user namespace by another call than unshare",
        vec![
            users
                .plain("unshare", || Ok(unshare(CloneFlags::CLONE_NEWUSER)?))
                .unless(lacking),
            users
                .attack("clone", || raw::in_clone(libc::CLONE_NEWUSER, || Ok(())))
                .unless(lacking),
            users
                .attack("clone3", || raw::in_clone3(libc::CLONE_NEWUSER, || Ok(())))
                .unless(lacking),
            users.benign("start a child", || raw::in_child(|| Ok(()))),
            Under(USER_NAMESPACES, ROOT).benign("enter the namespace that one is in", || {
                // The kernel refuses it with EINVAL, and only that.
                let namespace = setup("open", File::open("/proc/self/ns/user"))?;
                match setns(namespace, CloneFlags::CLONE_NEWUSER) {
                    Err(nix::errno::Errno::EINVAL) => Ok(()),
                    other => Ok(other?),
                }
            }),
        ],
    )
}

/// Why this kernel cannot refuse the making of a user namespace.
fn lacking() -> Option<String> {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    (!symbols.contains("security_create_user_ns")).then(|| {
        "this kernel has no hook userns_create; disallow-abuse-user-ns refuses what such a namespace gives".to_owned()
    })
}

fn trace_outside() -> Done {
    ptrace::seize(Pid::from_raw(helper()?), ptrace::Options::empty())?;
    Ok(())
}

fn trace_child(argument: Option<&str>) -> Done {
    let mut child = Command::new("/varmor-guest")
        .arg(if argument.is_some() { "battery" } else { "wait" })
        .args(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let pid = i32::try_from(child.id()).map_err(|_| broken("no pid"))?;
    let result = ready(pid, argument.is_some())
        .and_then(|()| Ok(ptrace::seize(Pid::from_raw(pid), ptrace::Options::empty())?));
    let _ = child.kill();
    let _ = child.wait();
    result
}

/// A child that must leave the namespace has left it.
fn ready(pid: i32, leaves: bool) -> Result<(), Failure> {
    let own = fs::read_link("/proc/self/ns/mnt")?;
    let start = Instant::now();
    while leaves && fs::read_link(format!("/proc/{pid}/ns/mnt"))? == own {
        if start.elapsed() > Duration::from_mins(1) {
            return Err(broken("the child stays in the namespace"));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
