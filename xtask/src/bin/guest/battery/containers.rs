//! The half of the battery that needs containers: real ones under a real agent.

mod lifetime;
mod objects;
pub(super) mod pods;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::{
    policies::document,
    report::{Control, Row, Verdict},
};
use crate::demo::{agent::Agent, containers};

/// What the lab puts into the guest.
#[derive(clap::Args)]
pub(crate) struct Files {
    /// The docker archive of the containers' image (makes it the half with containers)
    #[arg(long)]
    image: Option<PathBuf>,
    /// The agent's program
    #[arg(long, default_value = "/usr/local/bin/varmor-agent")]
    program: PathBuf,
}

const POLICIES: &str = "/run/battery/policies";
const LOG: &str = "/run/battery/agent.log";
/// On the guest's disk, which is ext4; containers have it as /data.
const DATA: &str = "/var/lib/battery";
const READY: Duration = Duration::from_mins(10);
/// Within this time a policy that is there must hold.
const BOUND: Duration = Duration::from_mins(2);

/// Privileged, with the processes of the machine, under the policy of the same name.
const MAIN: &str = "battery-main";
/// The same without a policy.
const FREE: &str = "battery-free";
/// Without any capability.
const NONE: &str = "battery-none";
/// The operation of `attack` that is repeated: every policy here refuses it.
const SHADOW: &str = "shadow";

const MAIN_POLICY: &str = r#"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disallow-debug-disk-device, disallow-mount-disk-device]
      attackProtectionRules:
      - rules: [disable-access-shadow]
      bpfRawRules:
        files:
        - {qualifiers: [deny], pattern: "/data/prot/**", permissions: [all]}
        - {qualifiers: [deny], pattern: "/data/ro/**", permissions: [write]}
"#;
const NONE_POLICY: &str = r"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disable-cap-all]
      attackProtectionRules:
      - rules: [disable-access-shadow]
";

/// The cases that were asked for; all if there are none.
static ONLY: OnceLock<Vec<String>> = OnceLock::new();

/// The containers and their agent.
struct Node {
    program: PathBuf,
}

fn run(image: &Path, files: &Files) -> Result<bool> {
    fs::create_dir_all(POLICIES)?;
    containers::import(image)?;
    stage()?;
    policy(MAIN, MAIN_POLICY)?;
    policy(NONE, NONE_POLICY)?;
    for name in [MAIN, FREE, NONE] {
        start(name, &["--with-ns", "pid:/proc/1/ns/pid"], &[])?;
    }
    let node = Node {
        program: files.program.clone(),
    };
    let agent = node.agent()?;
    for name in [MAIN, NONE] {
        agent.wait_until_protected(name, READY)?;
    }
    let mut rows = objects::rows();
    rows.extend(pods::rows(&agent));
    rows.extend(lifetime::rows(&node, agent));
    Ok(rows.iter().all(Row::is_good))
}

impl Node {
    fn agent(&self) -> Result<Agent> {
        Agent::start(&self.program, Path::new(POLICIES), PathBuf::from(LOG))
    }
}

/// A row from a claim: what it found, or why it does not hold.
fn row(id: &str, what: &str, claim: impl FnOnce() -> Result<Claim>) -> Row {
    let only = ONLY.get().map(Vec::as_slice).unwrap_or_default();
    if !only.is_empty() && !only.iter().any(|one| one == id) {
        return Row::new(id, what, Verdict::Closed, "not asked for");
    }
    said(match claim() {
        Ok(Claim::Holds(found)) => Row::new(id, what, Verdict::Closed, found),
        Ok(Claim::Open(found)) => Row::new(id, what, Verdict::Open, found),
        Err(error) => Row {
            control: Control::Broken,
            ..Row::new(id, what, Verdict::Closed, format!("BROKEN: {error:#}"))
        },
    })
}

/// Prints a row at once: what ends the guest does not take it along.
fn said(row: Row) -> Row {
    if let Err(error) = super::print(std::slice::from_ref(&row)) {
        eprintln!("{error:#}");
    }
    row
}

/// What a claim came to; an error is that of the test.
enum Claim {
    Holds(String),
    Open(String),
}

impl Claim {
    fn of(holds: bool, found: impl Into<String>) -> Self {
        if holds {
            Self::Holds(found.into())
        } else {
            Self::Open(found.into())
        }
    }
}

fn policy(name: &str, part: &str) -> Result<()> {
    let text = document(
        name,
        &format!("{{kind: Pod, selector: {{matchLabels: {{app: {name}}}}}}}"),
        part,
    );
    let path = format!("{POLICIES}/{name}.yaml");
    let fresh = format!("{path}.new");
    fs::write(&fresh, text).with_context(|| format!("write {fresh}"))?;
    fs::rename(&fresh, &path).with_context(|| format!("replace {path}"))
}

/// Starts a container in the background.
fn start(name: &str, options: &[&str], command: &[&str]) -> Result<()> {
    let data = format!("type=bind,src={DATA},dst=/data,options=rbind:rw");
    let label = format!("app={name}");
    let head = [
        "run",
        "--detach",
        "--privileged",
        "--net-host",
        "--label",
        &label,
        "--mount",
        &data,
    ];
    let tail = [containers::IMAGE, name];
    containers::ctr(&[&head, options, &tail, command].concat()).map(drop)
}

fn remove(name: &str) {
    // It may have ended, or never have started.
    let _ = containers::ctr(&["task", "kill", "--signal", "KILL", name]);
    thread::sleep(Duration::from_millis(300));
    let _ = containers::ctr(&["task", "delete", "--force", name]);
    let _ = containers::ctr(&["container", "delete", name]);
}

/// Runs a program in a container and returns what it prints.
fn exec(name: &str, command: &[&str]) -> Result<String> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let id = format!("battery-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    containers::ctr(&[&["task", "exec", "--exec-id", &id, name], command].concat())
}

/// Runs it on the machine itself.
fn on_machine(command: &[&str], base: &str) -> Result<String> {
    let output = Command::new(command[0])
        .args(&command[1..])
        .env("BATTERY_BASE", base)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {}", command[0]))?;
    ensure!(
        output.status.success(),
        "{}: {}",
        command[0],
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Fresh files for attempts that change them.
fn stage() -> Result<()> {
    // The folder itself stays: containers have it mounted.
    fs::create_dir_all(DATA)?;
    for entry in fs::read_dir(DATA)? {
        let path = entry?.path();
        fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
    }
    for folder in ["prot", "ro/sub", "ro/empty", "field"] {
        fs::create_dir_all(format!("{DATA}/{folder}"))?;
    }
    for file in ["prot/secret", "ro/file", "ro/sub/file", "field/file"] {
        fs::write(format!("{DATA}/{file}"), "content")?;
    }
    Ok(())
}

fn wait(what: &str, limit: Duration, mut happened: impl FnMut() -> Result<bool>) -> Result<Duration> {
    let begin = Instant::now();
    while !happened()? {
        ensure!(
            begin.elapsed() < limit,
            "not within {} s: {what}",
            limit.as_secs()
        );
        thread::sleep(Duration::from_millis(200));
    }
    Ok(begin.elapsed())
}

/// `None` if this is not the half with containers.
pub(super) fn command(files: &Files, only: &[String]) -> Result<Option<ExitCode>> {
    let Some(image) = &files.image else {
        return Ok(None);
    };
    ONLY.get_or_init(|| only.to_vec());
    let code = if run(image, files)? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    Ok(Some(code))
}
