//! Cases about what a container can reach: files of the disk, devices, the machine's namespaces, its own overlay.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Claim, DATA, FREE, MAIN, NONE, Row, exec, on_machine, row, said, stage};
use crate::battery::{
    case::{Case, Outcome},
    device_steps, mutators,
    row::{Tried, judge},
};

const GUEST: &str = "/usr/bin/varmor-guest";
const VIOLATIONS: &str = "/var/log/varmor/violations.log";

pub(super) fn rows() -> Vec<Row> {
    vec![
        row(
            "I-5",
            "read a denied file in a container with the machine's processes",
            || both("shadow-in-container"),
        ),
        row("I-3", "enter the machine's mount namespace, then read", || {
            both("host-shadow")
        }),
        row(
            "C-2",
            "exec into a container without capabilities, and change its overlay",
            || {
                let id = exec(NONE, &["/usr/bin/id", "-u"])?;
                let benign = exec(NONE, &[GUEST, "attack", "write-tmp"])?;
                let appended = exec(NONE, &[GUEST, "battery", "--here", "overlay"])?;
                let refused = exec(NONE, &[GUEST, "attack", "cap-sys-admin"])?;
                let good =
                    id.trim() == "0" && allowed(&benign) && allowed(&appended) && refused.contains("denied");
                Ok(Claim::of(
                    good,
                    format!("exec {}, {benign} {appended} {refused}", id.trim()).replace('\n', " "),
                ))
            },
        ),
        on_disk("F-2", "move files of a volume away, or exchange them, on ext4"),
        on_disk(
            "F-4",
            "change files of a volume by calls that are no open, on ext4",
        ),
        on_disk("F-12", "reach the disk by another device node"),
        row(
            "A-3",
            "an event of a short-lived process in new namespaces says whose it is",
            attribution,
        ),
    ]
}

fn allowed(text: &str) -> bool {
    text.contains("allowed")
}

/// One operation of `--here` in both containers: it works in the free one and is refused in the other.
fn both(operation: &str) -> Result<Claim> {
    let free = exec(FREE, &[GUEST, "battery", "--here", operation])?;
    ensure!(allowed(&free), "without a policy it fails: {free}");
    let main = exec(MAIN, &[GUEST, "battery", "--here", operation])?;
    Ok(Claim::of(
        main.contains("denied"),
        format!("in a container: {}", main.trim()),
    ))
}

/// The steps of a case, unconfined on the machine and confined in a container, on the same files.
fn on_disk(id: &'static str, what: &'static str) -> Row {
    let steps = if id == "F-12" {
        device_steps::steps()
    } else {
        mutators::on_disk(id)
    };
    let case = Case::new(id, what, steps);
    let mut tried = Vec::new();
    for step in 0..case.steps.len() {
        tried.push(attempt(id, step).unwrap_or_else(|error| Tried {
            unconfined: Outcome::Broken(format!("{error:#}")),
            confined: Outcome::Broken(String::new()),
            events: Vec::new(),
        }));
    }
    let mut row = judge(&case, &tried);
    row.reason = format!("in containers: {}", row.reason);
    said(row)
}

fn attempt(id: &str, step: usize) -> Result<Tried> {
    let number = step.to_string();
    let words = ["battery", "--here", id, "--step", &number];
    stage()?;
    let own = Path::new("/usr/local/bin/varmor-guest")
        .to_string_lossy()
        .into_owned();
    let free = on_machine(&[&[own.as_str()], &words[..]].concat(), DATA)?;
    stage()?;
    let main = exec(MAIN, &[&[GUEST], &words[..]].concat())?;
    Ok(Tried {
        unconfined: serde_json::from_str(&free).with_context(|| format!("read `{free}`"))?,
        confined: serde_json::from_str(&main).with_context(|| format!("read `{main}`"))?,
        // The log of the agent has them; A-3 looks there.
        events: vec!["logged".to_owned()],
    })
}

fn attribution() -> Result<Claim> {
    let own = fs::metadata("/proc/self/ns/mnt").map(|about| about.ino())?;
    exec(MAIN, &[GUEST, "battery", "--here", "short-lived"])?;
    let mut last = String::new();
    let found = super::wait("the line of the short-lived process", super::BOUND, || {
        let log = fs::read_to_string(VIOLATIONS).unwrap_or_default();
        let line = log.lines().rfind(|line| line.contains("\"A-3.mark\""));
        line.unwrap_or_default().clone_into(&mut last);
        Ok(line.is_some())
    });
    if found.is_err() {
        return Ok(Claim::Open("no line about it in the violation log".to_owned()));
    }
    let line: Value = serde_json::from_str(&last).context("read the violation")?;
    let good = line["containerID"] == MAIN
        && line["profileName"]
            .as_str()
            .is_some_and(|name| name.contains(MAIN))
        && line["mntNsID"]
            .as_u64()
            .is_some_and(|number| number != own && number != 0);
    let text = format!(
        "container {}, profile {}, mount namespace {}",
        line["containerID"], line["profileName"], line["mntNsID"]
    );
    Ok(Claim::of(good, text))
}
