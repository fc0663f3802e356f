//! The measuring process becomes a real-time task by the hand of a process that is under no policy.
//!
//! It is more urgent than the clients that it will start, and so is the server that it starts: a client with nothing more to send
//! asks again and again whether it may write (redis-benchmark does), and as an equal it would never let the server answer.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write, stdin},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::raw;

/// Microseconds of each second for real-time tasks. They have all: one that is stopped for the rest of a second finds, when it goes
/// on, that others have run meanwhile (GIMP then takes a plug-in that has ended for one that could not be started).
pub(super) const THROTTLING: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// In the measuring process: says which process it is, and waits until it has been served.
pub(super) fn ask() -> Result<()> {
    println!("{}", std::process::id());
    let answered = stdin().read(&mut [0; 1]).context("wait for the priority")?;
    ensure!(answered == 1, "nobody gave this process its priority");
    Ok(())
}

/// Starts the measuring process, answers it, and returns what it says after that.
pub(super) fn grant(command: &mut Command) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start the measuring process")?;
    let mut answer = child.stdin.take().context("the input is piped")?;
    let mut output = BufReader::new(child.stdout.take().context("the output is piped")?);
    let mut first = String::new();
    output.read_line(&mut first)?;
    if let Ok(process) = first.trim().parse() {
        fs::write(THROTTLING, "-1").with_context(|| format!("write {THROTTLING}"))?;
        raw::make_real_time(process, raw::PRIORITY + 1)
            .context("make the measuring process a real-time task")?;
        answer.write_all(b"\n").context("answer the measuring process")?;
    }
    let mut rest = String::new();
    output.read_to_string(&mut rest)?;
    let ended = child.wait_with_output()?;
    if !ended.status.success() || rest.is_empty() {
        let errors = String::from_utf8_lossy(&ended.stderr);
        bail!(
            "the measuring process: {}: {first}{}",
            ended.status,
            errors.trim()
        );
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::grant;

    #[test]
    fn process_that_fails_is_told_with_what_it_said() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo no number; echo reason >&2; exit 3"]);
        let error = grant(&mut command).unwrap_err().to_string();
        assert!(
            error.contains("no number") && error.contains("reason") && error.contains('3'),
            "{error}"
        );
    }
}
