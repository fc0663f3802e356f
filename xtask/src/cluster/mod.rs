//! `cluster`: a real Kubernetes: its control plane on this machine's loopback, its nodes in guests.

mod binaries;
mod cases;
mod control_plane;
mod credentials;
mod etcd;
mod go;
mod held;
mod kubectl;
mod lab;
mod node;
mod place;
mod relay;
mod scale;
mod service;
mod test;

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

pub(crate) use self::binaries::KUBERNETES;
pub(crate) use self::{
    cases::{
        Session,
        bench::{NAMESPACE, Pod, end as end_pods, measure, proof, release, start as start_pods},
    },
    held::within,
    lab::Options,
    scale::{Size, figures},
    test::{Ended, suite},
};
use self::{lab::Lab, place::Process};
use crate::{process, tools, workspace};

/// How long the processes of a cluster may take to be gone.
const END: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Starts a cluster that stays until `down`
    Up(Options),
    /// Runs the tests in the cluster that is up, or in one that starts and ends with them
    Test(test::Args),
    /// Measures the controller with a thousand simulated nodes at a real API server
    Scale(scale::Args),
    /// Ends the cluster and everything that belongs to it
    Down,
    /// Builds the programs of Kubernetes, helm and the name server into the user's cache
    Binaries,
    /// Holds a cluster until it is ended (what `up` leaves running)
    #[command(hide = true)]
    Hold(Options),
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    match &args.action {
        Action::Up(options) => up(*options),
        Action::Test(args) => test::command(args),
        Action::Scale(args) => scale::command(args),
        Action::Down => down(),
        Action::Binaries => {
            println!("{}", binaries::ready()?.folder().display());
            Ok(ExitCode::SUCCESS)
        }
        Action::Hold(options) => {
            let mut lab = Lab::start(*options, lab::prepare(*options)?)?;
            lab.hold()?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Installs and fetches what two suites that run side by side must not install or fetch at the same time.
pub(crate) fn fetch() -> Result<()> {
    for group in [tools::CLUSTER, tools::CONTAINER_GUEST] {
        tools::need(group)?;
    }
    etcd::ready().map(drop)
}

/// The folder with kube-apiserver, and etcd; built and fetched first where they are not there yet.
pub(crate) fn api_server() -> Result<(PathBuf, PathBuf)> {
    Ok((binaries::api_server()?.folder().to_owned(), etcd::ready()?))
}

/// helm, if it was built already.
pub(crate) fn helm() -> Option<PathBuf> {
    Some(binaries::place("helm")).filter(|program| program.is_file())
}

fn up(options: Options) -> Result<ExitCode> {
    if let Some(state) = place::running() {
        println!(
            "a cluster is up already, with {}; `cargo xtask cluster down` ends it",
            state.nodes.join(" and ")
        );
        say_how();
        return Ok(ExitCode::SUCCESS);
    }
    // Here, so that what takes long is seen, and what fails is seen too.
    lab::prepare(options)?;
    let log = workspace::log_file("cluster");
    let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
    let own = std::env::current_exe().context("find this program")?;
    // A session of its own: what ends this terminal does not end the cluster.
    let mut holder = Command::new("setsid")
        .arg(own)
        .args(["cluster", "hold"])
        .args(["--nodes", &options.nodes.to_string()])
        .args(["--kernel", options.kernel.name()])
        .args(["--mem", &options.mem.to_string()])
        .stdin(Stdio::null())
        .stderr(file.try_clone().context("share the log file")?)
        .stdout(file)
        .spawn()
        .context("start the process that holds the cluster")?;
    let mut shown = 0;
    loop {
        shown += show(&log, shown);
        if let Some(status) = holder
            .try_wait()
            .context("look at the process that holds the cluster")?
        {
            show(&log, shown);
            bail!(
                "the cluster did not start ({status}); what it said is above and in {}",
                log.display()
            );
        }
        if place::running().is_some() {
            break;
        }
        thread::sleep(Duration::from_millis(200));
    }
    say_how();
    Ok(ExitCode::SUCCESS)
}

fn say_how() {
    println!("KUBECONFIG={}", place::kubeconfig("admin").display());
}

/// Prints what a log has more than was shown; returns how much that is.
fn show(log: &std::path::Path, shown: usize) -> usize {
    let text = fs::read(log).unwrap_or_default();
    let fresh = text.get(shown..).unwrap_or_default();
    eprint!("{}", String::from_utf8_lossy(fresh));
    fresh.len()
}

fn down() -> Result<ExitCode> {
    let Some(state) = place::running() else {
        // A holder that was killed has taken everything with it but its files.
        place::clear()?;
        println!("no cluster is up");
        return Ok(ExitCode::SUCCESS);
    };
    let parts = children(state.holder.pid);
    let pid = i32::try_from(state.holder.pid).context("the number of a process")?;
    kill(Pid::from_raw(pid), Signal::SIGTERM).context("end the process that holds the cluster")?;
    let start = Instant::now();
    let alive = |process: &Process| process.is_alive();
    while alive(&state.holder) || parts.iter().any(alive) {
        if start.elapsed() > END {
            bail!(
                "the cluster still runs after {} s; its processes are {parts:?}",
                END.as_secs()
            );
        }
        thread::sleep(Duration::from_millis(100));
    }
    let _ = fs::remove_file(std::env::temp_dir().join(format!("varmor-cluster-{pid}.sock")));
    place::clear()?;
    println!("the cluster is down: {} processes ended", parts.len() + 1);
    Ok(ExitCode::SUCCESS)
}

/// The processes that a process has started, and theirs.
fn children(pid: u32) -> Vec<Process> {
    let text = process::output("ps", ["-e", "-o", "pid=,ppid="]).unwrap_or_default();
    let pairs: Vec<(u32, u32)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        })
        .collect();
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(
            pairs
                .iter()
                .filter(|(_, other)| *other == parent)
                .map(|(child, _)| *child),
        );
        at += 1;
    }
    found.into_iter().skip(1).filter_map(Process::of).collect()
}
