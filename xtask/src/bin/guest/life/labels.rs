//! Labels and credentials have their places in arrays; a task whose place is taken is protected all the same, and places
//! of tasks that have ended are taken again.

use std::{fs, path::Path, path::PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::{
    Args, Claims,
    enforcer::{BPFFS, Enforcer},
    policies::{CAPABILITY, FIRST},
    reader::{Task, cgroup},
};
use crate::pinned::PinnedMap;

/// Two numbers, two addresses of tasks, two labels (`Bucket` of varmor-ebpf's `labels/slots.rs`).
const BUCKET: usize = 2 * 8 + 2 * 8 + 2 * LABEL;
const LABEL: usize = 32;
const BUCKETS: u32 = 16_384;
/// Four addresses.
const CREDENTIALS: usize = 4 * 8;

type Labels = PinnedMap<4, BUCKET>;

/// Number and address of a task that has a label.
type Owner = [u64; 2];

pub(super) fn run(_: &Args, claims: &mut Claims) -> Result<()> {
    let mut enforcer = Enforcer::start()?;
    enforcer.apply(FIRST, "files")?;
    // The set of credentials is kept while some profile is about capabilities, for every protected task.
    enforcer.apply(CAPABILITY, "capability")?;
    let container = cgroup("labels")?;
    enforcer.protect(std::slice::from_ref(&container), &["files".to_owned()])?;
    let Some(pin) = map("LABEL_SLOTS")? else {
        claims.skip("places of labels", "this kernel's labels are in a hash");
        return enforcer.uninstall();
    };
    let labels = Labels::open(&pin)?;
    let mut first = Task::start(&container)?;
    let owner = owners(&labels)?.pop().context("the task has no slot")?.1;
    claims.claim("a task has its label in a slot", refused(&mut first));

    let taken = crowd(&labels, owner)?;
    let mut second = Task::start(&container)?;
    claims.claim(
        "a task that finds no slot has its label elsewhere",
        refused(&mut second).and_then(|detail| {
            let strangers = owners(&labels)?.into_iter().filter(|(_, other)| *other != owner);
            ensure!(strangers.count() == 0, "a slot of a living task was taken");
            Ok(format!("{taken} slots taken; {detail}"))
        }),
    );
    claims.claim("the first task keeps its own", refused(&mut first));

    drop(second);
    drop(first);
    claims.claim(
        "a slot of a task that has ended is taken again",
        taken_again(&labels, &container, owner),
    );

    claims.claim(
        "credentials that find no place are in the set",
        credentials(&container),
    );
    enforcer.uninstall()
}

/// The kernel keeps the memory of a task that has ended until another task gets it, and so long the slot is its own.
fn taken_again(labels: &Labels, container: &Path, owner: Owner) -> Result<String> {
    const TASKS: usize = 100;
    for number in 1..=TASKS {
        let mut task = Task::start(container)?;
        let held = refused(&mut task)?;
        if owners(labels)?.iter().any(|(_, other)| *other != owner) {
            return Ok(format!("by task {number} after it; {held}"));
        }
    }
    bail!("after {TASKS} tasks every slot is still that of the one that has ended")
}

fn refused(task: &mut Task) -> Result<String> {
    ensure!(!task.opens_secret()?, "the secret is open");
    Ok("the secret is refused".to_owned())
}

/// With every place taken, the set's hash has what a protected task needs, as long as it lives.
fn credentials(container: &Path) -> Result<String> {
    let place = |name: &str| -> Result<PathBuf> { map(name)?.with_context(|| format!("no map {name}")) };
    let slots = PinnedMap::<4, CREDENTIALS>::open(&place("CREDENTIAL_SLOTS")?)?;
    let hash = PinnedMap::<8, 4>::open(&place("CREDENTIALS")?)?;
    ensure!(hash.count()? == 0, "{} before", hash.count()?);
    // No credential is at this address.
    let stranger: [u8; CREDENTIALS] = std::array::from_fn(|byte| u8::from(byte % 8 == 0));
    for bucket in 0..BUCKETS {
        slots.set(bucket.to_ne_bytes(), stranger)?;
    }
    let mut task = Task::start(container)?;
    let held = refused(&mut task)?;
    let alive = hash.count()?;
    ensure!(alive > 0, "none is in the hash");
    drop(task);
    // The kernel frees a credential some time after its last user.
    let gone = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        hash.count().is_ok_and(|count| count == 0)
    });
    for bucket in 0..BUCKETS {
        slots.set(bucket.to_ne_bytes(), [0; CREDENTIALS])?;
    }
    ensure!(gone, "{} are still in the hash", hash.count()?);
    Ok(format!("{alive} in the hash, none after the task's end; {held}"))
}

/// Gives every empty slot of the buckets without a label to a task that is alive; how many.
fn crowd(labels: &Labels, [number, address]: Owner) -> Result<usize> {
    let mut value = [0; BUCKET];
    for place in 0..2 {
        value[place * 8..][..8].copy_from_slice(&number.to_ne_bytes());
        value[16 + place * 8..][..8].copy_from_slice(&address.to_ne_bytes());
    }
    let mut taken = 0;
    for bucket in 0..BUCKETS {
        if labels.get(bucket.to_ne_bytes())? == [0; BUCKET] {
            labels.set(bucket.to_ne_bytes(), value)?;
            taken += 2;
        }
    }
    Ok(taken)
}

/// The owners of all slots that are not empty, with their buckets.
fn owners(labels: &Labels) -> Result<Vec<(u32, Owner)>> {
    let mut found = Vec::new();
    for bucket in 0..BUCKETS {
        let value = labels.get(bucket.to_ne_bytes())?;
        let word = |index: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&value[index * 8..][..8]);
            u64::from_ne_bytes(bytes)
        };
        found.extend(
            (0..2)
                .filter(|place| word(*place) != 0)
                .map(|place| (bucket, [word(place), word(2 + place)])),
        );
    }
    Ok(found)
}

/// The pin of a map, if the enforcer's object for this kernel has it.
fn map(name: &str) -> Result<Option<PathBuf>> {
    let builds = fs::read_dir(BPFFS).with_context(|| format!("read {BPFFS}"))?;
    let pins = builds.flatten().map(|build| build.path().join("maps").join(name));
    Ok(pins.into_iter().find(|pin| pin.exists()))
}
