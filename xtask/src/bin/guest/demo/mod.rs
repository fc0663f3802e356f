//! `demo`: the guest's side of `cargo xtask demo`: two containers, one policy, every operation in both.

pub(crate) mod agent;
pub(crate) mod containers;
mod network;
mod report;
mod starts;
pub(crate) mod survive;

use std::{fs, path::PathBuf, process::ExitCode, thread, time::Duration};

use anyhow::{Context, Result};
use report::Report;

use crate::attack::{self, Tried};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The docker archive of the containers' image
    #[arg(long)]
    image: PathBuf,
    /// The agent's program
    #[arg(long)]
    agent: PathBuf,
    /// The folder with the policy
    #[arg(long)]
    policies: PathBuf,
    /// Where the report goes
    #[arg(long)]
    report: PathBuf,
}

pub(crate) const PLAIN: &str = "demo-plain";
pub(crate) const PROTECTED: &str = "demo-protected";
const VIOLATIONS: &str = "/var/log/varmor/violations.log";
/// Equal violations within a second share one line of the log; attacks further apart have one each.
const PAUSE: Duration = Duration::from_millis(1100);

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    println!("network: 169.254.169.254 answers on this machine");
    network::serve()?;
    println!("image: import {}", args.image.display());
    containers::import(&args.image)?;
    for name in [PLAIN, PROTECTED] {
        println!("container: start {name} (privileged, network and processes of the machine)");
        containers::start(name)?;
    }
    println!("agent: start it with the policies in {}", args.policies.display());
    // The log is beside the report, where it is kept even if there is no report.
    let folder = args.report.parent().context("--report has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let agent = agent::Agent::start(&args.agent, &args.policies, folder.join("agent.log"))?;
    agent.wait_until_protected(PROTECTED, Duration::from_mins(10))?;
    println!("agent: {PROTECTED} is protected\n");
    let operations = attack::operations();
    println!("{} operations in {PLAIN}", operations.len());
    let plain = try_all(PLAIN, Duration::ZERO);
    println!(
        "{} operations in {PROTECTED}, attacks {} s apart\n",
        operations.len(),
        PAUSE.as_secs_f32()
    );
    let protected = try_all(PROTECTED, PAUSE);
    // The agent writes a line when the second is over in which it collects equal events.
    thread::sleep(Duration::from_secs(2));
    let log = fs::read_to_string(VIOLATIONS).unwrap_or_default();
    let report = Report::new(&operations, &plain, &protected, &log)?;
    report.print();
    let text = serde_json::to_string_pretty(&report).context("print the report")?;
    fs::write(&args.report, text).with_context(|| format!("write {}", args.report.display()))?;
    Ok(if report.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What could not be tried is in the report as such: the violations then say why.
fn try_all(container: &str, pause: Duration) -> Vec<Tried> {
    containers::try_all(container, pause).unwrap_or_else(|error| {
        println!("error: {error:#}");
        Vec::new()
    })
}
