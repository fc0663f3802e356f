//! What `diff` finds between two policies, tried under both.

use std::{fs, net::SocketAddr, path::Path};

use anyhow::{Context, Result};
use nix::libc;
use serde::Deserialize;

use super::{
    counts::Counts,
    generate::{bind, capable, connect, mounting, opening, peer, socket, umount},
    operation::{Act, Operation, Outcome, touch},
    stage, tools,
};

#[derive(Deserialize)]
struct Comparison {
    changes: Vec<Change>,
}

#[derive(Deserialize)]
struct Change {
    direction: String,
    witness: String,
}

/// What is wrong.
pub(super) fn judge(old: &str, new: &str, outside: i32, counts: &mut Counts) -> Result<Vec<String>> {
    let text = tools::answer(&["diff", old, new, "--output", "json"])?;
    let found: Comparison = serde_json::from_str(&text).context("read the differences")?;
    stage::renew(&[])?;
    let (mut changes, mut operations) = (Vec::new(), Vec::new());
    for change in found.changes {
        match operation(&change.witness, outside) {
            Some(operation) => {
                changes.push(change);
                operations.push(operation);
            }
            None => counts.untried += 1,
        }
    }
    let (free, _) = tools::outcomes(stage::PLAIN, None, &operations)?;
    let (before, _) = tools::outcomes(stage::PLAIN, Some(old), &operations)?;
    let (after, _) = tools::outcomes(stage::PLAIN, Some(new), &operations)?;
    let mut wrong = Vec::new();
    let (asked_before, asked_after) = (
        tools::decisions(old, stage::PLAIN, &operations)?,
        tools::decisions(new, stage::PLAIN, &operations)?,
    );
    for (place, change) in changes.iter().enumerate() {
        // What the operation needs beside the witness must be allowed by both.
        let beside = |asked: &[String]| {
            let asks = operations[place].asks.iter().zip(asked);
            asks.filter(|(ask, _)| !is_witness(ask, &change.witness))
                .any(|(_, outcome)| outcome == "denied")
        };
        if free[place] != Outcome::Allowed || beside(&asked_before[place]) || beside(&asked_after[place]) {
            counts.untried += 1;
            continue;
        }
        counts.tried += 1;
        let expected = if change.direction == "newly-denied" {
            (Outcome::Allowed, Outcome::Denied)
        } else {
            (Outcome::Denied, Outcome::Allowed)
        };
        if (before[place], after[place]) != expected {
            wrong.push(format!(
                "{} {}: the kernel says {:?} under {old} and {:?} under {new}",
                change.direction, change.witness, before[place], after[place]
            ));
        }
    }
    counts.wrong += wrong.len();
    Ok(wrong)
}

/// Flags may be written in either of two ways.
fn is_witness(ask: &str, witness: &str) -> bool {
    ask == witness || ask.strip_suffix(" flags=0x0") == Some(witness)
}

/// The operation that a witness is about; none where the guest cannot try it.
fn operation(witness: &str, outside: i32) -> Option<Operation> {
    let (verb, rest) = witness.split_once(' ').unwrap_or((witness, ""));
    match verb {
        "open" => {
            let (letters, path) = rest.split_once(' ')?;
            let flags = match letters {
                "r" => libc::O_RDONLY,
                "w" => libc::O_WRONLY,
                "a" => libc::O_WRONLY | libc::O_APPEND,
                _ => return None,
            };
            make(path, false)?;
            Some(opening(path, flags))
        }
        "exec" => {
            make(rest, true)?;
            Some(Operation {
                act: Act::Exec {
                    path: rest.to_owned(),
                },
                asks: vec![witness.to_owned()],
            })
        }
        "connect" => Some(connect(rest.parse::<SocketAddr>().ok()?, false)),
        "bind" => Some(bind(rest.parse::<SocketAddr>().ok()?, false)),
        "socket" => {
            let numbers: Vec<i32> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [domain, kind, protocol] = numbers[..] else {
                return None;
            };
            Some(socket((domain, kind, protocol)))
        }
        "capable" => Some(capable(rest)),
        "ptrace" => match rest {
            "trace outside" => Some(peer(true, Some(outside))),
            "read outside" => Some(peer(false, Some(outside))),
            "trace inside" => Some(peer(true, None)),
            "read inside" => Some(peer(false, None)),
            _ => None,
        },
        "umount" => Path::new(rest).is_dir().then(|| umount(rest)),
        "mount" => {
            let mut words = rest.split(' ');
            let source = words.next()?;
            let (mut fstype, mut flags) = (None, 0);
            for word in words {
                match word.split_once('=')? {
                    ("type", name) => fstype = Some(name),
                    ("flags", number) => flags = u64::from_str_radix(number.strip_prefix("0x")?, 16).ok()?,
                    _ => return None,
                }
            }
            Some(mounting(source, fstype, flags))
        }
        "userns" => Some(Operation {
            act: Act::UserNamespace,
            asks: vec![witness.to_owned()],
        }),
        _ => None,
    }
}

/// A file at a path that nobody may have yet; a copy of a program where it must be one.
fn make(path: &str, is_program: bool) -> Option<()> {
    let place = Path::new(path);
    if place.exists() {
        return Some(());
    }
    fs::create_dir_all(place.parent()?).ok()?;
    if is_program {
        stage::executable("/bin/busybox", path).ok()
    } else {
        touch(path).ok()
    }
}
