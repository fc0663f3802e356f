//! Attempts to run a program by all its names.

use std::{
    ffi::CString,
    fs::File,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use nix::unistd::fexecve;

use super::{attempt::Attempt, policies::RULES};
use crate::attack::Failure;

pub(super) fn attempts() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, RULES, run);
    let benign = |name, run| Attempt::benign(name, RULES, run);
    vec![
        attack("run a program by its path", || {
            run(Command::new("/prog/tool").arg("--version"))
        }),
        attack("run it by a relative path", || {
            run(Command::new("./tool").arg("--version").current_dir("/prog"))
        }),
        attack("run it through a symbolic link", || {
            run(Command::new("/links/tool").arg("--version"))
        }),
        attack("run it as the interpreter of a script", || {
            run(&mut Command::new("/links/script"))
        }),
        attack("run it by a descriptor", by_descriptor),
        attack("run a shell that is a link to busybox", || {
            run(Command::new("/links/sh").args(["-c", "true"]))
        }),
        attack("run a shell whose name ends like that of its file", || {
            run(Command::new("/links/short/sh").args(["-c", "true"]))
        }),
        attack("run it by its bare name", || {
            run(in_this_folder("sh").args(["-c", "true"]))
        }),
        benign("run its file by its own name", || {
            run(Command::new("/links/short/h").arg0("true"))
        }),
        benign("run its file by its bare name", || {
            run(in_this_folder("h").arg0("true"))
        }),
        benign("run another program", || {
            run(Command::new("/prog/other").arg("--version"))
        }),
        attack("run another program that is mounted over a denied place", || {
            run(Command::new("/links/covered/sh").arg("--version"))
        }),
        benign("run a program that is mounted over another place", || {
            run(Command::new("/links/covered/tool").arg("--version"))
        }),
        benign("run a program that is mounted there twice", || {
            run(Command::new("/links/twice/tool").arg("--version"))
        }),
        benign("run another name of busybox", || {
            run(&mut Command::new("/links/true"))
        }),
    ]
}

/// A program whose name has no folder in front when the kernel is asked for it.
fn in_this_folder(name: &str) -> Command {
    let mut command = Command::new(name);
    // An empty place among those where programs are looked for is the folder where one is.
    command.env("PATH", "").current_dir("/links/short");
    command
}

pub(super) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Broken(status.to_string()))
    }
}

/// Becomes the program, which prints the outcome when it runs.
fn by_descriptor() -> Result<(), Failure> {
    let file = File::open("/prog/tool").map_err(|error| Failure::Broken(error.to_string()))?;
    let arguments = ["tool", "enforce", "--say"].map(|word| CString::new(word).unwrap_or_default());
    let environment: [CString; 0] = [];
    match fexecve(file, &arguments, &environment) {
        Ok(never) => match never {},
        Err(errno) => Err(errno.into()),
    }
}
