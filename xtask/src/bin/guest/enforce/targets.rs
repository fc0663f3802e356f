//! Attempts under rules for single executables: who executes one of them keeps its rules, and so do its children.

use std::{
    ffi::CString,
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    process::Command,
};

use anyhow::{Context, Result};
use nix::unistd::fexecve;

use super::{attempt::Attempt, execution::run, policies::TARGETS};
use crate::attack::{Failure, Outcome};

/// Steps that other programs make; no policy has this name.
const STEP: &str = "step";
const WRITE: &str = "step: write below /etc";
const SHELL: &str = "step: run a shell";
const WRITE_BY_OTHER: &str = "step: let another program write below /etc";
const WRITE_BY_THIRD: &str = "step: let another program let a third one write below /etc";
const WRITE_BY_SECOND_GROUP: &str = "step: let a target of another group write below /etc";
const SHELL_BY_SECOND_GROUP: &str = "step: let a target of another group run a shell";

/// May not write below /etc.
const TOOL: &str = "/targets/tool";
/// May not run a shell.
const SNAKE: &str = "/targets/snake3.11";
/// In no group.
const OTHER: &str = "/targets/other";

pub(super) fn prepare() -> Result<()> {
    fs::create_dir_all("/targets/links")?;
    fs::create_dir_all("/etc")?;
    for program in [TOOL, SNAKE, OTHER] {
        fs::copy("/proc/self/exe", program)
            .with_context(|| format!("copy the guest program to {program}"))?;
        fs::set_permissions(program, fs::Permissions::from_mode(0o755))?;
    }
    symlink(TOOL, "/targets/links/other")?;
    fs::hard_link(OTHER, "/targets/links/hard")?;
    Ok(())
}

pub(super) fn attempts() -> Vec<Attempt> {
    [attacks(), benign(), steps()].into_iter().flatten().collect()
}

fn attacks() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, TARGETS, run);
    vec![
        attack("write below /etc by a target", || by(TOOL, WRITE)),
        attack("write below /etc by a target under another name", || {
            by("/targets/links/other", WRITE)
        }),
        attack(
            "write below /etc by a target that is run by a descriptor",
            by_descriptor,
        ),
        attack("write below /etc by the child of a target", || {
            by(TOOL, WRITE_BY_OTHER)
        }),
        attack("write below /etc by the grandchild of a target", || {
            by(TOOL, WRITE_BY_THIRD)
        }),
        attack("run a shell by a target of the other group", || by(SNAKE, SHELL)),
        attack("write below /etc by a target that another target started", || {
            by(TOOL, WRITE_BY_SECOND_GROUP)
        }),
        attack("run a shell by a target that another target started", || {
            by(TOOL, SHELL_BY_SECOND_GROUP)
        }),
    ]
}

fn benign() -> Vec<Attempt> {
    let benign = |name, run| Attempt::benign(name, TARGETS, run);
    vec![
        benign("write below /etc by a program in no group", || by(OTHER, WRITE)),
        benign("write below /etc by a program under a second name", || {
            by("/targets/links/hard", WRITE)
        }),
        benign("write below /etc by a target of another group", || {
            by(SNAKE, WRITE)
        }),
        benign("run a shell by a target of another group", || by(TOOL, SHELL)),
        benign("run a shell by a program in no group", || by(OTHER, SHELL)),
        benign("write below /etc after a target was run", || {
            run(Command::new(TOOL).arg("--version"))?;
            write()
        }),
    ]
}

fn steps() -> Vec<Attempt> {
    let step = |name, run| Attempt::benign(name, STEP, run);
    vec![
        step(WRITE, write),
        step(SHELL, || run(Command::new("/links/sh").args(["-c", "true"]))),
        step(WRITE_BY_OTHER, || by(OTHER, WRITE)),
        step(WRITE_BY_THIRD, || by(OTHER, WRITE_BY_OTHER)),
        step(WRITE_BY_SECOND_GROUP, || by(SNAKE, WRITE)),
        step(SHELL_BY_SECOND_GROUP, || by(SNAKE, SHELL)),
    ]
}

fn write() -> Result<(), Failure> {
    // Attempts of one policy follow each other, but their programs may still end.
    let file = format!("/etc/attempt-{}", std::process::id());
    fs::write(&file, "content")?;
    Ok(fs::remove_file(&file)?)
}

/// Lets a program make a step. Its own start must not fail: the policy lets every program of the suite run.
fn by(program: &str, step: &str) -> Result<(), Failure> {
    let output = Command::new(program)
        .args(["enforce", "--one", step])
        .output()
        .map_err(|error| Failure::Broken(format!("start {program}: {error}")))?;
    match serde_json::from_slice(&output.stdout) {
        Ok(Outcome::Allowed) => Ok(()),
        Ok(Outcome::Denied(detail)) => Err(Failure::Refused(detail)),
        Ok(Outcome::Broken(detail)) => Err(Failure::Broken(detail)),
        Err(_) => Err(Failure::Broken(format!(
            "{program} printed no outcome: {}",
            output.status
        ))),
    }
}

/// Becomes the target, which makes the step and prints the outcome.
fn by_descriptor() -> Result<(), Failure> {
    let file = File::open(TOOL).map_err(|error| Failure::Broken(error.to_string()))?;
    let arguments =
        ["anything", "enforce", "--one", WRITE].map(|word| CString::new(word).unwrap_or_default());
    let environment: [CString; 0] = [];
    match fexecve(file, &arguments, &environment) {
        Ok(never) => match never {},
        Err(errno) => Err(Failure::Broken(errno.to_string())),
    }
}
