//! `model`: a real service is recorded, and the profile that was learned of it lets it work and stops who takes it over.

mod intrusion;
mod service;

use std::{fs, process::ExitCode, time::Instant};

use anyhow::{Context, Result, ensure};

use crate::line::Line;
use service::Launch;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these sets of enforcers, such as `BPF` or `AppArmorBPFSeccomp`
    enforcers: Vec<String>,
}

const VARMOR: &str = "/varmor";
const MODEL: &str = "/tmp/model.yaml";
/// Together first: that is how the profile is meant.
const ENFORCERS: &[&str] = &["AppArmorBPFSeccomp", "BPF", "AppArmor", "Seccomp"];
/// Attacks that all enforcers together have to stop, and each of them alone.
const STOPPED_TOGETHER: usize = 10;
const STOPPED_ALONE: usize = 3;

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    service::prepare().context("prepare the guest")?;
    let wanted = |name: &str| args.enforcers.is_empty() || args.enforcers.iter().any(|one| one == name);
    let mut good = case("the service works without a policy", || {
        let seen = service::benign(&Launch::Free)?;
        ensure!(seen.is_good(), "{seen:?}");
        Ok(String::new())
    })?;
    good &= case("the service is recorded", learn)?;
    good &= case("every attack works without a policy", || {
        let outcomes = intrusion::free()?;
        let failed: Vec<_> = outcomes
            .iter()
            .filter(|(_, outcome)| outcome != "works")
            .collect();
        ensure!(failed.is_empty(), "{failed:?}");
        Ok(format!("{} attacks", outcomes.len()))
    })?;
    for enforcers in ENFORCERS.iter().filter(|name| wanted(name)) {
        good &= case(&format!("{enforcers}: the benign run passes"), || {
            benign(enforcers)
        })?;
        good &= case(&format!("{enforcers}: attacks are denied"), || attacks(enforcers))?;
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn learn() -> Result<String> {
    let seen = service::benign(&Launch::Learn)?;
    ensure!(seen.is_good(), "{seen:?}");
    let shown = service::output(VARMOR, &["model", "show", MODEL])?;
    eprintln!("{shown}");
    ensure!(!shown.contains("incomplete:"), "events were lost: {shown}");
    // What the learned profile would have made of the part that it did not see.
    let held_out: Vec<&str> = shown
        .lines()
        .filter(|line| line.starts_with("held out"))
        .collect();
    ensure!(held_out.len() == 2, "no report about the held-out part");
    Ok(held_out.join("; "))
}

/// The policy that holds the service to its model under these enforcers.
fn policy(enforcers: &str) -> Result<String> {
    let text = service::output(VARMOR, &["model", "policy", MODEL, "--enforcer", enforcers])?;
    let file = format!("/tmp/policy-{enforcers}.yaml");
    fs::write(&file, text).with_context(|| format!("write {file}"))?;
    Ok(file)
}

fn benign(enforcers: &str) -> Result<String> {
    let seen = service::benign(&Launch::Under(policy(enforcers)?))?;
    let said: Vec<&str> = seen.said.lines().filter(|line| line.contains("denied")).collect();
    ensure!(said.is_empty(), "{said:?}");
    ensure!(seen.is_good(), "{seen:?}");
    Ok(String::new())
}

fn attacks(enforcers: &str) -> Result<String> {
    let outcomes = intrusion::under(&policy(enforcers)?)?;
    let with = |word: &str| -> Vec<&str> {
        let those = outcomes.iter().filter(|(_, outcome)| outcome == word);
        those.map(|(name, _)| name.as_str()).collect()
    };
    let (denied, works) = (with("denied"), with("works"));
    let broken = outcomes.len() - denied.len() - works.len();
    let needed = if enforcers == ENFORCERS[0] {
        STOPPED_TOGETHER
    } else {
        STOPPED_ALONE
    };
    ensure!(denied.len() >= needed && broken == 0, "{outcomes:?}");
    // What all together leave possible would be left possible by the product.
    ensure!(enforcers != ENFORCERS[0] || works.is_empty(), "{outcomes:?}");
    let rest = if works.is_empty() {
        String::new()
    } else {
        format!("; it cannot hold {}", works.join(", "))
    };
    Ok(format!("{} of {} denied{rest}", denied.len(), outcomes.len()))
}

fn case(name: &str, run: impl FnOnce() -> Result<String>) -> Result<bool> {
    let start = Instant::now();
    let (outcome, detail) = match run() {
        Ok(detail) => ("passed", detail),
        Err(error) => ("failed", format!("{error:#}")),
    };
    let line = Line {
        suite: "model",
        case: name,
        outcome,
        detail,
        ms: start.elapsed().as_millis(),
    };
    line.say()?;
    Ok(outcome == "passed")
}
