//! Cases about which containers a policy reaches: other containers of the pod, odd metadata, the order of events.

use std::{fs, thread, time::Duration};

use anyhow::{Result, ensure};
use serde_json::Value;

use super::{BOUND, Claim, FREE, Row, SHADOW, exec, policy, remove, row, start, wait};
use crate::demo::{agent::Agent, containers};

const GUEST: &str = "/usr/bin/varmor-guest";
const POD: &str = "battery-pod";
const LATE: &str = "battery-late";
const RACE: &str = "battery-race";
const STARTS: usize = 50;

const DENY_SHADOW: &str = r"
    mode: EnhanceProtect
    enhanceProtect:
      attackProtectionRules:
      - rules: [disable-access-shadow]
";

pub(super) fn rows(agent: &Agent) -> Vec<Row> {
    vec![
        row("I-11", "a policy that comes after its container", late),
        row("I-12", "a container that was added to a protected pod", added),
        row(
            "I-8",
            "a container whose annotations are made to end the agent",
            || hostile(agent),
        ),
        row(
            "I-6",
            "the first instructions of 50 containers",
            first_instructions,
        ),
    ]
}

fn late() -> Result<Claim> {
    start(LATE, &[], &[])?;
    let before = containers::counts(LATE, SHADOW, 1)?;
    ensure!(before.allowed > 0, "without a policy it fails: {before:?}");
    thread::sleep(Duration::from_secs(5));
    policy(LATE, DENY_SHADOW)?;
    let took = wait("the policy holds", BOUND, || {
        Ok(containers::counts(LATE, SHADOW, 1)?.allowed == 0)
    });
    remove(LATE);
    Ok(match took {
        Ok(took) => Claim::Holds(format!("in force {} s after the policy came", took.as_secs())),
        Err(error) => Claim::Open(format!("{error:#}")),
    })
}

/// A debug container of a pod: same pod, own image, the processes of the protected container.
fn added() -> Result<Claim> {
    let in_pod = |kind: &'static str| {
        [
            [
                "--annotation".to_owned(),
                format!("io.kubernetes.cri.container-type={kind}"),
            ],
            [
                "--annotation".to_owned(),
                format!("io.kubernetes.cri.sandbox-id={POD}"),
            ],
            [
                "--annotation".to_owned(),
                format!("io.kubernetes.cri.sandbox-name={POD}"),
            ],
            [
                "--annotation".to_owned(),
                "io.kubernetes.cri.sandbox-namespace=demo".to_owned(),
            ],
            [
                "--annotation".to_owned(),
                "io.kubernetes.cri.container-name=any".to_owned(),
            ],
        ]
        .concat()
    };
    let words = |list: &[String]| list.iter().map(String::as_str).collect::<Vec<&str>>().join("\n");
    let begin = |name: &str, kind: &'static str, more: &[&str]| {
        let options = words(&in_pod(kind));
        let options: Vec<&str> = options.split('\n').chain(more.iter().copied()).collect();
        start(name, &options, &[])
    };
    begin(POD, "sandbox", &[])?;
    begin("pod-main", "container", &[])?;
    let pid = pid_of("pod-main")?;
    let processes = format!("pid:/proc/{pid}/ns/pid");
    begin("pod-debug", "container", &["--with-ns", &processes])?;
    let claim = || {
        let before = exec("pod-debug", &[GUEST, "battery", "--here", "root-of-first"])?;
        ensure!(before.contains("allowed"), "without a policy it fails: {before}");
        policy(POD, DENY_SHADOW)?;
        let took = wait("the debug container is under the policy", BOUND, || {
            Ok(containers::counts("pod-debug", SHADOW, 1)?.allowed == 0)
        });
        if let Err(error) = took {
            return Ok(Claim::Open(format!("{error:#}")));
        }
        let through = exec("pod-debug", &[GUEST, "battery", "--here", "root-of-first"])?;
        Ok(Claim::of(
            through.contains("denied"),
            format!("through /proc/1/root: {}", through.trim()),
        ))
    };
    let found = claim();
    for name in ["pod-debug", "pod-main", POD] {
        remove(name);
    }
    found
}

fn pid_of(name: &str) -> Result<String> {
    let list = containers::ctr(&["task", "list"])?;
    let line = list
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name))
        .unwrap_or_default()
        .to_owned();
    let pid = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    ensure!(!pid.is_empty(), "{name} has no task: {list}");
    Ok(pid)
}

fn hostile(agent: &Agent) -> Result<Claim> {
    const NAME: &str = "battery-hostile";
    policy(NAME, DENY_SHADOW)?;
    let long = format!(
        "container.bpf.security.beta.varmor.org/l={}",
        "x".repeat(64 << 10)
    );
    let annotations = [
        "container.bpf.security.beta.varmor.org/c=x",
        "container.bpf.security.beta.varmor.org/d=localhost/y",
        "container.apparmor.security.beta.varmor.org/c=",
        "container.seccomp.security.beta.varmor.org/c=localhost/",
        "container.bpf.security.beta.varmor.org/=unconfined",
        "io.kubernetes.cri.container-type=\u{1}",
        "io.kubernetes.cri.sandbox-id=../../..",
        &long,
    ];
    for (number, annotation) in annotations.iter().enumerate() {
        let name = format!("hostile-{number}");
        start(&name, &["--annotation", annotation], &[])?;
        remove(&name);
    }
    let all: Vec<&str> = annotations[..5]
        .iter()
        .flat_map(|one| ["--annotation", one])
        .collect();
    start(NAME, &all, &[])?;
    let took = wait("a container with all of them is under its policy", BOUND, || {
        Ok(containers::counts(NAME, SHADOW, 1)?.allowed == 0)
    });
    remove(NAME);
    let alive = agent.is_alive();
    Ok(Claim::of(
        alive && took.is_ok(),
        format!(
            "agent {}, {} annotations, the last container {}",
            if alive { "alive" } else { "dead" },
            annotations.len(),
            if took.is_ok() {
                "protected"
            } else {
                "not protected"
            }
        ),
    ))
}

/// Each container tries from its first instruction on and prints how often it was let.
fn first_instructions() -> Result<Claim> {
    policy(RACE, DENY_SHADOW)?;
    // The agent has read the policy when it protects somebody by it.
    start(RACE, &[], &[])?;
    wait("the policy holds", BOUND, || {
        Ok(containers::counts(RACE, SHADOW, 1)?.allowed == 0)
    })?;
    remove(RACE);
    let (mut early, mut reads, mut never) = (0, 0, 0);
    let label = format!("app={RACE}");
    for number in 0..STARTS {
        let name = format!("race-{number}");
        let command = [
            "run",
            "--rm",
            "--net-host",
            "--label",
            &label,
            containers::IMAGE,
            &name,
            GUEST,
            "battery",
            "--here",
            "first",
        ];
        let text = containers::ctr(&command)?;
        let counts: Value = serde_json::from_str(text.trim())?;
        let allowed = counts["allowed"].as_u64().unwrap_or(0);
        early += usize::from(allowed > 0);
        reads += allowed;
        never += usize::from(counts["denied"] == 0);
    }
    let free = containers::counts(FREE, SHADOW, 1)?;
    ensure!(free.allowed > 0, "without a policy it fails: {free:?}");
    Ok(Claim::of(
        early == 0,
        format!(
            "{early} of {STARTS} containers read it before they had their label ({reads} reads), {never} within their \
             whole second; the agent follows containerd's events, and no hook of the runtime waits for it yet"
        ),
    ))
}

/// What `--here first` does for a second.
pub(in crate::battery) fn first() -> String {
    let end = std::time::Instant::now() + Duration::from_secs(1);
    let (mut allowed, mut denied) = (0_u64, 0_u64);
    while std::time::Instant::now() < end {
        if fs::File::open("/etc/shadow").is_ok() {
            allowed += 1;
        } else {
            denied += 1;
        }
    }
    serde_json::json!({ "allowed": allowed, "denied": denied }).to_string()
}
