//! `varmor run`: one command and everything it starts, under a policy, on this machine.
//!
//! A run has kernel programs of its own, beside those of the agent: nothing is shared, so nothing that happens to
//! the one can weaken the other.

mod filters;
mod label;
mod locked_memory;
mod place;
pub(super) mod policy_file;
pub(super) mod record;
mod supervise;

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context as _;

use varmor_common::policy::Enforcers;
use varmor_common::profile::Profile;

use self::filters::Filters;
use self::label::Label;
use self::locked_memory::LockedMemory;
use self::place::Place;
use crate::containers::addresses_of;
use crate::enforcer::apparmor::enter_at_exec;
use crate::enforcer::bpf::BpfEnforcer;
use crate::enforcer::{Adoption, Enforcer, bpf};
use crate::kernel::probe;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// File with the policy; several policies in it hold together, whatever their targets are
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// File with the recording for `profileType: BehaviorModel`, if it is not in the file with the policy
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Say nothing about violations
    #[arg(long, short)]
    quiet: bool,
    /// Write violations to this file as well, in the lines of violations.log, which `varmor simulate` reads
    #[arg(long, value_name = "FILE")]
    violations: Option<PathBuf>,
    /// The command with its arguments; processes that it leaves behind are ended with it
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub(super) struct EnterArguments {
    #[arg(long, value_name = "DIR")]
    cgroup: PathBuf,
    #[arg(long, value_name = "PROFILE")]
    apparmor: Option<String>,
    /// File with filters of system calls, in the OCI format
    #[arg(long, value_name = "FILE")]
    seccomp: Option<PathBuf>,
    /// Limit of locked memory of the command, `CURRENT:MAXIMUM`
    #[arg(long, value_name = "LIMIT")]
    memlock: LockedMemory,
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Exit code for "could not be started", as of shells.
const NOT_STARTED: u8 = 126;
const NOT_FOUND: u8 = 127;

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let profile = policy_file::profile(&arguments.policy, arguments.model.as_deref())?;
    let (mut place, locked_memory) = begin()?;
    let mut bpf = match profile.part_for(Enforcers::BPF) {
        Some(part) if part.is_about_pod() => {
            let own = addresses_of(std::process::id()).context("read the addresses of this machine")?;
            Some(load_bpf(&part.for_pod(&own), &place)?)
        }
        Some(part) => Some(load_bpf(&part, &place)?),
        None => None,
    };
    let mut label = match profile.part_for(Enforcers::APPARMOR) {
        Some(part) => Some(Label::load(part, &place)?),
        None => None,
    };
    let filters = match profile.part_for(Enforcers::SECCOMP) {
        Some(part) => Some(Filters::write(&part, &place)?),
        None => None,
    };
    anyhow::ensure!(
        bpf.is_some() || label.is_some() || filters.is_some(),
        "the policies name {}; a command is run under AppArmor, BPF and Seccomp only",
        profile.enforcers
    );

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let mut report = supervise::Report::new(arguments.quiet, arguments.violations.as_deref())?;
    let code = runtime.block_on(supervise::supervise(
        bpf.as_mut().map(|enforcer| enforcer as &mut dyn Enforcer),
        &place,
        supervise::Entry {
            label: label.as_ref().map(Label::name),
            filters: filters.as_ref().map(Filters::path),
            locked_memory: &locked_memory,
            command: &arguments.command,
            limit: None,
        },
        &mut report,
    ))?;
    place.end_processes();
    if let Some(mut enforcer) = bpf {
        report.rest(&mut enforcer);
        enforcer.uninstall().context("take the kernel programs down")?;
    }
    if let Some(label) = &mut label {
        label.unload()?;
    }
    place.remove();
    Ok(code)
}

/// A place for a run, and the limit that its command shall have, from before programs are loaded.
fn begin() -> anyhow::Result<(Place, LockedMemory)> {
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "only root can load kernel programs; run it with sudo"
    );
    let locked_memory = LockedMemory::of_this_process();
    place::remove_abandoned();
    Ok((Place::create()?, locked_memory))
}

fn load_bpf(profile: &Profile, place: &Place) -> anyhow::Result<BpfEnforcer> {
    probe()
        .bpf_enforcer()
        .map_err(|reasons| anyhow::anyhow!("this kernel cannot enforce: {reasons}"))?;
    let options = bpf::Options {
        bpffs: place.bpffs().to_owned(),
        state_dir: place.state_dir().to_owned(),
    };
    let mut enforcer = bpf::open(&options).context("start the BPF enforcer")?;
    let applied = enforcer.apply(profile).context("load the policy")?;
    for (rule, reason) in &applied.unsupported {
        eprintln!("varmor: not enforced: {rule}: {reason}");
    }
    enforcer
        .protect(place.cgroup_id(), &profile.name, Adoption::AtExec)
        .context("protect the command")?;
    Ok(enforcer)
}

/// Becomes the command, inside the cgroup. The kernel labels a task of the cgroup at its next exec, so not one
/// instruction of the command runs without the policy.
pub(super) fn enter(arguments: &EnterArguments) -> anyhow::Result<ExitCode> {
    let procs = arguments.cgroup.join("cgroup.procs");
    fs::write(&procs, "0").with_context(|| format!("enter the cgroup through {}", procs.display()))?;
    if let Some(name) = &arguments.apparmor {
        enter_at_exec(name).with_context(|| format!("enter the AppArmor profile `{name}`"))?;
    }
    arguments
        .memlock
        .set()
        .context("set the command's limit of locked memory")?;
    let (program, rest) = arguments.command.split_first().context("the command is empty")?;
    // Last, because a filter may refuse what stands above; executing the command is for it to judge as well.
    if let Some(path) = &arguments.seccomp {
        filters::enter(path)?;
    }
    let error = Command::new(program).args(rest).exec();
    eprintln!("varmor: {}: {error}", program.display());
    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
    Ok(ExitCode::from(if is_missing { NOT_FOUND } else { NOT_STARTED }))
}
