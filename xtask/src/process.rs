//! Runs other programs: output to a log file, its end shown on failure.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{progress, workspace};

/// How many lines of a log are shown when its command failed.
const TAIL: usize = 40;

/// A command that leaves its output in `target/xtask/logs/NAME.log`.
pub(crate) struct Run {
    log: PathBuf,
    command: Command,
}

impl Run {
    pub(crate) fn new(log: &str, program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).current_dir(workspace::root());
        Self {
            log: workspace::log_file(log),
            command,
        }
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Removes what the outer cargo and rustup put into the environment, so that an inner cargo of another
    /// toolchain starts like one that a user typed.
    pub(crate) fn without_cargo_env(mut self) -> Self {
        let foreign = |key: &OsString| {
            let key = key.to_string_lossy();
            key.starts_with("CARGO")
                && key != "CARGO_HOME"
                && key != "CARGO_NET_OFFLINE"
                && !key.starts_with("CARGO_REGISTRIES")
                || key.starts_with("RUSTUP_TOOLCHAIN")
                || matches!(
                    &*key,
                    "RUSTC"
                        | "RUSTDOC"
                        | "RUSTFLAGS"
                        | "RUSTC_WRAPPER"
                        | "RUSTC_BOOTSTRAP"
                        | "LD_LIBRARY_PATH"
                )
        };
        for (key, _) in std::env::vars_os().filter(|(key, _)| foreign(key)) {
            self.command.env_remove(key);
        }
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Runs it; an exit code other than 0 is an error that shows the end of the log.
    pub(crate) fn run(self) -> Result<()> {
        if self.status()? {
            Ok(())
        } else {
            bail!("the command failed")
        }
    }

    /// Runs it; false (and the end of the log on the terminal) if it failed.
    pub(crate) fn status(mut self) -> Result<bool> {
        workspace::make_dir(self.log.parent().expect("log files are in a folder"))?;
        let log = File::create(&self.log).with_context(|| format!("create {}", self.log.display()))?;
        self.command
            .stderr(log.try_clone().context("share the log file")?)
            .stdout(log);
        let line = describe(&self.command);
        progress::follow(Some(&self.log));
        let status = self.command.status();
        progress::follow(None);
        let status = status.with_context(|| format!("run {line}"))?;
        if !status.success() {
            eprintln!("failed ({status}): {line}\n--- the end of {}", self.log.display());
            eprintln!("{}\n---", tail(&self.log, TAIL));
        }
        Ok(status.success())
    }

    /// Where the output goes.
    pub(crate) fn log(&self) -> PathBuf {
        self.log.clone()
    }
}

/// Runs a command and returns its standard output.
pub(crate) fn output(program: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    let line = describe(&command);
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().with_context(|| format!("run {line}"))?;
    if !status.success() {
        bail!(
            "{line} failed ({status}): {}",
            String::from_utf8_lossy(&stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// The last lines of a text file.
pub(crate) fn tail(file: &Path, lines: usize) -> String {
    let bytes = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| quote(&word.to_string_lossy()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Quotes a word for a POSIX shell.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn quoted_words_survive_a_shell() {
        for word in [
            "plain",
            "",
            "two words",
            "it's",
            "$HOME `id` \"x\" \\",
            "new\nline",
        ] {
            let printed =
                super::output("sh", ["-c", &format!("printf %s {}", quote(word))]).expect("sh runs");
            assert_eq!(printed, word);
        }
    }
}
