//! `demo`: a container is attacked, once without and once with a policy, on a real kernel.

use std::{
    fs::{self, File},
    io::{Read, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{
    build::{self, Built, Profile},
    image,
    kernel::Series,
    progress::{self, Progress},
    tools,
    vm::{Guest, Outcome, Share},
    workspace,
};

/// The security modules of a kernel that was not told to start `bpf`.
const WITHOUT_BPF: &str = "lockdown,capability,yama,apparmor";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kernel of the guest
    #[arg(long, default_value = "6.1")]
    kernel: Series,
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    let result = run(args.kernel, Profile::Release)?;
    println!(
        "report: {}",
        workspace::target().join("demo/report.json").display()
    );
    Ok(if result.good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What the demo found.
pub(crate) struct Demo {
    /// Every attack was allowed without and denied with the policy; every benign operation worked in both.
    pub(crate) good: bool,
    /// The operations: name, and whether it went as it should.
    pub(crate) attempts: Vec<(String, bool)>,
}

/// Builds, boots, attacks, and writes `target/demo/report.json`.
pub(crate) fn run(series: Series, profile: Profile) -> Result<Demo> {
    let folder = workspace::target().join("demo");
    workspace::make_dir(&folder)?;
    let mut progress = Progress::new("demo", 4);
    progress.step("set-up", || {
        tools::need(tools::GUEST).and_then(|()| tools::need(tools::CONTAINER_GUEST))
    })?;
    let built = progress.step("build", || build::build(profile))?;
    let guest_program = built.program("varmor-guest");
    let archive = folder.join("image.tar");
    progress.step("container image", || image::write(&archive, &guest_program))?;
    let results = folder.join("results.tar");
    let mut guest = Guest::new(
        series,
        [
            "/usr/local/bin/varmor-guest",
            "demo",
            "--image",
            "/demo/image.tar",
            "--agent",
            "/usr/local/bin/varmor-agent",
            "--policies",
            "/etc/varmor/policies",
            "--report",
            "/vm/out/report.json",
        ],
    );
    guest.rootfs = true;
    guest.memory = 2048;
    guest.timeout = Duration::from_mins(25);
    guest.results = Some(results.clone());
    guest.shares = vec![
        Share::new(&guest_program, "/usr/local/bin/varmor-guest"),
        Share::new(built.program("varmor-agent"), "/usr/local/bin/varmor-agent"),
        Share::new(built.program("varmor"), "/usr/local/bin/varmor"),
        Share::new(&archive, "/demo/image.tar"),
        Share::new(
            workspace::root().join("xtask/demo/policy.yaml"),
            "/etc/varmor/policies/demo.yaml",
        ),
    ];
    let outcome = progress.step(&format!("guest with kernel {series}"), || {
        let start = Instant::now();
        let outcome = guest.run(&mut |bytes| {
            let mut out = std::io::stdout().lock();
            // A reader that has gone away does not stop the demo.
            let _ = out.write_all(bytes).and_then(|()| out.flush());
        })?;
        eprintln!(
            "[guest {}: booted in {} with {}, {} in all]",
            outcome.release,
            progress::seconds(outcome.boot),
            outcome.accel,
            progress::seconds(start.elapsed())
        );
        Ok(outcome)
    })?;
    progress.finish();
    let mut report = read_report(&results)?;
    report["boot_s"] = json!(outcome.boot.as_secs_f64());
    let text = serde_json::to_string_pretty(&report).context("print the report")?;
    workspace::write_file(&folder.join("report.json"), text + "\n")?;
    judge(&report, &outcome)
}

/// A guest of the suite `survive`: the demo's container and policy, without the demo's report.
pub(crate) fn survive_guest(built: &Built, series: Series) -> Result<Guest> {
    let mut guest = agent_guest(built, series, &["survive", "--policies", "/etc/varmor/policies"])?;
    guest.shares.push(Share::new(
        workspace::root().join("xtask/demo/policy.yaml"),
        "/etc/varmor/policies/demo.yaml",
    ));
    Ok(guest)
}

/// A guest of the suite `agent` in its full size: the parts that it runs, and how much of them.
struct NodeGuest {
    parts: &'static [&'static str],
    full: &'static [&'static str],
    /// In MiB.
    memory: u32,
}

/// The longest ones first; a thousand starts are shared by two guests, because two run at a time.
const NODE_FULL: [NodeGuest; 5] = [
    NodeGuest {
        parts: &["starts"],
        full: &["--starts", "500", "--restarts", "100", "--updates", "100"],
        memory: 2048,
    },
    NodeGuest {
        parts: &["many"],
        full: &["--containers", "1000"],
        // Eight containers share a shim, which needs some 12 MiB.
        memory: 8 << 10,
    },
    NodeGuest {
        parts: &["starts"],
        full: &["--starts", "500"],
        memory: 2048,
    },
    NodeGuest {
        parts: &["latency", "hostile"],
        full: &["--changes", "100"],
        memory: 2048,
    },
    NodeGuest {
        parts: &["kills", "flood", "records", "behaviour", "addresses", "docker"],
        full: &[],
        memory: 2048,
    },
];
/// The same in the usual size: fewer guests, because each loads the programs once more.
const NODE_USUAL: [&[&str]; 2] = [
    &["starts", "latency", "hostile"],
    &[
        "many",
        "kills",
        "flood",
        "records",
        "behaviour",
        "addresses",
        "docker",
    ],
];

/// Guests of the suite `agent`: the agent as a service, in its full size on request.
pub(crate) fn node_guests(built: &Built, series: Series, full: bool) -> Result<Vec<Guest>> {
    let guest = |parts: &[&str], size: &[&str]| {
        let parts: Vec<&str> = parts.iter().flat_map(|part| ["--only", part]).collect();
        let mut guest = agent_guest(built, series, &[&["node", "run"], size, &parts].concat())?;
        guest.timeout = Duration::from_mins(45);
        Ok(guest)
    };
    let mut guests: Vec<Guest> = if full {
        let all = NODE_FULL.iter().map(|part| {
            let mut guest = guest(part.parts, part.full)?;
            guest.timeout = Duration::from_hours(6);
            guest.memory = part.memory;
            Ok(guest)
        });
        all.collect::<Result<_>>()?
    } else {
        let usual = NODE_USUAL.iter().map(|parts| guest(parts, &[]));
        usual.collect::<Result<_>>()?
    };
    let words = ["node", "run", "--counted", "--changes", "100"];
    let mut counted = agent_guest(
        built,
        series,
        &[&words[..], &["--only", "latency", "--only", "idle"]].concat(),
    )?;
    counted.icount = true;
    counted.smp = 1;
    counted.timeout = Duration::from_mins(45);
    guests.push(counted);
    Ok(guests)
}

/// The agent on a kernel that was not told to start `bpf`, as most are not.
pub(crate) fn without_bpf_guest(built: &Built, series: Series) -> Result<Guest> {
    let parts = ["node", "run", "--only", "without-bpf", "--only", "records"];
    let mut guest = agent_guest(built, series, &parts)?;
    WITHOUT_BPF.clone_into(&mut guest.lsm);
    Ok(guest)
}

/// A guest that says what an agent needs for one policy of this enforcer and so many containers.
pub(crate) fn resources_guest(
    built: &Built,
    series: Series,
    enforcer: &str,
    containers: u32,
) -> Result<Guest> {
    let containers = containers.to_string();
    let mut guest = agent_guest(
        built,
        series,
        &[
            "node",
            "run",
            "--only",
            "resources",
            "--enforcer",
            enforcer,
            "--containers",
            &containers,
        ],
    )?;
    guest.icount = true;
    guest.smp = 1;
    guest.timeout = Duration::from_mins(45);
    if enforcer != "BPF" {
        WITHOUT_BPF.clone_into(&mut guest.lsm);
    }
    Ok(guest)
}

/// A guest with containerd that runs this command of the guest's program with an image and an agent.
fn agent_guest(built: &Built, series: Series, command: &[&str]) -> Result<Guest> {
    let folder = workspace::target().join("demo");
    workspace::make_dir(&folder)?;
    let guest_program = built.program("varmor-guest");
    let archive = folder.join("image.tar");
    image::write(&archive, &guest_program)?;
    let places = [
        "--image",
        "/demo/image.tar",
        "--agent",
        "/usr/local/bin/varmor-agent",
    ];
    let words = [&["/usr/local/bin/varmor-guest"], command, &places].concat();
    let mut guest = Guest::new(series, words);
    guest.rootfs = true;
    guest.memory = 2048;
    guest.timeout = Duration::from_mins(25);
    guest.shares = vec![
        Share::new(&guest_program, "/usr/local/bin/varmor-guest"),
        Share::new(built.program("varmor-agent"), "/usr/local/bin/varmor-agent"),
        Share::new(&archive, "/demo/image.tar"),
        Share::new(built.program("varmor"), "/usr/local/bin/varmor"),
    ];
    Ok(guest)
}

/// The exit code says what the report says, so it is worked out from the report.
fn judge(report: &Value, outcome: &Outcome) -> Result<Demo> {
    let attempts = report["attempts"]
        .as_array()
        .context("the report has no attempts")?;
    let judged = attempts.iter().map(|attempt| {
        let wanted = if attempt["kind"] == "attack" {
            "denied"
        } else {
            "allowed"
        };
        let good = attempt["unprotected"] == "allowed" && attempt["protected"] == wanted;
        (attempt["name"].as_str().unwrap_or_default().to_owned(), good)
    });
    let attempts: Vec<(String, bool)> = judged.collect();
    let good = outcome.code == 0 && !attempts.is_empty() && attempts.iter().all(|(_, good)| *good);
    Ok(Demo { good, attempts })
}

/// The guest leaves the report and the agent's log.
fn read_report(results: &std::path::Path) -> Result<Value> {
    let file = File::open(results).with_context(|| format!("open {}", results.display()))?;
    let mut report = None;
    let mut archive = tar::Archive::new(file);
    for entry in archive.entries().context("read what the guest left")? {
        let Ok(mut entry) = entry else { break };
        let name = entry.path().context("read what the guest left")?.into_owned();
        let mut content = Vec::new();
        entry
            .read_to_end(&mut content)
            .context("read what the guest left")?;
        match name.file_name().and_then(|name| name.to_str()) {
            Some("report.json") => {
                report = Some(serde_json::from_slice(&content).context("read the guest's report")?);
            }
            Some("agent.log") => {
                fs::write(workspace::log_file("demo-agent"), content).context("keep the agent's log")?;
            }
            _ => {}
        }
    }
    let Some(report) = report else {
        bail!("the guest left no report; its output is above");
    };
    Ok(report)
}
