//! A fleet of nodes that enforce nothing: they watch the cluster and report with the code of the agent, so that a
//! controller and an API server can be measured with a thousand of them on one machine.
//!
//! `cargo xtask cluster scale` starts the API server and the controller, and this program.

mod cluster;
mod measure;
mod node;
mod policies;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use hyper::Uri;
use serde_json::json;
use varmor_agent::source::cluster::{Access, connect};

use cluster::Cluster;
use measure::Meter;
use node::Fleet;
use policies::Policies;

/// A policy that says when it is in force everywhere.
const PATIENCE: Duration = Duration::from_mins(30);
/// Policies that are changed while nodes are away.
const CHANGED: usize = 20;
/// One node in so many goes away.
const AWAY: usize = 10;
/// How long the others have had a change when it is looked whether it counts as in force.
const LOOK: Duration = Duration::from_secs(10);

/// Measures a controller with many nodes, policies and pods.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Who may do everything at the API server
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Where the controller takes reports
    #[arg(long, value_name = "URL")]
    controller: Uri,
    /// The controller's process on this machine
    #[arg(long, value_name = "PID")]
    controller_pid: u32,
    #[arg(long)]
    nodes: usize,
    #[arg(long)]
    policies: usize,
    #[arg(long)]
    pods: usize,
    /// A folder for the tokens of the nodes
    #[arg(long, value_name = "FOLDER")]
    work: PathBuf,
    /// Where the figures are written, as JSON
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    measure::allow_many_files()?;
    let client = connect(&Access::Kubeconfig(options.kubeconfig.clone())).await?;
    let cluster = Cluster::new(client.clone());
    say("objects");
    let pods = cluster.prepare(&options).await?;
    say("nodes");
    let meter = Meter::start(client.clone(), options.controller_pid).await?;
    let mut fleet = Fleet::join(&cluster, &options).await?;
    fleet.until_connected().await?;
    let joined = meter.lap().await?;
    let peak_joined = meter.peak()?;
    let mut policies = Policies::watch(client);

    say("policies");
    let meter = meter.again().await?;
    cluster.create_policies(options.policies, &policies).await?;
    let created = meter.seconds();
    policies.until_all_ready(options.policies, 0, PATIENCE).await?;
    let applied = meter.lap().await?;
    let peak_applied = meter.peak()?;

    say("one change");
    let start = Instant::now();
    cluster.change_policies(1).await?;
    policies.until_all_ready(options.policies, 1, PATIENCE).await?;
    let change = start.elapsed();

    say("nodes go away and come back");
    let away = fleet.leave(AWAY);
    cluster.change_policies(CHANGED.min(options.policies)).await?;
    tokio::time::sleep(LOOK).await;
    let waiting = policies.not_ready();
    ensure!(
        waiting >= CHANGED.min(options.policies),
        "{waiting} policies wait for nodes that are away, of {CHANGED} that were changed"
    );
    let start = Instant::now();
    fleet.come_back(&cluster, &options).await?;
    policies
        .until_all_ready(options.policies, 1 + CHANGED.min(options.policies), PATIENCE)
        .await?;
    let back = start.elapsed();
    let peak_back = meter.peak()?;
    let profiles = cluster.profiles().await?;
    ensure!(
        profiles.len() == options.policies,
        "there are {} profiles",
        profiles.len()
    );
    fleet.until_all_have(&profiles).await.context("nothing is lost")?;

    say("the end of all policies");
    let start = Instant::now();
    cluster.delete_policies(options.policies, &policies).await?;
    cluster.until_no_profiles(PATIENCE).await?;
    let result = json!({
        "nodes": options.nodes,
        "policies": options.policies,
        "pods": pods,
        "connect": joined,
        "ahead": cluster::AHEAD,
        "createSeconds": created,
        "apply": applied,
        "changeSeconds": change.as_secs_f64(),
        "nodesAway": away,
        "backSeconds": back.as_secs_f64(),
        "deleteSeconds": start.elapsed().as_secs_f64(),
        "peaksMiB": {
            "joined": peak_joined,
            "applied": peak_applied,
            "back": peak_back,
        },
        "controller": meter.process()?,
    });
    std::fs::write(&options.output, result.to_string())
        .with_context(|| format!("write {}", options.output.display()))
}

#[expect(clippy::print_stderr, reason = "progress of a program that people run")]
fn say(what: &str) {
    eprintln!("[{what}]");
}
