//! Brings systems about and runs the measuring process under them.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{
    attached,
    empty::{self, EmptyPrograms},
    kept, priority,
    protocol::{FOLDER, Line, Setup},
};

const VARMOR: &str = "/varmor";
pub(super) const GUEST: &str = "/varmor-guest";
const BPFFS: &str = "/sys/fs/bpf";
/// Starts the product with the programs that an earlier run has loaded.
const KEPT: [&str; 5] = [GUEST, "bench", "launch", "--kept", "--"];
const LOAD_PROFILE: &str = "/sys/kernel/security/apparmor/.load";

/// A system in force.
pub(super) enum Active {
    /// The measuring process is started by these words.
    Launched(Vec<String>),
    Empty(EmptyPrograms),
    Beside(Neighbour),
}

/// A task under a policy that does nothing; it ends when its input does.
pub(super) struct Neighbour(Child);

/// Hooks that the product attaches, by policy: starting it takes half a minute of a guest that counts instructions.
pub(super) type Known = BTreeMap<String, Vec<String>>;

pub(super) fn activate(setup: &Setup, known: &mut Known) -> Result<Active> {
    let words = |words: &[&str]| Active::Launched(words.iter().map(|word| (*word).to_owned()).collect());
    Ok(match setup {
        Setup::Nothing => words(&[GUEST, "bench", "launch", "--"]),
        Setup::Seccomp { rules } => words(&[GUEST, "bench", "launch", "--seccomp", &rules.to_string(), "--"]),
        Setup::AppArmor { profile, file } => {
            load_profile(file)?;
            words(&[GUEST, "bench", "launch", "--apparmor", profile, "--"])
        }
        Setup::Under { policy } => {
            let policy = in_folder(policy);
            let mut all = KEPT.to_vec();
            all.extend([VARMOR, "run", "--quiet", "--policy", &policy, "--"]);
            words(&all)
        }
        Setup::Beside { policy } => Active::Beside(beside(policy, known)?),
        Setup::Empty { policy } => {
            if !known.contains_key(policy) {
                let others = attached::count()?;
                beside(policy, known)?.end()?;
                attached::wait_for(others)?;
            }
            let hooks = known.get(policy).filter(|hooks| !hooks.is_empty());
            Active::Empty(EmptyPrograms::attach(
                hooks.context("the product attached no program")?,
            )?)
        }
    })
}

/// A neighbour whose programs the kernel calls, and no others of the product; its hooks are known from now on.
fn beside(policy: &str, known: &mut Known) -> Result<Neighbour> {
    let others = attached::count()?;
    let neighbour = Neighbour::start(policy)?;
    let hooks = empty::attached(Path::new(BPFFS))?;
    // It finds what the run before knew, attaches that as well, and lets go of what its own policy does not need.
    attached::wait_for(others + hooks.len())?;
    known.insert(policy.to_owned(), hooks);
    Ok(neighbour)
}

impl Active {
    /// The words that start any command under it; none if it is no matter of how a process is started.
    pub(super) fn launcher(&self) -> Option<&[String]> {
        match self {
            Self::Launched(words) => Some(words),
            Self::Empty(_) | Self::Beside(_) => None,
        }
    }

    /// Runs the measuring process and returns what it says. A salt makes its environment longer.
    pub(super) fn measure(&self, salt: u32) -> Result<Vec<Line>> {
        let output = self.run(&["measure"], salt)?;
        Self::understand(&String::from_utf8_lossy(&output.stdout))
    }

    /// The same, but the measuring process and all that it starts get their priority from this one.
    pub(super) fn measure_granted(&self, salt: u32) -> Result<Vec<Line>> {
        let mut command = self.command(&["measure", "--ask-for-priority"], salt)?;
        let output = priority::grant(&mut command)?;
        Self::understand(&output)
    }

    fn understand(text: &str) -> Result<Vec<Line>> {
        text.lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("understand `{line}`")))
            .collect()
    }

    /// Repeats one operation without measuring it.
    pub(super) fn repeat(&self, operation: &str, times: u32) -> Result<()> {
        self.run(
            &["measure", "--only", operation, "--repeat", &times.to_string()],
            0,
        )
        .map(drop)
    }

    /// The hooks that programs are attached to, as far as this process can tell.
    pub(super) fn hooks(&self) -> Result<Vec<String>> {
        match self {
            Self::Launched(_) => Ok(Vec::new()),
            Self::Empty(programs) => Ok(programs.runs()?.into_keys().collect()),
            Self::Beside(_) => empty::attached(Path::new(BPFFS)),
        }
    }

    /// A process that waits while others measure, unless there is one already. To fork costs more the more processes
    /// map the same file, and so every system has two of this program.
    pub(super) fn companion(&self) -> Result<Option<Companion>> {
        match self {
            Self::Beside(_) => Ok(None),
            Self::Launched(_) | Self::Empty(_) => Companion::start().map(Some),
        }
    }

    pub(super) fn end(self) -> Result<()> {
        match self {
            Self::Beside(neighbour) => neighbour.end(),
            Self::Launched(_) | Self::Empty(_) => Ok(()),
        }
    }

    fn command(&self, arguments: &[&str], salt: u32) -> Result<Command> {
        let prefix = match self {
            Self::Launched(words) => words.clone(),
            Self::Empty(_) | Self::Beside(_) => [GUEST, "bench", "launch", "--"].map(str::to_owned).to_vec(),
        };
        let padding = "x".repeat(24 * usize::try_from(salt)?);
        let mut command = Command::new(&prefix[0]);
        command
            .args(&prefix[1..])
            .args([GUEST, "bench"])
            .args(arguments)
            .env_clear()
            .env("PATH", "/bin")
            .envs((salt > 0).then_some(("SALT", padding)));
        Ok(command)
    }

    fn run(&self, arguments: &[&str], salt: u32) -> Result<Output> {
        let output = self
            .command(arguments, salt)?
            .stdin(Stdio::null())
            .output()
            .context("run the measuring process")?;
        ensure!(
            output.status.success(),
            "the measuring process: {}: {}",
            output.status,
            failure(&String::from_utf8_lossy(&output.stderr))
        );
        Ok(output)
    }
}

/// What the product says of its failure, without its notes about the policy; of another program, all.
fn failure(errors: &str) -> &str {
    let own = errors.lines().rev().find(|line| line.starts_with("varmor: "));
    own.unwrap_or(errors.trim())
}

/// A process under no policy that does nothing until this value is dropped.
pub(super) struct Companion(Child);

impl Companion {
    fn start() -> Result<Self> {
        let child = Command::new(GUEST)
            .args(["bench", "wait"])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {GUEST}"))?;
        let mut companion = Self(child);
        let output = companion.0.stdout.take().context("the output is piped")?;
        BufReader::new(output).read_line(&mut String::new())?;
        Ok(companion)
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Neighbour {
    fn start(policy: &str) -> Result<Self> {
        let mut child = Command::new(KEPT[0])
            .args(&KEPT[1..])
            .args([VARMOR, "run", "--quiet", "--policy", &in_folder(policy), "--"])
            .args([GUEST, "bench", "wait"])
            .env_clear()
            .env("PATH", "/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {VARMOR}"))?;
        let mut line = String::new();
        let output = child.stdout.take().context("the output is piped")?;
        BufReader::new(output).read_line(&mut line)?;
        if line.is_empty() {
            let output = child.wait_with_output()?;
            let errors = String::from_utf8_lossy(&output.stderr);
            anyhow::bail!("{VARMOR} run: {}: {}", output.status, errors.trim());
        }
        kept::save(child.id())?;
        Ok(Self(child))
    }

    fn end(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{VARMOR} run: {}: {}",
            output.status,
            errors.trim()
        );
        Ok(())
    }
}

fn in_folder(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// A profile must arrive in one write.
fn load_profile(file: &str) -> Result<()> {
    let profile = fs::read(in_folder(file)).with_context(|| format!("read {file}"))?;
    let mut load = OpenOptions::new()
        .write(true)
        .open(LOAD_PROFILE)
        .with_context(|| format!("open {LOAD_PROFILE}"))?;
    let written = load.write(&profile).with_context(|| format!("load {file}"))?;
    ensure!(written == profile.len(), "{file} did not fit into one write");
    Ok(())
}
