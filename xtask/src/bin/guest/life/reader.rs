//! Tasks in a protected cgroup that open a file that must be refused and one that must not: until they are told to
//! stop, or once for each question.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

pub(crate) const SECRET: &str = "/life/secret";
pub(crate) const OPEN: &str = "/life/open";
const STOP: &str = "/life/stop";

/// What readers saw.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) secret_denied: u64,
    pub(crate) secret_opened: u64,
    pub(crate) open_opened: u64,
    pub(crate) open_denied: u64,
}

pub(crate) fn prepare() -> Result<()> {
    fs::create_dir_all("/life")?;
    fs::write(SECRET, "secret")?;
    fs::write(OPEN, "open")?;
    Ok(())
}

/// A cgroup for a pretended container.
pub(crate) fn cgroup(name: &str) -> Result<PathBuf> {
    let path = Path::new("/sys/fs/cgroup").join(name);
    match fs::create_dir(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("make {}", path.display()))
        }
        _ => Ok(path),
    }
}

/// Readers at work.
pub(crate) struct Readers(Vec<Child>);

impl Readers {
    /// Starts them and waits until each is in the cgroup and reads.
    pub(crate) fn start(cgroup: &Path, number: usize) -> Result<Self> {
        let _ = fs::remove_file(STOP);
        // They leave the processor to whoever wakes up: an update of a policy waits for several kernel threads. A
        // kernel without the controller is only slower.
        let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu")
            .and_then(|()| fs::write(cgroup.join("cpu.weight"), "1"));
        let mut readers = Vec::new();
        for _ in 0..number {
            let mut child = Command::new("/proc/self/exe")
                .args(["life", "--read-in"])
                .arg(cgroup)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .context("start a reader")?;
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().context("take its output")?).read_line(&mut line)?;
            readers.push(child);
        }
        Ok(Self(readers))
    }

    /// Ends them; the sum of what they saw.
    pub(crate) fn stop(self) -> Result<Seen> {
        fs::write(STOP, "")?;
        let mut sum = Seen::default();
        for child in self.0 {
            let output = child.wait_with_output().context("wait for a reader")?;
            let seen: Seen = serde_json::from_slice(&output.stdout)
                .with_context(|| format!("a reader ended with {}", output.status))?;
            sum.secret_denied += seen.secret_denied;
            sum.secret_opened += seen.secret_opened;
            sum.open_opened += seen.open_opened;
            sum.open_denied += seen.open_denied;
        }
        Ok(sum)
    }
}

impl Seen {
    fn look(&mut self) -> Result<()> {
        if is_refused(File::open(SECRET))? {
            self.secret_denied += 1;
        } else {
            self.secret_opened += 1;
        }
        if is_refused(File::open(OPEN))? {
            self.open_denied += 1;
        } else {
            self.open_opened += 1;
        }
        Ok(())
    }

    /// Every open of the secret was refused, none of the others was, and there were some.
    pub(crate) fn held(self) -> Result<String> {
        if self.secret_opened == 0 && self.open_denied == 0 && self.secret_denied > 0 && self.open_opened > 0
        {
            Ok(format!(
                "{} opens refused, {} allowed, none wrongly",
                self.secret_denied, self.open_opened
            ))
        } else {
            bail!("{self:?}")
        }
    }
}

/// One task that opens the files when it is asked.
pub(crate) struct Task {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Task {
    pub(crate) fn start(cgroup: &Path) -> Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .args(["life", "--ask", "--read-in"])
            .arg(cgroup)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a task")?;
        let answers = BufReader::new(child.stdout.take().context("take its output")?);
        let mut task = Self { child, answers };
        task.line()?;
        Ok(task)
    }

    /// Can the task open the secret? The other file it must always be able to open.
    pub(crate) fn opens_secret(&mut self) -> Result<bool> {
        ensure!(self.ask(&format!("times 1 {OPEN}"))? == 0, "{OPEN} is refused");
        Ok(self.ask(&format!("times 1 {SECRET}"))? == 0)
    }

    /// `times N FILE` opens the file so often, `create N FILE` makes files FILE-0 and so on; how often it was refused.
    pub(crate) fn ask(&mut self, question: &str) -> Result<u64> {
        writeln!(self.child.stdin.as_mut().context("ask the task")?, "{question}")?;
        self.line()?.trim().parse().context("read the task's answer")
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("listen to the task")?;
        Ok(line)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Enters the cgroup; the exec gives the label.
pub(crate) fn enter(cgroup: &Path, asks: bool) -> Result<ExitCode> {
    fs::write(cgroup.join("cgroup.procs"), "0").context("enter the cgroup")?;
    let how = if asks { "--ask" } else { "--read" };
    let error = Command::new("/proc/self/exe").args(["life", how]).exec();
    Err(error).context("become a reader")
}

/// Answers the questions of [`Task::ask`].
pub(crate) fn ask() -> Result<ExitCode> {
    println!("ready");
    io::stdout().flush()?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let (what, times, path) = (
            words.next(),
            words.next(),
            words.next().context("read the question")?,
        );
        let times: u64 = times.context("read the question")?.parse()?;
        let mut refused = 0;
        for number in 0..times {
            let done = match what {
                Some("create") => is_refused(File::create(format!("{path}-{number}")))?,
                _ => is_refused(File::open(path))?,
            };
            refused += u64::from(done);
        }
        println!("{refused}");
        io::stdout().flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn read() -> Result<ExitCode> {
    let mut seen = Seen::default();
    println!("ready");
    io::stdout().flush()?;
    loop {
        for _ in 0..100 {
            seen.look()?;
        }
        if Path::new(STOP).exists() {
            break;
        }
    }
    println!("{}", serde_json::to_string(&seen)?);
    Ok(ExitCode::SUCCESS)
}

/// Whether a policy said no; an error that no policy makes is an error.
fn is_refused(opened: io::Result<File>) -> Result<bool> {
    match opened {
        Ok(_) => Ok(false),
        Err(error) if error.raw_os_error() == Some(nix::libc::EPERM) => Ok(true),
        Err(error) => Err(error).context("open a file"),
    }
}
