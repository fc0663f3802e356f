//! `node`: what a platform team expects of the agent as a service: many starts, many containers, kills, floods, and
//! metadata that is made to end it. One JSON line per claim.

mod addresses;
mod behaviour;
mod docker;
mod flood;
mod hostile;
mod idle;
mod inside;
mod kills;
mod lab;
mod latency;
mod many;
mod records;
mod resources;
mod starts;
mod usage;
mod without_bpf;

use std::{net::IpAddr, path::PathBuf, process::ExitCode};

use anyhow::Result;

use crate::demo::containers;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Tries all claims
    Run(Box<Scale>),
    /// In a container: says when a file can be read and when not, each time that it changes
    Watch { path: PathBuf },
    /// In a container: opens a file many times from many threads
    Flood { path: PathBuf, times: u64 },
    /// In a container: opens a file now and until it is killed, and counts
    Attack { path: PathBuf, seconds: u64 },
    /// In a container: makes a folder and removes it, and lives on for some seconds
    Make { path: PathBuf, seconds: u64 },
    /// In a container: connects to an address, where nobody listens
    Connect { address: IpAddr },
}

/// Where things are and how many of each.
#[derive(clap::Args)]
struct Scale {
    /// The docker archive of the containers' image
    #[arg(long)]
    image: PathBuf,
    /// The agent's program
    #[arg(long)]
    agent: PathBuf,
    /// Container starts under load
    #[arg(long, default_value_t = 24)]
    starts: usize,
    /// Container starts while the agent is killed and restarted
    #[arg(long, default_value_t = 8)]
    restarts: usize,
    /// Policy updates during these starts
    #[arg(long, default_value_t = 20)]
    updates: usize,
    /// Profiles that are loaded at once
    #[arg(long, default_value_t = 100)]
    profiles: usize,
    /// Containers that are protected at once
    #[arg(long, default_value_t = 16)]
    containers: usize,
    /// Hostile values of annotations and labels
    #[arg(long, default_value_t = 300)]
    hostile: usize,
    /// Denials of the flood
    #[arg(long, default_value_t = 100_000)]
    flood: u64,
    /// Policy changes whose time is taken
    #[arg(long, default_value_t = 20)]
    changes: usize,
    /// The guest's clock counts instructions: its times are those of a processor of 1 GHz, not of an emulated one
    #[arg(long)]
    counted: bool,
    /// The enforcer of the part `resources`
    #[arg(long, default_value = "BPF")]
    enforcer: String,
    /// Only these parts [default: all]
    #[arg(long)]
    only: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Starts,
    Kills,
    Hostile,
    Latency,
    Flood,
    Many,
    Records,
    Behaviour,
    Addresses,
    Docker,
    /// Asked for where the kernel cannot run the BPF enforcer
    WithoutBpf,
    /// Asked for by the benchmark of the same name
    Resources,
    /// Asked for where the clock counts instructions
    Idle,
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Run(scale) => run(scale),
        Command::Watch { path } => inside::watch(path),
        Command::Flood { path, times } => {
            inside::flood(path, *times);
            Ok(ExitCode::SUCCESS)
        }
        Command::Attack { path, seconds } => inside::attack(path, *seconds),
        Command::Make { path, seconds } => {
            inside::make(path, *seconds);
            Ok(ExitCode::SUCCESS)
        }
        Command::Connect { address } => {
            inside::connect(*address);
            Ok(ExitCode::SUCCESS)
        }
    }
}

type Run = fn(&Scale, &mut lab::Claims) -> Result<()>;

fn run(scale: &Scale) -> Result<ExitCode> {
    containers::import(&scale.image)?;
    let mut claims = lab::Claims::new("agent");
    let parts: [(Part, Run); 13] = [
        (Part::Starts, starts::run),
        (Part::Kills, kills::run),
        (Part::Hostile, hostile::run),
        (Part::Latency, latency::run),
        (Part::Flood, flood::run),
        (Part::Records, records::run),
        (Part::Behaviour, behaviour::run),
        (Part::Addresses, addresses::run),
        (Part::Docker, docker::run),
        (Part::WithoutBpf, without_bpf::run),
        (Part::Resources, resources::run),
        // What follows fills the machine.
        (Part::Many, many::run),
        (Part::Idle, idle::run),
    ];
    for (part, run) in parts {
        let is_asked = if scale.only.is_empty() {
            !matches!(part, Part::WithoutBpf | Part::Resources | Part::Idle)
        } else {
            scale.only.contains(&part)
        };
        if !is_asked {
            continue;
        }
        // What stops a part is a failure; the others still run.
        if let Err(error) = run(scale, &mut claims) {
            claims.claim("the part can run", Err(error));
        }
    }
    Ok(claims.exit_code())
}
