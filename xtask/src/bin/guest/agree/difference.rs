//! What `diff` finds between two policies, tried under both.

use std::{fs, net::SocketAddr, path::Path};

use anyhow::{Context, Result, bail};
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

/// A difference that can be tried.
pub(super) struct Difference {
    pub(super) operation: Operation,
    change: Change,
    /// What the operation needs beside the witness is allowed by both policies.
    is_alone: bool,
}

/// Differences, and what the kernel said free and under the first policy.
pub(super) struct Tried {
    pub(super) differences: Vec<Difference>,
    pub(super) said: Vec<(Outcome, Outcome)>,
}

/// What `diff` finds.
pub(super) fn between(old: &str, new: &str, outside: i32, counts: &mut Counts) -> Result<Vec<Difference>> {
    let text = tools::answer(&["diff", old, new, "--output", "json"])?;
    let found: Comparison = serde_json::from_str(&text).context("read the differences")?;
    let (mut changes, mut operations) = (Vec::new(), Vec::new());
    for change in found.changes {
        match operation(&change.witness, outside) {
            Some(operation) => {
                changes.push(change);
                operations.push(operation);
            }
            None => counts.untried(&change.witness),
        }
    }
    let before = tools::decisions(old, stage::PLAIN, &operations)?;
    let after = tools::decisions(new, stage::PLAIN, &operations)?;
    let with_decisions = changes.into_iter().zip(operations).zip(before.iter().zip(&after));
    Ok(with_decisions
        .map(|((change, operation), (before, after))| {
            let refused_beside = |asked: &[String]| {
                let asks = operation.asks.iter().zip(asked);
                asks.filter(|(ask, _)| !is_witness(ask, &change.witness))
                    .any(|(_, outcome)| outcome == "denied")
            };
            Difference {
                is_alone: !refused_beside(before) && !refused_beside(after),
                change,
                operation,
            }
        })
        .collect())
}

/// What is wrong; `after` is what the kernel said free and under the second policy.
pub(super) fn judge(
    before: &Tried,
    after: &[(Outcome, Outcome)],
    counts: &mut Counts,
) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for ((difference, (_, old)), (free, new)) in before.differences.iter().zip(&before.said).zip(after) {
        let Change { direction, witness } = &difference.change;
        if *free != Outcome::Allowed || !difference.is_alone {
            counts.untried(witness);
            continue;
        }
        counts.tried += 1;
        let expected = match direction.as_str() {
            "newly-denied" => (Outcome::Allowed, Outcome::Denied),
            "newly-allowed" => (Outcome::Denied, Outcome::Allowed),
            other => bail!("diff says `{other}`"),
        };
        if (*old, *new) != expected {
            wrong.push(format!(
                "{direction} {witness}: the kernel says {old:?} under the policy before and {new:?} under this one"
            ));
        }
    }
    counts.wrong += wrong.len();
    Ok(wrong)
}

/// The files that the witnesses are about, as far as they can be: where a name is none for a file, the operation fails
/// free, and is left out.
pub(super) fn prepare(witnesses: &[Operation]) {
    for operation in witnesses {
        let _ = match &operation.act {
            Act::Open { path, .. } => make(path, false),
            Act::Exec { path } => make(path, true),
            _ => Ok(()),
        };
    }
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
            Some(opening(path, flags))
        }
        "exec" => Some(Operation {
            act: Act::Exec {
                path: rest.to_owned(),
            },
            asks: vec![witness.to_owned()],
        }),
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
fn make(path: &str, is_program: bool) -> Result<()> {
    let place = Path::new(path);
    if place.exists() {
        return Ok(());
    }
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    if is_program {
        stage::executable("/bin/busybox", path)
    } else {
        Ok(touch(path)?)
    }
}
