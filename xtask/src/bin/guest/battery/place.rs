//! The place of a confined process: own mount, pid and network namespaces, an overlay for its root, the listed
//! capabilities; and how a step gets there.

use std::{
    fs::{self, File},
    io::Read,
    net::{TcpListener, UdpSocket},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Gid, Uid, chdir, chroot, setgroups, setresgid, setresuid},
};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use serde::{Deserialize, Serialize};

use super::{
    case::{self, Outcome, Step},
    find, policies, raw, stage,
};

/// Who a step is, and what it shares with the machine.
#[derive(Clone, Copy)]
pub(super) struct Place {
    uid: u32,
    capabilities: u64,
    host_pids: bool,
    network: bool,
}

/// All capabilities.
pub(super) const ROOT: Place = Place {
    uid: 0,
    capabilities: u64::MAX,
    host_pids: false,
    network: false,
};
pub(super) const NOBODY: Place = Place {
    uid: 65534,
    capabilities: 0,
    ..ROOT
};

impl Place {
    /// Root with these capabilities only.
    pub(super) const fn with(capabilities: CapabilitySet) -> Self {
        Self {
            capabilities: capabilities.bits(),
            ..ROOT
        }
    }

    pub(super) const fn host_pids(self) -> Self {
        Self {
            host_pids: true,
            ..self
        }
    }

    /// The addresses of the policies on `lo`, with somebody who answers.
    pub(super) const fn networked(self) -> Self {
        Self {
            network: true,
            ..self
        }
    }
}

/// What the launcher prints: which process of the machine it was, and what came of it.
#[derive(Serialize, Deserialize)]
pub(super) struct Launched {
    pub(super) pid: i32,
    pub(super) outcome: Outcome,
}

const NOTHING: Option<&str> = None;
const ROOT_FOLDER: &str = "/ct/root";
/// Where the step leaves its outcome: a file that both sides of the new root see.
const ANSWER: &str = "/tmp/answer";
const LIMIT: Duration = Duration::from_mins(5);

/// The first half: makes the namespaces and waits for the second half, which is process 1 in them.
pub(super) fn launch(case: &str, step: usize, cgroup: Option<&str>, agent: u32) -> Result<Launched> {
    let found = find(case, step)?;
    let place = found.place;
    unshare(CloneFlags::CLONE_NEWNS).context("new mount namespace")?;
    root().context("make the root")?;
    fs::write("/tmp/agent", agent.to_string()).context("say who the agent is")?;
    if place.network {
        unshare(CloneFlags::CLONE_NEWNET).context("new network namespace")?;
        network().context("make the network")?;
    }
    if !place.host_pids {
        // The listeners' threads are there already: a process cannot have threads in two pid namespaces.
        unshare(CloneFlags::CLONE_NEWPID).context("new pid namespace")?;
    }
    let child = raw::fork_into(|| {
        let result = enter(case, step, &found, cgroup);
        let _ = fs::write(
            "/tmp/errors",
            format!("{:#}", result.err().unwrap_or_else(|| anyhow!("it returned"))),
        );
    })
    .context("start the second half")?;
    let pid = child.as_raw();
    let start = Instant::now();
    let status = loop {
        let status = waitpid(child, Some(WaitPidFlag::WNOHANG)).context("wait for the step")?;
        if status != WaitStatus::StillAlive {
            break Some(status);
        }
        if start.elapsed() > LIMIT {
            // Process 1 of a pid namespace takes the others with it.
            kill(child, Signal::SIGKILL).context("end the step")?;
            waitpid(child, None).context("wait for the step's end")?;
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    let mut answer = String::new();
    if let Ok(mut file) = File::open(ANSWER) {
        file.read_to_string(&mut answer).context("read the answer")?;
    }
    let errors = fs::read_to_string("/tmp/errors").unwrap_or_default();
    let outcome = match status {
        None => Outcome::Broken("timed out".to_owned()),
        Some(status) => serde_json::from_str(&answer)
            .unwrap_or_else(|_| Outcome::Broken(format!("no answer, {status:?}: {}", errors.trim()))),
    };
    Ok(Launched { pid, outcome })
}

/// Like a container's root: an overlay, in it a few mounts. What a step does to it is gone with it.
fn root() -> Result<()> {
    mount(
        NOTHING,
        "/",
        NOTHING,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        NOTHING,
    )?;
    let tmpfs = |path: &str| mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), NOTHING);
    tmpfs("/ct")?;
    for folder in ["/ct/upper", "/ct/field", ROOT_FOLDER] {
        fs::create_dir(folder)?;
    }
    let layers = "lowerdir=/,upperdir=/ct/upper,workdir=/ct/field";
    mount(
        Some("overlay"),
        ROOT_FOLDER,
        Some("overlay"),
        MsFlags::empty(),
        Some(layers),
    )
    .context("mount the overlay")?;
    for folder in ["sys", "dev", "proc"] {
        let source = format!("/{folder}");
        let target = format!("{ROOT_FOLDER}/{folder}");
        mount(
            Some(source.as_str()),
            target.as_str(),
            NOTHING,
            MsFlags::MS_BIND | MsFlags::MS_REC,
            NOTHING,
        )
        .with_context(|| format!("bind {source}"))?;
    }
    for folder in ["tmp", "run", "vol"] {
        tmpfs(&format!("{ROOT_FOLDER}/{folder}"))?;
    }
    fs::set_permissions(
        format!("{ROOT_FOLDER}/tmp"),
        std::os::unix::fs::PermissionsExt::from_mode(0o1777),
    )?;
    chdir(ROOT_FOLDER)?;
    mount(Some("."), "/", NOTHING, MsFlags::MS_MOVE, NOTHING).context("move the root")?;
    chroot(".")?;
    chdir("/")?;
    stage::volume()
}

fn network() -> Result<()> {
    let add = |address: &&str| format!("ip addr add {address} dev lo");
    let addresses: Vec<String> = stage::ADDRESSES.iter().map(add).collect();
    let script = format!("ip link set lo up && {}", addresses.join(" && "));
    busybox(&["sh", "-c", &script])?;
    fs::write("/proc/sys/net/ipv4/tcp_fastopen", "1").context("switch TCP fast open on")?;
    fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647").context("allow ping sockets")?;
    for port in [80, 81, 85, 91] {
        let listener = TcpListener::bind(("::", port)).with_context(|| format!("listen on port {port}"))?;
        thread::spawn(move || listener.incoming().for_each(drop));
    }
    let socket = UdpSocket::bind("[::]:85").context("receive datagrams")?;
    thread::spawn(move || while socket.recv_from(&mut [0; 16]).is_ok() {});
    Ok(())
}

fn busybox(arguments: &[&str]) -> Result<()> {
    let output = Command::new("/bin/busybox").args(arguments).output()?;
    ensure!(
        output.status.success(),
        "{}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// The second half: prepares, enters the cgroup, gives up what the step must not have, and becomes the step. The
/// kernel labels it at that exec, as it does with a container's first program.
fn enter(case: &str, step: usize, found: &Step, cgroup: Option<&str>) -> Result<()> {
    let place = found.place;
    if !place.host_pids {
        mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), NOTHING).context("mount proc")?;
    }
    let answer = File::create(ANSWER).context("create the answer")?;
    if let Err(failure) = case::setup("prepare", (found.prepare)()) {
        serde_json::to_writer(answer, &Outcome::from(Err(failure)))?;
        return Ok(());
    }
    if let Some(cgroup) = cgroup {
        let procs = Path::new(cgroup).join("cgroup.procs");
        fs::write(&procs, "0").with_context(|| format!("write {}", procs.display()))?;
    }
    for number in 0..64 {
        let bit = CapabilitySet::from_bits_retain(1 << number);
        if place.capabilities & bit.bits() == 0 && remove_capability_from_bounding_set(bit).is_err() {
            break;
        }
    }
    if place.uid != 0 {
        setgroups(&[])?;
        setresgid(
            Gid::from_raw(place.uid),
            Gid::from_raw(place.uid),
            Gid::from_raw(place.uid),
        )?;
        setresuid(
            Uid::from_raw(place.uid),
            Uid::from_raw(place.uid),
            Uid::from_raw(place.uid),
        )?;
    }
    let filter = cgroup.and_then(|_| policies::filter(found.policy));
    let mut program = Command::new(if filter.is_some() {
        "/varmor"
    } else {
        "/varmor-guest"
    });
    if let Some(filter) = filter {
        const FILE: &str = "/tmp/filter.yaml";
        fs::write(FILE, filter).context("write the policy of system calls")?;
        program.args(["run", "--policy", FILE, "--quiet", "--", "/varmor-guest"]);
    }
    let error = program
        .args(["battery", "--one", case, "--step", &step.to_string()])
        .stdin(Stdio::null())
        .stdout(answer)
        .stderr(File::create("/tmp/errors").context("create the error file")?)
        .exec();
    Err(error).context("become the step")
}

/// The step itself, already where it belongs.
pub(super) fn one(case: &str, step: usize) -> Result<Outcome> {
    // Children have it too, until they become another program.
    rustix::thread::set_name(&raw::text(&mark(case, step))).context("name the process")?;
    Ok(Outcome::from((find(case, step)?.run)()))
}

/// The name by which events know the processes of a step.
pub(super) fn mark(case: &str, step: usize) -> String {
    format!("{case}.{step}")
}
