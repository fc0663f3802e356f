//! `lint`: format, compiler and clippy lints, licences, generated files, house rules.

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    bpf, build, cluster, codegen,
    process::Run,
    progress::Progress,
    tidy,
    tools::{self, runs},
};

#[derive(clap::Args)]
pub(crate) struct Args {}

type Check = fn() -> Result<Outcome>;

/// How one check ended.
enum Outcome {
    Passed,
    Failed,
    Skipped(&'static str),
}

pub(crate) fn command(_: &Args) -> Result<ExitCode> {
    tools::need(tools::PROGRAMS)?;
    let checks: [(&str, Check); 7] = [
        ("format", format),
        ("house rules", house_rules),
        ("clippy, workspace", clippy_workspace),
        ("clippy, eBPF", clippy_bpf),
        ("licences and duplicates", deny),
        ("generated files", generated),
        ("chart", chart),
    ];
    let mut progress = Progress::new("lint", checks.len());
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, check) in checks {
        match progress.step(name, check) {
            Ok(Outcome::Passed) => passed += 1,
            Ok(Outcome::Failed) => {
                failed += 1;
                println!("FAILED: {name}");
            }
            Ok(Outcome::Skipped(reason)) => {
                skipped += 1;
                println!("skipped: {name}: {reason}");
            }
            Err(error) => {
                failed += 1;
                println!("FAILED: {error:#}");
            }
        }
    }
    progress.finish();
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn from(good: bool) -> Outcome {
    if good { Outcome::Passed } else { Outcome::Failed }
}

fn format() -> Result<Outcome> {
    let workspace = Run::new("fmt", "cargo")
        .args(["fmt", "--all", "--check", "--", "--color", "never"])
        .status()?;
    let folder = crate::workspace::root().join("varmor-ebpf");
    let bpf = Run::new("fmt-ebpf", "cargo")
        .args(["fmt", "--check", "--", "--color", "never"])
        .dir(&folder)
        .status()?;
    Ok(from(workspace && bpf))
}

fn house_rules() -> Result<Outcome> {
    let broken = tidy::check()?;
    for problem in &broken {
        println!("{problem}");
    }
    Ok(from(broken.is_empty()))
}

fn clippy_workspace() -> Result<Outcome> {
    // The agent embeds the objects, so they have to be there.
    bpf::build()?;
    let run = build::cargo("clippy").args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    Ok(from(run.status()?))
}

fn clippy_bpf() -> Result<Outcome> {
    Ok(bpf::clippy()?.map_or(Outcome::Skipped("the eBPF toolchain has no clippy"), from))
}

fn deny() -> Result<Outcome> {
    if !runs("cargo", &["deny", "--version"]) {
        return Ok(Outcome::Skipped(
            "cargo-deny is not installed (`cargo install --locked cargo-deny`)",
        ));
    }
    let checks = ["deny", "--offline", "check", "licenses", "bans", "sources"];
    Ok(from(Run::new("deny", "cargo").args(checks).status()?))
}

fn generated() -> Result<Outcome> {
    let differing = codegen::differences()?;
    for (name, _) in &differing {
        println!("{name} is not up to date; run `cargo xtask codegen`");
    }
    Ok(from(differing.is_empty()))
}

/// helm is a program of the cluster lab; building it for a lint would take minutes.
fn chart() -> Result<Outcome> {
    let Some(helm) = cluster::helm() else {
        return Ok(Outcome::Skipped(
            "there is no helm (`cargo xtask cluster binaries` builds it)",
        ));
    };
    let folder = crate::workspace::root().join("charts/varmor");
    let lint = Run::new("helm-lint", &helm)
        .args(["lint", "--strict"])
        .arg(&folder)
        .status()?;
    let template = Run::new("helm-template", &helm)
        .args(["template", "varmor", "--namespace", "varmor"])
        .args(["--kube-version", cluster::KUBERNETES])
        .arg(&folder)
        .status()?;
    Ok(from(lint && template))
}
