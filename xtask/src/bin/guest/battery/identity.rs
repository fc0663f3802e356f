//! I: losing the policy through identity, lifetime and tampering.

use std::{
    fs::{self, File},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::{
    libc,
    mount::{MsFlags, mount},
    sched::{CloneFlags, CpuSet, sched_setaffinity, setns, unshare},
    sys::{
        ptrace,
        signal::{Signal, kill},
    },
    unistd::{Pid, chdir, chroot},
};
use rustix::{
    process::{PidfdFlags, pidfd_open},
    thread::CapabilitySet as Cap,
};

use super::{
    case::{Case, Done, Failure, Under, broken, setup},
    place::{NOBODY, Place, ROOT},
    policies::{MANY, NO_CAPABILITY, RULES},
    raw,
};

pub(super) const SECRET: &str = "/prot/secret";
const NOTHING: Option<&str> = None;
/// Where a preparation leaves the process that a step needs.
const HELPER: &str = "/tmp/helper";
/// Where the descriptor is that a step inherits.
const INHERITED: i32 = 100;

pub(super) fn cases() -> Vec<Case> {
    let bare = Under(NO_CAPABILITY, NOBODY);
    let unprivileged = Under(RULES, NOBODY);
    let admin = Under(RULES, Place::with(Cap::SYS_ADMIN.union(Cap::SYS_CHROOT)));
    vec![
        Case::new(
            "I-1",
            "read a denied file after unshare(NEWUSER), then unshare(NEWNS)",
            vec![
                bare.plain("read it", secret),
                bare.attack("two unshares under disable-cap-all", two_unshares),
                unprivileged.plain("read it without the capability rule", secret),
                unprivileged.attack("two unshares", two_unshares),
                unprivileged.attack("one unshare", || {
                    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
                    secret()
                }),
                unprivileged.attack("clone(NEWUSER), then unshare(NEWNS)", || {
                    raw::in_clone(libc::CLONE_NEWUSER, || {
                        unshare(CloneFlags::CLONE_NEWNS)?;
                        secret()
                    })
                }),
                unprivileged.attack("clone3(NEWUSER|NEWNS)", || {
                    raw::in_clone3(libc::CLONE_NEWUSER | libc::CLONE_NEWNS, secret)
                }),
                unprivileged.benign("read another file there", || {
                    unshare(CloneFlags::CLONE_NEWUSER)?;
                    unshare(CloneFlags::CLONE_NEWNS)?;
                    read("/exact/file-2")
                }),
            ],
        ),
        Case::new(
            "I-2",
            "read it after unshare -m, clone(NEWNS), or in a nested container",
            vec![
                admin.plain("read it", secret),
                admin.attack("unshare(NEWNS)", || {
                    unshare(CloneFlags::CLONE_NEWNS)?;
                    secret()
                }),
                admin.attack("clone(NEWNS)", || raw::in_clone(libc::CLONE_NEWNS, secret)),
                admin.attack("clone3(NEWNS|NEWPID)", || {
                    raw::in_clone3(libc::CLONE_NEWNS | libc::CLONE_NEWPID, secret)
                }),
                unprivileged.attack("a nested container of an unprivileged user", nested),
            ],
        ),
        namespaces_of_others(),
        Case::new(
            "I-4",
            "read it in the process that has unshared its pid namespace",
            vec![
                admin.plain("read it", secret),
                admin.attack("unshare(NEWPID), then read", || {
                    unshare(CloneFlags::CLONE_NEWPID)?;
                    secret()
                }),
                admin.attack("and in the new namespace", || {
                    unshare(CloneFlags::CLONE_NEWPID)?;
                    raw::in_child(secret)
                }),
                unprivileged.attack("after unshare(NEWUSER)", || {
                    unshare(CloneFlags::CLONE_NEWUSER)?;
                    unshare(CloneFlags::CLONE_NEWPID)?;
                    secret()
                }),
            ],
        ),
        Case::new(
            "I-5",
            "read it in a container with the machine's pid namespace",
            vec![Under(RULES, ROOT.host_pids()).plain("read it", secret)],
        ),
        Case::new(
            "I-10",
            "more rules than a policy of another enforcer can have",
            vec![
                Under(MANY, ROOT).plain("read what the last of 301 rules denies", secret),
                Under(MANY, ROOT).benign("read what none of them denies", || read("/exact/file")),
            ],
        ),
        Case::new(
            "I-17",
            "64 threads on one processor, half of them reading what is denied",
            vec![
                admin.plain("read it", secret),
                admin.attack("one of 64 threads that preempt each other", threads),
            ],
        )
        .note("the matrix has no kernel that is built or booted fully preemptible"),
        tampering(),
    ]
}

fn namespaces_of_others() -> Case {
    let rights = Cap::SYS_ADMIN.union(Cap::SYS_CHROOT).union(Cap::SYS_PTRACE);
    let host = Under(RULES, Place::with(rights).host_pids());
    Case::new(
        "I-3",
        "read it in the mount namespace of another process",
        vec![
            host.plain("read it", secret),
            host.attack("setns by /proc/PID/ns/mnt", || {
                let namespace = File::open(format!("/proc/{}/ns/mnt", helper()?))?;
                setns(namespace, CloneFlags::CLONE_NEWNS)?;
                secret()
            })
            .after(start_helper),
            host.attack("setns by a pidfd", || {
                let pid = rustix::process::Pid::from_raw(helper()?).ok_or_else(|| broken("no pid"))?;
                let pidfd = setup("pidfd_open", pidfd_open(pid, PidfdFlags::empty()))?;
                setns(pidfd, CloneFlags::CLONE_NEWNS)?;
                secret()
            })
            .after(start_helper),
            host.attack("setns by an inherited descriptor", || {
                let namespace = File::open(format!("/proc/self/fd/{INHERITED}"))?;
                setns(namespace, CloneFlags::CLONE_NEWNS)?;
                secret()
            })
            .after(|| {
                start_helper()?;
                inherit(File::open(format!("/proc/{}/ns/mnt", helper()?))?)
            }),
        ],
    )
}

fn tampering() -> Case {
    let rights = Cap::SYS_ADMIN
        .union(Cap::BPF)
        .union(Cap::DAC_OVERRIDE)
        .union(Cap::KILL)
        .union(Cap::SYS_PTRACE);
    let host = Under(RULES, Place::with(rights).host_pids());
    Case::new(
        "I-18",
        "reach the enforcer's maps, programs, links, pins and process",
        vec![
            host.plain("read the denied file", secret),
            host.attack("open its maps by id", || any_of(&MAPS))
                .after(enforcer_ids),
            host.attack("open its programs by id", || any_of(&PROGRAMS))
                .after(enforcer_ids),
            host.attack("open its links by id", || any_of(&LINKS))
                .after(enforcer_ids),
            host.attack("open its pinned maps and programs", || {
                open_pins(&["maps", "programs"])
            }),
            host.attack("rename its pins", || {
                let folder = pins()?;
                let moved = format!("{folder}-moved");
                fs::rename(&folder, &moved)?;
                Ok(fs::rename(&moved, &folder)?)
            }),
            host.attack("remove its pins", || {
                let folder = pins()?;
                // An empty name in it: removing a pin for good would end the other attempts.
                match fs::remove_dir(&folder) {
                    // The folder is full: the kernel has let us try.
                    Err(error) if error.raw_os_error() == Some(libc::ENOTEMPTY) => Ok(()),
                    other => Ok(other?),
                }
            }),
            host.attack("signal the enforcer", || Ok(kill(agent()?, Signal::SIGCONT)?)),
            host.attack("trace the enforcer", || {
                ptrace::seize(agent()?, ptrace::Options::empty())?;
                Ok(())
            }),
        ],
    )
    .note("a pinned link can be opened and gives nothing: the kernel neither detaches nor replaces programs of LSM links")
}

pub(super) fn read(path: &str) -> Done {
    fs::read(path)?;
    Ok(())
}

pub(super) fn secret() -> Done {
    read(SECRET)
}

pub(super) fn two_unshares() -> Done {
    unshare(CloneFlags::CLONE_NEWUSER)?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    secret()
}

/// What bubblewrap does: namespaces, a new root made of the old one, and a change of root.
fn nested() -> Done {
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    become_root(65534)?;
    mount(
        NOTHING,
        "/",
        NOTHING,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        NOTHING,
    )?;
    mount(Some("tmpfs"), "/tmp", Some("tmpfs"), MsFlags::empty(), NOTHING)?;
    fs::create_dir("/tmp/root")?;
    mount(
        Some("/"),
        "/tmp/root",
        NOTHING,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        NOTHING,
    )?;
    chdir("/tmp/root")?;
    mount(Some("."), "/", NOTHING, MsFlags::MS_MOVE, NOTHING)?;
    chroot(".")?;
    secret()
}

/// Maps the user that this process was to root in its new user namespace.
pub(super) fn become_root(outside: u32) -> Done {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {outside} 1"))?;
    Ok(fs::write("/proc/self/gid_map", format!("0 {outside} 1"))?)
}

/// A process outside of the policy that has a mount namespace of its own.
pub(super) fn start_helper() -> Done {
    let child = Command::new("/varmor-guest")
        .args(["battery", "--helper"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    fs::write(HELPER, child.id().to_string())?;
    let own = fs::read_link("/proc/self/ns/mnt")?;
    let namespace = format!("/proc/{}/ns/mnt", child.id());
    let start = Instant::now();
    while fs::read_link(&namespace)? == own {
        if start.elapsed() > Duration::from_mins(1) {
            return Err(broken("the helper has no namespace of its own"));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// What the helper does: it lives for a while, in a mount namespace of its own.
pub(super) fn help() -> anyhow::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    thread::sleep(Duration::from_mins(2));
    Ok(())
}

pub(super) fn helper() -> Result<i32, Failure> {
    number_in(HELPER)
}

fn number_in(file: &str) -> Result<i32, Failure> {
    let text = setup(file, fs::read_to_string(file))?;
    text.trim()
        .parse()
        .map_err(|_| broken(format!("{file} holds `{text}`")))
}

fn agent() -> Result<Pid, Failure> {
    number_in("/tmp/agent").map(Pid::from_raw)
}

/// Leaves a descriptor open for the step under a known number.
pub(super) fn inherit(file: impl AsFd) -> Done {
    raw::duplicate_to(file.as_fd().as_raw_fd(), INHERITED)?;
    Ok(())
}

fn threads() -> Done {
    let mut one = CpuSet::new();
    one.set(0)?;
    sched_setaffinity(Pid::from_raw(0), &one)?;
    let long = format!("/prot/../{}exact/file-2", "field/../".repeat(100));
    let end = Instant::now() + Duration::from_secs(4);
    let (reached, worked) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..64 {
            let (long, reached, worked) = (&long, &reached, &worked);
            scope.spawn(move || {
                while Instant::now() < end {
                    if number % 2 == 0 {
                        reached.fetch_add(u64::from(File::open(SECRET).is_ok()), Ordering::Relaxed);
                    } else {
                        worked.fetch_add(u64::from(File::open(long).is_ok()), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    match (reached.into_inner(), worked.into_inner()) {
        (_, 0) => Err(broken("no thread could open what is allowed")),
        (0, worked) => Err(Failure::Refused(format!("while {worked} allowed opens worked"))),
        _ => Ok(()),
    }
}

/// The commands of bpf(2) that go through objects, and those that open one.
struct Objects {
    next: u32,
    open: u32,
    file: &'static str,
}

const PROGRAMS: Objects = Objects {
    next: 11,
    open: 13,
    file: "/tmp/programs",
};
const MAPS: Objects = Objects {
    next: 12,
    open: 14,
    file: "/tmp/maps",
};
const LINKS: Objects = Objects {
    next: 31,
    open: 30,
    file: "/tmp/links",
};
const OBJ_GET: u32 = 7;

/// Before the container: which objects there are. In this guest all are the enforcer's.
fn enforcer_ids() -> Done {
    for Objects { next, file, .. } in [PROGRAMS, MAPS, LINKS] {
        let mut ids = Vec::new();
        let mut attribute = [0; 16];
        while raw::bpf(next, &mut attribute).is_ok() {
            attribute[0] = attribute[1];
            ids.push(attribute[0].to_string());
        }
        fs::write(file, ids.join("\n"))?;
    }
    Ok(())
}

/// Opens every object of a kind; succeeds if one opens.
fn any_of(kind: &Objects) -> Done {
    let text = setup("read the ids", fs::read_to_string(kind.file))?;
    let mut refused = 0;
    for id in text.lines().filter_map(|line| line.parse::<u32>().ok()) {
        let mut attribute = [0; 16];
        attribute[0] = id;
        match raw::bpf_fd(kind.open, &mut attribute) {
            Ok(_) => return Ok(()),
            Err(nix::errno::Errno::EPERM | nix::errno::Errno::EACCES) => refused += 1,
            Err(errno) => return Err(broken(format!("{id}: {errno}"))),
        }
    }
    if refused == 0 {
        return Err(broken(format!("{} names nothing", kind.file)));
    }
    Err(Failure::Refused(format!("all {refused}")))
}

/// The folder of the enforcer's pins.
fn pins() -> Result<String, Failure> {
    let folder = format!("/sys/fs/bpf/varmor-run-{}", agent()?);
    fs::symlink_metadata(&folder)?;
    Ok(folder)
}

/// The pins in the folders of these names.
fn pinned(folders: &[&str]) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for build in fs::read_dir(pins()?)?.flatten() {
        for folder in folders {
            for entry in fs::read_dir(build.path().join(folder))?.flatten() {
                found.push(entry.path().to_string_lossy().into_owned());
            }
        }
    }
    Ok(found)
}

fn open_pins(folders: &[&str]) -> Done {
    for path in pinned(folders)? {
        match pin(&path) {
            Ok(_) => return Ok(()),
            Err(nix::errno::Errno::EPERM | nix::errno::Errno::EACCES) => {}
            Err(errno) => return Err(broken(format!("{path}: {errno}"))),
        }
    }
    Err(Failure::Refused("every pin".to_owned()))
}

fn pin(path: &str) -> nix::Result<OwnedFd> {
    let name = raw::text(path);
    let mut attribute = [0; 16];
    attribute[..2].copy_from_slice(&raw::halves(&name));
    raw::bpf_fd(OBJ_GET, &mut attribute)
}
