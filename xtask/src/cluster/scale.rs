//! `cluster scale`: what the controller needs for many nodes, policies and pods, against a real API server.
//!
//! The nodes are simulated, with the agent's own code for watching and reporting (the example `fleet` of varmor-agent).
//! A tenth first and then everything, each in a cluster of its own, so that growth is seen.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    binaries::{self, Binaries},
    control_plane::ControlPlane,
    etcd,
    kubectl::Kubectl,
    place::{self, Ports},
    service::{Service, until},
};
use crate::{
    build::{self, Profile},
    process::Run,
    progress, tools, workspace,
};

/// The most that the controller may take, in MiB.
const MEMORY: f64 = 128.0;
const START: Duration = Duration::from_mins(2);
const NAMESPACE: &str = "varmor";
/// As the chart has it.
const ENVIRONMENT: [(&str, &str); 1] = [("MALLOC_ARENA_MAX", "1")];

#[derive(clap::Args)]
pub(super) struct Args {
    /// Simulated nodes
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..))]
    nodes: u32,
    /// Policies, each for a workload of its own
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..))]
    policies: u32,
    /// Pods of these workloads
    #[arg(long, default_value_t = 12_800, value_parser = clap::value_parser!(u32).range(10..))]
    pods: u32,
}

/// How much there is of everything.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nodes: u32,
    pub(crate) policies: u32,
    pub(crate) pods: u32,
}

/// What a run is made of.
struct Programs {
    kubernetes: Binaries,
    etcd: PathBuf,
    controller: PathBuf,
    fleet: PathBuf,
}

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    let programs = Programs::ready()?;
    let all = Size {
        nodes: args.nodes,
        policies: args.policies,
        pods: args.pods,
    };
    let tenth = Size {
        nodes: args.nodes / 10,
        policies: args.policies / 10,
        pods: args.pods / 10,
    };
    let mut results = Vec::new();
    for size in [tenth, all] {
        let label = format!(
            "{} nodes, {} policies, {} pods",
            size.nodes, size.policies, size.pods
        );
        results.push(progress::timed(&label, || run(&programs, size))?);
    }
    let file = place::folder().join("scale.json");
    workspace::write_file(&file, serde_json::to_string_pretty(&results)? + "\n")?;
    println!("{}", table(&results));
    println!("{}", file.display());
    let peak = results
        .iter()
        .filter_map(|result| result["controller"]["peakMiB"].as_f64())
        .fold(0.0, f64::max);
    if peak > MEMORY {
        println!("FAILED: the controller took {peak:.0} MiB; {MEMORY} MiB are allowed");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The figures of one size, for who makes a table of its own.
pub(crate) fn figures(size: Size) -> Result<Value> {
    run(&Programs::ready()?, size)
}

impl Programs {
    fn ready() -> Result<Self> {
        tools::need(tools::CLUSTER)?;
        let built = build::build(Profile::Release)?;
        Ok(Self {
            kubernetes: progress::timed("programs of Kubernetes", binaries::ready)?,
            etcd: etcd::ready()?,
            controller: built.program("varmor-controller"),
            fleet: progress::timed("the simulated nodes", || build::example(&built, "fleet"))?,
        })
    }
}

fn run(programs: &Programs, size: Size) -> Result<Value> {
    place::clear()?;
    workspace::make_dir(&place::data(""))?;
    let ports = Ports::free()?;
    let mut plane = ControlPlane::start_bare(&programs.kubernetes, &programs.etcd, &ports)?;
    let kubectl = Kubectl::admin(&programs.kubernetes);
    install(&kubectl)?;
    // Those of the control plane that are not there.
    let (reports, metrics) = (ports.controller_manager, ports.scheduler);
    let mut controller = Service::start_with(
        "controller",
        &programs.controller,
        &controller_arguments(reports, metrics),
        &ENVIRONMENT,
    )?;
    until("the controller's certificate", START, || {
        plane.check()?;
        controller.check()?;
        let secret = format!("varmor-webhook-svc.{NAMESPACE}.varmor-tls-ca");
        let found = kubectl.run(&["get", "secret", &secret, "--namespace", NAMESPACE])?;
        Ok(found.success.then_some(()))
    })?;
    let output = place::data("scale.json");
    let outcome = fleet(&programs.fleet, size, reports, controller.pid(), &output);
    // Whoever died first explains what the others say.
    plane.check()?;
    controller.check()?;
    outcome?;
    drop(controller);
    drop(plane);
    let text = fs::read_to_string(&output).context("read the figures")?;
    place::clear()?;
    serde_json::from_str(&text).context("understand the figures")
}

fn install(kubectl: &Kubectl) -> Result<()> {
    kubectl.get(&["create", "namespace", NAMESPACE])?;
    kubectl.define()
}

fn controller_arguments(reports: u16, metrics: u16) -> Vec<String> {
    [
        "run".to_owned(),
        format!("--kubeconfig={}", place::kubeconfig("admin").display()),
        format!("--namespace={NAMESPACE}"),
        "--pod-name=manager-0".to_owned(),
        format!("--report-address=127.0.0.1:{reports}"),
        format!("--metrics-address=127.0.0.1:{metrics}"),
        "--no-webhook".to_owned(),
        // A thousand nodes share the processors with the API server, which answers late.
        "--lease-duration=120".to_owned(),
        "--certificate-name=127.0.0.1".to_owned(),
    ]
    .into()
}

fn fleet(program: &Path, size: Size, reports: u16, controller: u32, output: &Path) -> Result<()> {
    Run::new("cluster-fleet", program)
        .arg("--kubeconfig")
        .arg(place::kubeconfig("admin"))
        .args(["--controller", &format!("https://127.0.0.1:{reports}")])
        .args(["--controller-pid", &controller.to_string()])
        .args(["--nodes", &size.nodes.to_string()])
        .args(["--policies", &size.policies.to_string()])
        .args(["--pods", &size.pods.to_string()])
        .arg("--work")
        .arg(place::data("fleet"))
        .arg("--output")
        .arg(output)
        .run()
}

/// One line for each figure, one column for each size.
fn table(results: &[Value]) -> String {
    let figures: [(&str, &[&str]); 22] = [
        ("nodes", &["nodes"]),
        ("policies", &["policies"]),
        ("pods", &["pods"]),
        ("all nodes connected, s", &["connect", "seconds"]),
        ("most policies on their way at a time", &["ahead"]),
        ("policies created, s", &["createSeconds"]),
        ("from the first policy to all Ready, s", &["apply", "seconds"]),
        ("API requests meanwhile (all clients)", &["apply", "requests"]),
        ("API requests per second", &["apply", "requestsPerSecond"]),
        (
            "controller's CPU meanwhile, s",
            &["apply", "controllerCpuSeconds"],
        ),
        ("controller's memory then, MiB", &["apply", "controllerMiB"]),
        ("one policy changed: Ready after, s", &["changeSeconds"]),
        ("nodes that went away", &["nodesAway"]),
        ("after they came back: all Ready, s", &["backSeconds"]),
        ("all policies deleted, s", &["deleteSeconds"]),
        ("controller's CPU in all, s", &["controller", "cpuSeconds"]),
        ("controller's memory at the end, MiB", &["controller", "MiB"]),
        ("of that its program and libraries", &["controller", "filesMiB"]),
        ("peak until all nodes were connected", &["peaksMiB", "joined"]),
        ("until all policies were Ready", &["peaksMiB", "applied"]),
        ("until the nodes were back", &["peaksMiB", "back"]),
        ("controller's peak memory, MiB", &["controller", "peakMiB"]),
    ];
    let mut text = format!(
        "| figure |{}\n|---|{}\n",
        " |".repeat(results.len()),
        "---:|".repeat(results.len())
    );
    for (label, path) in figures {
        let cells = results.iter().map(|result| {
            let value = path.iter().fold(result, |value, key| &value[key]);
            match value.as_f64() {
                Some(number) if number.fract() == 0.0 => format!(" {number:.0} |"),
                Some(number) => format!(" {number:.1} |"),
                None => " n/a |".to_owned(),
            }
        });
        text.extend(["| ", label, " |"]);
        text.extend(cells);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_has_every_figure_and_says_what_is_missing() {
        let result = json!({"nodes": 100, "apply": {"seconds": 2.25}});
        let text = table(&[result.clone(), result]);
        assert!(text.contains("| nodes | 100 | 100 |"), "{text}");
        assert!(text.contains("all Ready, s | 2.2 | 2.2 |"), "{text}");
        assert!(text.contains("| pods | n/a | n/a |"), "{text}");
    }
}
