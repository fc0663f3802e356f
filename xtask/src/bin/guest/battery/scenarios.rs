//! S1 to S4: composite scenarios, each in one process from its first to its last step.

use std::{
    fs::{self, File},
    os::unix::net::{UnixListener, UnixStream},
    process::Command,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    unistd::chdir,
};
use rustix::{mount::OpenTreeFlags, thread::CapabilitySet as Cap};

use super::{
    capabilities::load_module,
    case::{Case, Done, Under, setup},
    execution::{guest, proves, shell},
    files::open_write,
    identity::{secret, two_unshares},
    network::{connect, fast},
    place::{NOBODY, Place, ROOT},
    policies::{HARDENING, NO_CAPABILITY, RULES, RUNTIME},
    raw,
    stage::LOADER,
    views::{CORE_PATTERN, clone_of, mask_proc, tree},
};

const METADATA: &str = "169.254.169.254:80";
const DOCKER: &str = "/run/docker.sock";
const MAP_GET_NEXT_ID: u32 = 12;
const MAP_GET_FD_BY_ID: u32 = 14;

pub(super) fn cases() -> Vec<Case> {
    let bare = Under(NO_CAPABILITY, NOBODY.networked());
    let mounts = Under(RUNTIME, Place::with(Cap::SYS_ADMIN));
    let root = Under(HARDENING, ROOT);
    let web = Under(RULES, ROOT.networked());
    vec![
        Case::new(
            "S1",
            "unprivileged: two unshares, then a denied file and a denied address",
            vec![
                bare.plain("read the file", secret),
                bare.plain("connect", || connect("10.1.2.3:80")),
                bare.attack("two unshares, then read", two_unshares),
                bare.attack("two unshares, then connect", || {
                    let _ = unshare(CloneFlags::CLONE_NEWUSER);
                    let _ = unshare(CloneFlags::CLONE_NEWNS);
                    connect("10.1.2.3:80")
                }),
                bare.attack("a user namespace, then read", || {
                    unshare(CloneFlags::CLONE_NEWUSER)?;
                    secret()
                }),
                bare.benign("read another file", || {
                    fs::read("/exact/file")?;
                    Ok(())
                }),
                bare.benign("connect elsewhere", || connect("10.7.7.7:80")),
            ],
        ),
        Case::new(
            "S2",
            "CAP_SYS_ADMIN under all mount rules: a copy of /proc, then core_pattern",
            vec![
                mounts.plain("open core_pattern for writing", || {
                    open_write("/proc/sys/kernel/core_pattern")
                }),
                mounts
                    .attack("through a copy of /proc", || clone_of("/proc", CORE_PATTERN))
                    .after(mask_proc),
                mounts.attack("through a copy of /proc/sys", || {
                    clone_of("/proc/sys", "kernel/core_pattern")
                }),
                mounts.attack("through a copy of the root and all its mounts", || {
                    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE;
                    let root = tree("/", flags)?;
                    setup("fchdir", rustix::process::fchdir(&root))?;
                    open_write("proc/sys/kernel/core_pattern")
                }),
            ],
        ),
        Case::new(
            "S3",
            "privileged root under every hardening rule",
            vec![
                root.plain("mount", || mount_with(MsFlags::empty())),
                root.attack("mount with 0x200", || {
                    mount_with(MsFlags::from_bits_retain(0x200))
                }),
                root.attack("load a module", load_module),
                root.attack("open any BPF map by its id", any_map),
                root.attack("read kallsyms through a copy of /proc", || {
                    let tree = tree("/proc", OpenTreeFlags::OPEN_TREE_CLONE)?;
                    setup("fchdir", rustix::process::fchdir(&tree))?;
                    File::open("kallsyms")?;
                    Ok(())
                }),
            ],
        ),
        web_shell(web),
    ]
}

fn web_shell(web: Under) -> Case {
    Case::new(
        "S4",
        "a web shell under the attack-protection rules",
        vec![
            web.plain("run a shell", || proves(shell("/shells/sh"))),
            web.attack("a script with a shell in its first line", || {
                proves(Command::new("/tools/script"))
            }),
            web.plain("run curl", || proves(guest("/tools/curl"))),
            web.attack("./curl", || {
                chdir("/tools")?;
                proves(guest("./curl"))
            }),
            web.attack("have the loader run curl", || {
                let mut command = Command::new(LOADER);
                command.arg("/field/curl").args(["-c", "exit 42"]);
                proves(command)
            })
            .after(|| {
                fs::copy("/tools/dynamic", "/field/curl")
                    .map_err(|error| super::case::missing(format!("no dynamic program: {error}")))?;
                Ok(())
            }),
            web.plain("connect to the metadata service", || connect(METADATA)),
            web.attack("reach it by fast open", || fast(2, 0, METADATA)),
            web.attack("connect to docker.sock", || {
                UnixStream::connect(DOCKER)?;
                Ok(())
            })
            .after(docker),
            web.attack("connect to it by another path", || {
                chdir("/run")?;
                UnixStream::connect("docker.sock")?;
                Ok(())
            })
            .after(docker),
            web.benign("connect to another unix socket", || {
                UnixStream::connect("/run/other.sock")?;
                Ok(())
            })
            .after(docker),
            web.benign("run another program", || proves(guest("/tools/other"))),
        ],
    )
}

/// Sockets that answer as long as the step lives.
fn docker() -> Done {
    for path in [DOCKER, "/run/other.sock"] {
        let listener = UnixListener::bind(path)?;
        // The backlog answers; the descriptor lives on in the step.
        raw::keep_open(&listener)?;
        std::mem::forget(listener);
    }
    Ok(())
}

fn mount_with(flags: MsFlags) -> Done {
    Ok(mount(Some("p"), "/stack", Some("tmpfs"), flags, None::<&str>)?)
}

fn any_map() -> Done {
    let mut attribute = [0; 16];
    raw::bpf(MAP_GET_NEXT_ID, &mut attribute)?;
    let mut map = [0; 16];
    map[0] = attribute[1];
    raw::bpf_fd(MAP_GET_FD_BY_ID, &mut map)?;
    Ok(())
}
