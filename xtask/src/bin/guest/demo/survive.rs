//! `survive`: what becomes of the protection when the agent is killed and when its policy file changes. One JSON line
//! per claim.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{PROTECTED, agent::Agent, containers, network, starts};

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
}

const LOG: &str = "/run/survive-agent.log";
const VIOLATIONS: &str = "/var/log/varmor/violations.log";
const STATE: &str = "/run/varmor/policies.json";
/// An attack that the policy refuses, and an operation that it allows.
const ATTACK: &str = "sa-token";
const BENIGN: &str = "proc-status";
const ATTACK_SECONDS: u64 = 30;
const READY: Duration = Duration::from_mins(10);
const SOON: Duration = Duration::from_mins(2);

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    network::serve()?;
    containers::import(&args.image)?;
    containers::start(PROTECTED)?;
    ensure!(
        containers::counts(PROTECTED, ATTACK, 1)?.allowed > 0,
        "the attack works without a policy"
    );
    let agent = start(args)?;
    let mut good = true;
    good &= say("a container that ran before the agent is protected", || {
        let counts = containers::counts(PROTECTED, ATTACK, 2)?;
        ensure!(counts.allowed == 0 && counts.denied > 0, "{counts:?}");
        let counts = containers::counts(PROTECTED, BENIGN, 1)?;
        ensure!(counts.denied == 0 && counts.allowed > 0, "benign: {counts:?}");
        Ok(())
    });
    let killed = thread::spawn(|| containers::counts(PROTECTED, ATTACK, ATTACK_SECONDS));
    thread::sleep(Duration::from_secs(5));
    // Dropping it kills it with SIGKILL.
    drop(agent);
    thread::sleep(Duration::from_secs(8));
    let agent = start(args)?;
    good &= say(
        "not one attack succeeds while the agent is killed and restarted",
        || {
            let counts = killed
                .join()
                .map_err(|_| anyhow::anyhow!("the attacks panicked"))??;
            ensure!(
                counts.allowed == 0 && counts.denied > 0 && counts.broken == 0,
                "{counts:?}"
            );
            Ok(())
        },
    );
    good &= say(
        "the restarted agent adopts the programs of the killed one",
        || {
            let log = fs::read_to_string(LOG)?;
            ensure!(
                log.contains("adopted") || log.contains("Adopted"),
                "the log does not say so"
            );
            Ok(())
        },
    );
    good &= say("status names the profile and counts the denials", || {
        let output = Command::new("varmor")
            .arg("status")
            .output()
            .context("run varmor status")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{}: {text}", output.status);
        ensure!(
            text.contains("varmor-demo-demo") && text.contains(PROTECTED),
            "it says: {text}"
        );
        Ok(())
    });
    let agent = first_instructions(args, agent, &mut good)?;
    let policy = args.policies.join("demo.yaml");
    let text = fs::read_to_string(&policy)?;
    good &= say(
        "a policy file that becomes bad stays enforced in its last good version",
        || {
            replace(&policy, &text.replace("mitigate-sa-leak", "mitigate-sa-leek"))?;
            wait("the agent says that the file is invalid", || {
                Ok(state_of("demo.yaml")?.contains("invalid"))
            })?;
            let counts = containers::counts(PROTECTED, ATTACK, 2)?;
            ensure!(counts.allowed == 0 && counts.denied > 0, "{counts:?}");
            Ok(())
        },
    );
    good &= say("a policy is changed while the container runs", || {
        replace(
            &policy,
            &text.replace("- mitigate-sa-leak", "- mitigate-overlayfs-leak"),
        )?;
        wait("the attack works", || {
            Ok(containers::counts(PROTECTED, ATTACK, 1)?.denied == 0)
        })?;
        replace(&policy, &text)?;
        wait("the attack is refused", || {
            Ok(containers::counts(PROTECTED, ATTACK, 1)?.allowed == 0)
        })
    });
    good &= say("a removed policy is really removed", || {
        fs::remove_file(&policy)?;
        wait("the attack works", || {
            Ok(containers::counts(PROTECTED, ATTACK, 1)?.denied == 0)
        })
    });
    drop(agent);
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What containers get done in their first instructions, with the agent there, away and gone.
fn first_instructions(args: &Args, agent: Agent, good: &mut bool) -> Result<Agent> {
    fs::write(args.policies.join("starts.yaml"), starts::POLICY)?;
    wait("the agent has read the policy of the starts", || {
        Ok(state_of("starts.yaml")?.contains("ok"))
    })?;
    *good &= say(
        "ten containers are protected from their first instruction on",
        || starts::with_agent(10),
    );
    drop(agent);
    let mut agent = None;
    *good &= say(
        "a container that starts while the agent is away waits for it",
        || {
            agent = Some(starts::while_away(|| start(args))?);
            Ok(())
        },
    );
    drop(agent.take());
    *good &= say("without an agent no container starts", starts::without_agent);
    *good &= say(
        "the gatekeeper of an agent's pod that goes lets its successor start",
        || starts::without_agent_and_gatekeeper(&args.agent),
    );
    let agent = start(args)?;
    *good &= say(
        "with an agent they start again, and the refusals are in the log",
        || {
            starts::with_agent(1)?;
            wait("both refusals are in the log", || {
                Ok(starts::refusals(VIOLATIONS)? >= 2)
            })
        },
    );
    Ok(agent)
}

fn start(args: &Args) -> Result<Agent> {
    let agent = Agent::start(&args.agent, &args.policies, PathBuf::from(LOG))?;
    agent.wait_until_protected(PROTECTED, READY)?;
    Ok(agent)
}

fn say(case: &str, claim: impl FnOnce() -> Result<()>) -> bool {
    let start = Instant::now();
    let result = claim();
    let line = serde_json::json!({
        "suite": "agent",
        "case": case,
        "outcome": if result.is_ok() { "passed" } else { "failed" },
        "detail": result.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default(),
        "ms": start.elapsed().as_millis(),
    });
    println!("{line}");
    result.is_ok()
}

/// Replaces a file as an editor does: a new file and a rename.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text).with_context(|| format!("write {}", new.display()))?;
    fs::rename(&new, path).with_context(|| format!("replace {}", path.display()))
}

fn wait(what: &str, mut happened: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !happened()? {
        ensure!(start.elapsed() < SOON, "not within {} s: {what}", SOON.as_secs());
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// What the agent says of a policy file.
fn state_of(file: &str) -> Result<String> {
    let text = fs::read_to_string(STATE).with_context(|| format!("read {STATE}"))?;
    let state: Value = serde_json::from_str(&text).with_context(|| format!("read {STATE}"))?;
    let files = state["files"].as_array().cloned().unwrap_or_default();
    Ok(files
        .iter()
        .find(|entry| entry.to_string().contains(file))
        .map(|entry| entry["state"].to_string())
        .unwrap_or_default())
}
