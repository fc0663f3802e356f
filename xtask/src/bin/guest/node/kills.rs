//! The agent dies in many ways while a container attacks.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::{
    Scale,
    lab::{self, Claims, Node, SHADOW},
};

const APP: &str = "node-kills";
const CGROUP: &str = "/sys/fs/cgroup/node-small";
const PINS: &str = "/sys/fs/bpf/varmor";
const READY: Duration = Duration::from_mins(5);
const ATTACK_SECONDS: &str = "25";

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    lab::enforce(APP, "disable-access-shadow")?;
    lab::sleeper(APP, APP)?;
    node.agent.wait_until_protected(APP, READY)?;
    claims.claim(
        "the agent keeps only the capabilities that it needs",
        privileges(&node),
    );
    let attack = attack();
    let outcome = starve(&node).and_then(|detail| {
        let next = Node::again(scale)?;
        next.agent.wait_until_protected(APP, READY)?;
        Ok((next, detail))
    });
    drop(node);
    claims.claim(
        "not one attack succeeds while the agent runs out of memory and is started again",
        result(attack, outcome.as_ref().map(|(_, detail)| detail.clone())),
    );
    let (node, _) = outcome?;
    let log = Node::log()?;
    claims.claim(
        "the agent behind an agent without memory adopts its programs",
        (|| {
            ensure!(log.contains("dopted"), "the log does not say so");
            Ok(String::new())
        })(),
    );
    let attack = self::attack();
    let upgraded = upgrade(scale, node);
    claims.claim(
        "not one attack succeeds while the agent is upgraded",
        result(attack, upgraded.as_ref().map(|_| String::new())),
    );
    upgraded?;
    let log = Node::log()?;
    claims.claim(
        "the upgraded agent says that it took down the programs of the other version",
        (|| {
            ensure!(
                log.contains("other versions were taken down"),
                "the log does not say so"
            );
            Ok(String::new())
        })(),
    );
    lab::remove(APP);
    Ok(())
}

type Attack = thread::JoinHandle<Result<serde_json::Value>>;

fn attack() -> Attack {
    thread::spawn(|| lab::inside(APP, &["attack", SHADOW, ATTACK_SECONDS]))
}

fn result(attack: Attack, outcome: std::result::Result<String, &anyhow::Error>) -> Result<String> {
    let counts = attack
        .join()
        .map_err(|_| anyhow::anyhow!("the attack panicked"))??;
    let detail = outcome.map_err(|error| anyhow::anyhow!("{error:#}"))?;
    let denied = lab::number(&counts, "/denied")?;
    ensure!(lab::number(&counts, "/allowed")? == 0 && denied > 0, "{counts}");
    Ok(format!("{denied} attacks denied; {detail}"))
}

/// `/proc/PID/status` of the agent.
fn privileges(node: &Node) -> Result<String> {
    let text = fs::read_to_string(format!("/proc/{}/status", node.agent.pid())).context("read its status")?;
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
            .with_context(|| format!("no {name}"))
    };
    ensure!(field("NoNewPrivs:")? == "1", "no_new_privs is not set");
    let mut counts = Vec::new();
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        let kept = u64::from_str_radix(field(set)?, 16).context(set)?;
        // Modules, raw devices, network and user ids.
        for number in [16, 17, 12, 13, 7, 6, 27, 22] {
            ensure!(kept & (1 << number) == 0, "{set} holds capability {number}");
        }
        counts.push(format!("{set} {}", kept.count_ones()));
    }
    Ok(counts.join(", "))
}

/// Leaves the agent less memory than it has until the kernel kills it.
fn starve(node: &Node) -> Result<String> {
    let folder = Path::new(CGROUP);
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory").context("ask for the memory controller")?;
    fs::create_dir_all(folder).with_context(|| format!("create {CGROUP}"))?;
    let set = |file: &str, text: &str| {
        fs::write(folder.join(file), text).with_context(|| format!("write {text} to {CGROUP}/{file}"))
    };
    set("cgroup.procs", &node.agent.pid().to_string())?;
    // Memory that it had before is charged to its old cgroup: what it needs for the next policies is not.
    set("memory.max", "65536")?;
    let start = Instant::now();
    let mut number = 0;
    while node.agent.is_alive() {
        ensure!(start.elapsed() < READY, "it is still alive");
        lab::write(&format!("node-more-{number}"), "disable-write-etc")?;
        number += 1;
        thread::sleep(Duration::from_millis(200));
    }
    let events = fs::read_to_string(folder.join("memory.events")).context("read memory.events")?;
    let killed = events
        .lines()
        .any(|line| line.starts_with("oom_kill ") && !line.ends_with(" 0"));
    ensure!(killed, "it died of something else: {events}");
    for number in 0..number {
        let _ = fs::remove_file(PathBuf::from(lab::POLICIES).join(format!("node-more-{number}.yaml")));
    }
    Ok(format!("killed after {} s", start.elapsed().as_secs()))
}

/// A new version: the programs of this one are there under another version's name.
fn upgrade(scale: &Scale, node: Node) -> Result<Node> {
    drop(node);
    let entries = fs::read_dir(PINS).with_context(|| format!("read {PINS}"))?;
    let own = entries
        .filter_map(std::result::Result::ok)
        .find(|entry| entry.file_name().to_string_lossy().starts_with("abi"))
        .context("no pins")?;
    fs::rename(own.path(), Path::new(PINS).join("abi0-0000000000000000")).context("rename the pins")?;
    let node = Node::again(scale)?;
    node.agent.wait_until_protected(APP, READY)?;
    lab::wait("programs of the other version are taken down", || {
        Ok(Node::log()?.contains("other versions were taken down"))
    })?;
    Ok(node)
}
