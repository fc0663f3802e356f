//! System calls, pipes and processes.

use std::{
    ffi::OsStr,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result};
use rustix::fs::Mode;

use crate::bench::{operations::Operation, raw, systems::GUEST};

/// What this program is called when it only has to become itself again.
const EXECL: &str = "execl";
/// How often it does so in one repetition.
const LINKS: u32 = 8;

/// Five calls that do next to nothing: dup, close, getpid, getuid, umask.
pub(super) fn system_calls() -> Result<Operation> {
    let (reader, _writer) = io::pipe()?;
    Ok(Box::new(move || {
        drop(rustix::io::dup(&reader)?);
        std::hint::black_box(rustix::process::getpid());
        std::hint::black_box(rustix::process::getuid());
        rustix::process::umask(Mode::WGRP | Mode::WOTH);
        Ok(())
    }))
}

/// 512 bytes into a pipe and out of it.
pub(super) fn pipe() -> Result<Operation> {
    let (mut reader, mut writer) = io::pipe()?;
    let mut buffer = [0; 512];
    Ok(Box::new(move || {
        let written = writer.write(&buffer)?;
        let read = reader.read(&mut buffer)?;
        whole(written.min(read), buffer.len())
    }))
}

fn whole(moved: usize, length: usize) -> io::Result<()> {
    if moved == length {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "{moved} of {length} bytes went through"
        )))
    }
}

/// Another process that says what it is told.
struct Partner {
    process: Child,
    /// Closed first, which ends the process.
    input: Option<ChildStdin>,
    output: ChildStdout,
}

impl Drop for Partner {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.process.wait();
    }
}

/// A counter of 8 bytes goes to another process and comes back; both look whether it is the next one. The guest has one
/// processor.
pub(super) fn context() -> Result<Operation> {
    let mut process = Command::new(GUEST)
        .args(["bench", "echo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("start the partner")?;
    let input = process.stdin.take();
    let output = process.stdout.take().context("the output is piped")?;
    let mut partner = Partner {
        process,
        input,
        output,
    };
    let mut counter = 0_u64;
    Ok(Box::new(move || {
        counter += 1;
        let mut answer = [0; 8];
        if let Some(input) = &mut partner.input {
            input.write_all(&counter.to_ne_bytes())?;
        }
        partner.output.read_exact(&mut answer)?;
        if u64::from_ne_bytes(answer) == counter {
            Ok(())
        } else {
            Err(io::Error::other("the partner is out of step"))
        }
    }))
}

/// The partner: returns each counter, until its input ends.
pub(in crate::bench) fn echo() -> Result<()> {
    // The standard streams have buffers; the test's pipes have none.
    let (input, output) = (io::stdin(), io::stdout());
    let mut expected = 1_u64;
    let mut counter = [0; 8];
    while rustix::io::read(&input, &mut counter)? == counter.len() {
        anyhow::ensure!(u64::from_ne_bytes(counter) == expected, "the counter skipped");
        rustix::io::write(&output, &counter)?;
        expected += 1;
    }
    Ok(())
}

/// A process that ends at once, and its parent that waits for it.
pub(super) fn spawn() -> Operation {
    Box::new(|| raw::fork_and_wait(None))
}

/// A process that becomes itself so many times.
pub(super) fn execl() -> Operation {
    Box::new(|| {
        let status = link(LINKS).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("the chain ended with {status}")))
        }
    })
}

fn link(left: u32) -> Command {
    let mut command = Command::new(GUEST);
    // The number of links that are left, and what stands for the second of the start.
    command.arg0(EXECL).arg(left.to_string()).arg("0");
    command
}

/// What this program does under that name, before anything else; the exit code.
pub(super) fn execl_link() -> Option<i32> {
    let mut words = std::env::args_os();
    if words.next()? != OsStr::new(EXECL) {
        return None;
    }
    let left = words.next()?.to_str()?.parse::<u32>().ok()?;
    if left > 1 {
        let error = link(left - 1).exec();
        eprintln!("become {GUEST}: {error}");
        return Some(1);
    }
    Some(0)
}
