//! Attempts to lose the label, to look into other processes and to use capabilities.

use std::{fs, os::unix::fs::chroot, process::Command, thread};

use nix::{
    sched::{CloneFlags, setns, unshare},
    sys::ptrace,
    unistd::{Pid, gethostname, sethostname, setsid},
};

use super::{
    attempt::Attempt,
    files::read,
    policies::{NO_CAPABILITY, RULES, RUNTIME_DEFAULT},
};
use crate::attack::Failure;

const SECRET: &str = "/prot/secret";

pub(super) fn attempts() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, RULES, run);
    vec![
        attack("read in a new mount namespace", || {
            unshare(CloneFlags::CLONE_NEWNS)?;
            read(SECRET)
        }),
        attack(
            "read in new user and mount namespaces, one after the other",
            || {
                unshare(CloneFlags::CLONE_NEWUSER)?;
                unshare(CloneFlags::CLONE_NEWNS)?;
                read(SECRET)
            },
        ),
        attack("read in a new pid namespace", || {
            unshare(CloneFlags::CLONE_NEWPID)?;
            in_child(SECRET)
        }),
        attack("read in the first process's mount namespace", || {
            // Its own namespace again, by the descriptor: the look into another process is another attempt.
            let namespace = fs::File::open("/proc/self/ns/mnt")?;
            unshare(CloneFlags::CLONE_NEWNS)?;
            setns(namespace, CloneFlags::CLONE_NEWNS)?;
            read(SECRET)
        }),
        attack("read after a change of root", || {
            chroot("/prot")?;
            read("/secret")
        }),
        attack("read in another cgroup", || {
            fs::write("/sys/fs/cgroup/cgroup.procs", "0")?;
            read(SECRET)
        }),
        attack("read in a thread", || {
            thread::spawn(|| read(SECRET))
                .join()
                .map_err(|_| Failure::Broken("the thread panicked".to_owned()))?
        }),
        attack("read in a child of a session of its own", || {
            // A session leader cannot become one again; the attempt's own process is none.
            setsid()?;
            in_child(SECRET)
        }),
        attack("trace a process outside", || trace(Pid::from_raw(1))),
        // Not `maps` or `environ`: since 6.13 CAP_PERFMON reads them without asking for ptrace.
        attack("read the namespaces of a process outside", || {
            fs::read_link("/proc/1/ns/mnt")?;
            Ok(())
        }),
        Attempt::benign("trace a child", RULES, trace_child),
        Attempt::attack("set the host's name", NO_CAPABILITY, || {
            Ok(sethostname(gethostname()?)?)
        }),
        Attempt::attack(
            "set the host's name in a new user namespace",
            NO_CAPABILITY,
            || {
                unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWUTS)?;
                Ok(sethostname("evil")?)
            },
        ),
        Attempt::attack("change the root", NO_CAPABILITY, || Ok(chroot("/prot")?)),
        Attempt::benign("start a child without capabilities", NO_CAPABILITY, || {
            in_child("/exact/file")
        }),
        Attempt::attack("trace a process outside by default", RUNTIME_DEFAULT, || {
            trace(Pid::from_raw(1))
        }),
        Attempt::benign("trace a child by default", RUNTIME_DEFAULT, trace_child),
    ]
}

fn in_child(path: &str) -> Result<(), Failure> {
    let output = Command::new("/bin/busybox").args(["cat", path]).output()?;
    let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() {
        Ok(())
    } else if errors.contains("not permitted") || errors.contains("denied") {
        Err(Failure::Refused(errors))
    } else {
        Err(Failure::Broken(errors))
    }
}

fn trace(pid: Pid) -> Result<(), Failure> {
    ptrace::seize(pid, ptrace::Options::empty())?;
    // A seized process is let go by the end of the attempt.
    Ok(())
}

fn trace_child() -> Result<(), Failure> {
    let mut child = Command::new("/bin/busybox").args(["sleep", "10"]).spawn()?;
    let pid = i32::try_from(child.id()).map_err(|error| Failure::Broken(error.to_string()))?;
    let result = ptrace::seize(Pid::from_raw(pid), ptrace::Options::empty());
    let _ = child.kill();
    let _ = child.wait();
    Ok(result?)
}
