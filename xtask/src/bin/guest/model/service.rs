//! nginx, started, asked, reloaded and stopped as in any day of its life.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    os::unix::fs::{chown, symlink},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{MODEL, VARMOR};

pub(super) const NGINX: &str = "/usr/sbin/nginx";
const WEB_USER: u32 = 33;
const PAGE: &str = "a page\n";
/// Larger than every buffer on its way.
const LARGE: usize = 3 << 20;
/// Loading programs takes a minute in an emulated guest.
const PATIENCE: Duration = Duration::from_mins(4);

/// How the service is started.
pub(super) enum Launch {
    Free,
    /// While it is recorded.
    Learn,
    /// Under the policies of a file.
    Under(String),
}

/// What was seen of one run.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Requests and what should have come of them, where something else did.
    wrong: Vec<String>,
    exit: Option<i32>,
    /// What the service and varmor wrote.
    pub(super) said: String,
}

impl Seen {
    pub(super) fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.exit == Some(0)
    }
}

pub(super) fn prepare() -> Result<()> {
    for folder in [
        "/var/log/nginx",
        "/var/lib/nginx",
        "/var/www/html/listing",
        "/etc/nginx/sites-enabled",
        "/mnt",
    ] {
        fs::create_dir_all(folder).with_context(|| format!("make {folder}"))?;
    }
    let add = |file: &str, line: &str| -> Result<()> {
        let old = fs::read_to_string(file).with_context(|| format!("read {file}"))?;
        Ok(fs::write(file, old + line)?)
    };
    add(
        "/etc/passwd",
        "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n",
    )?;
    add("/etc/group", "www-data:x:33:\n")?;
    fs::write("/etc/shadow", "root:*:20000:0:99999:7:::\n")?;
    fs::write("/var/www/html/index.html", PAGE)?;
    fs::write("/var/www/html/large", vec![b'x'; LARGE])?;
    chown("/var/www/html/index.html", Some(WEB_USER), Some(WEB_USER))?;
    symlink(
        "/etc/nginx/sites-available/default",
        "/etc/nginx/sites-enabled/default",
    )
    .context("enable the site")
}

/// The whole benign run.
pub(super) fn benign(launch: &Launch) -> Result<Seen> {
    let log = "/tmp/service.log";
    let mut child = start(launch, log)?;
    let outcome = work(&mut child);
    if outcome.is_err() {
        // Nothing more is to be learned from it.
        let _ = child.kill();
    }
    let ended = child.wait().context("wait for the service")?;
    let said = fs::read_to_string(log).unwrap_or_default();
    let wrong = outcome.with_context(|| format!("{ended}; it said {said}"))?;
    Ok(Seen {
        wrong,
        exit: ended.code(),
        said,
    })
}

fn start(launch: &Launch, log: &str) -> Result<Child> {
    let service = [NGINX, "-g", "daemon off;"];
    let mut command = match launch {
        Launch::Free => Command::new(service[0]),
        Launch::Learn => {
            let mut command = Command::new(VARMOR);
            command.args(["learn", "--out", MODEL, "--name", "web", "--", service[0]]);
            command
        }
        Launch::Under(policy) => {
            let mut command = Command::new(VARMOR);
            command.args(["run", "--policy", policy, "--", service[0]]);
            command
        }
    };
    let log = fs::File::create(log).context("make the log")?;
    command
        .args(&service[1..])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("start the service")
}

fn work(child: &mut Child) -> Result<Vec<String>> {
    await_service(child)?;
    let mut wrong = Vec::new();
    // Several rounds, so that what happens often is told from what happens once.
    for round in 0..3 {
        requests(&mut wrong).with_context(|| format!("round {round}"))?;
        sleep(Duration::from_millis(1100));
    }
    let before = workers()?;
    signal(child, Signal::SIGHUP)?;
    let start = Instant::now();
    while workers()?.intersection(&before).count() > 1 || workers()?.len() < 2 {
        ensure!(
            start.elapsed() < PATIENCE,
            "the reload brought no new worker: {before:?}"
        );
        sleep(Duration::from_millis(200));
    }
    requests(&mut wrong).context("after the reload")?;
    // nginx ends when all is served.
    signal(child, Signal::SIGQUIT)?;
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        ensure!(start.elapsed() < PATIENCE, "it did not end");
        sleep(Duration::from_millis(200));
    }
    Ok(wrong)
}

fn await_service(child: &mut Child) -> Result<()> {
    let start = Instant::now();
    loop {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, 80)).is_ok() {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            bail!("it ended at once: {status}");
        }
        ensure!(start.elapsed() < PATIENCE, "it does not answer");
        sleep(Duration::from_millis(200));
    }
}

/// varmor passes signals on to the command.
fn signal(child: &Child, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    kill(pid, signal).with_context(|| format!("send {signal}"))
}

/// Processes of nginx: the master and its workers.
fn workers() -> Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").context("read /proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if comm.trim() == "nginx" {
            found.insert(pid);
        }
    }
    Ok(found)
}

fn requests(wrong: &mut Vec<String>) -> Result<()> {
    let body = "x".repeat(2 << 20);
    let post = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for (request, status, length) in [
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            200,
            PAGE.len(),
        ),
        ("HEAD / HTTP/1.0\r\n\r\n", 200, 0),
        ("GET /missing HTTP/1.0\r\n\r\n", 404, 1),
        ("GET /listing/ HTTP/1.0\r\n\r\n", 403, 1),
        ("GET /large HTTP/1.0\r\n\r\n", 200, LARGE),
        ("GET /large HTTP/1.0\r\nRange: bytes=10-19\r\n\r\n", 206, 10),
        ("GET /../../etc/passwd HTTP/1.0\r\n\r\n", 400, 1),
        ("nonsense\r\n\r\n", 400, 1),
        (post.as_str(), 413, 1),
    ] {
        let (head, answer) = ask(request)?;
        let line = head.lines().next().unwrap_or_default().to_owned();
        if line.split(' ').nth(1) != Some(status.to_string().as_str()) || answer < length {
            let request: String = request.chars().take(40).collect();
            wrong.push(format!("{request:?}: {line:?} with {answer} bytes"));
        }
    }
    Ok(())
}

/// The head of the answer, and how many bytes follow it.
fn ask(request: &str) -> Result<(String, usize)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, 80)).context("connect")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // A server that refuses the body may close before it has read all.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    ensure!(!answer.is_empty(), "no answer: {ended:?}");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    Ok((head.to_owned(), body.len()))
}

/// What a program prints.
pub(super) fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("start {program}"))?;
    ensure!(
        output.status.success(),
        "{program} {arguments:?}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
