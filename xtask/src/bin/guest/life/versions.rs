//! An enforcer that finds what another one left: of another version, half made, or killed in the middle of a change.

use std::{fs, path::PathBuf, thread, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{
    Args, Claims,
    enforcer::{BPFFS, Enforcer, attached},
    number,
    policies::{FIRST, SECOND},
    reader::{Readers, Task, cgroup},
};

const NAME: &str = "versions";
/// Times that the enforcer is killed in an update.
const KILLS: u64 = 5;

pub(super) fn run(_: &Args, claims: &mut Claims) -> Result<()> {
    let container = cgroup(NAME)?;
    let mut enforcer = Enforcer::start()?;
    // What another part took down may not be freed yet.
    enforcer.state_with("links", 0)?;
    enforcer.apply(FIRST, NAME)?;
    enforcer.protect(std::slice::from_ref(&container), &[NAME.to_owned()])?;
    let links = number(&enforcer.state()?, "/usage/links")?;
    let maps = number(&enforcer.settled()?, "/usage/maps")?;
    let mut task = Task::start(&container)?;
    ensure!(!task.opens_secret()?, "the policy works");
    let readers = Readers::start(&container, 1)?;

    // The programs of another version: those of this one under another name.
    enforcer.kill()?;
    let own = pins()?;
    fs::rename(&own, PathBuf::from(BPFFS).join("abi0-0000000000000000")).context("rename the pins")?;
    let mut enforcer = Enforcer::start()?;
    claims.claim(
        "what another version left is not taken for our own, and goes on enforcing",
        (|| {
            ensure!(enforcer.start == "loaded", "{}", enforcer.start);
            ensure!(!task.opens_secret()?, "the secret is open");
            Ok(String::new())
        })(),
    );
    enforcer.apply(FIRST, NAME)?;
    enforcer.protect(std::slice::from_ref(&container), &[NAME.to_owned()])?;
    claims.claim(
        "another version is taken down when this one enforces everything",
        (|| {
            let both = number(&enforcer.state()?, "/usage/links")?;
            ensure!(both == 2 * links, "{both} links, {links} of them ours");
            let retired = enforcer.step(&json!({ "do": "retire" }))?;
            ensure!(number(&retired, "/versions")? == 1, "{retired}");
            enforcer.state_with("links", links)?;
            ensure!(!task.opens_secret()?, "the secret is open");
            Ok(format!("{links} links"))
        })(),
    );

    // The maps of the other version are freed some time after its links.
    enforcer.state_with("maps", maps)?;
    let mut outcome = Ok(format!("{KILLS} kills, {maps} maps"));
    for round in 1..=KILLS {
        enforcer
            .begin(&json!({ "do": "hammer", "files": [SECOND, FIRST], "name": NAME, "times": 100_000 }))?;
        // Anywhere in an update, which takes some milliseconds.
        thread::sleep(Duration::from_millis(150 + 7 * round));
        enforcer.kill()?;
        enforcer = Enforcer::start()?;
        let repaired = enforcer.state_with("maps", maps).and_then(|state| {
            let hooks = attached(&state).len() as u64;
            ensure!(
                enforcer.start == "adopted" && hooks == links,
                "{}: {hooks} hooks, {links} expected",
                enforcer.start
            );
            Ok(())
        });
        if let Err(error) = repaired {
            outcome = Err(error.context(format!("kill {round}")));
        }
    }
    claims.claim(
        "an enforcer that is killed in an update leaves nothing that the next one does not repair",
        outcome,
    );
    claims.claim(
        "updates work after the repair",
        (|| {
            enforcer.apply(SECOND, NAME)?;
            ensure!(!task.opens_secret()?, "the secret is open");
            Ok(String::new())
        })(),
    );
    claims.claim(
        "not one open was judged wrongly meanwhile",
        readers.stop()?.held(),
    );

    // A start that was killed: everything is there, and not marked as complete.
    enforcer.kill()?;
    fs::remove_dir(pins()?.join("complete")).context("take the marker away")?;
    let mut enforcer = Enforcer::start()?;
    claims.claim(
        "the rest of a start that failed is replaced",
        (|| {
            ensure!(enforcer.start == "loaded", "{}", enforcer.start);
            enforcer.state_with("links", 0)?;
            Ok(String::new())
        })(),
    );
    enforcer.uninstall()
}

/// The folder of the only version.
fn pins() -> Result<PathBuf> {
    let mut folders = fs::read_dir(BPFFS)?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("abi"));
    let only = folders.next().context("no version has pins")?;
    ensure!(folders.next().is_none(), "several versions have pins");
    Ok(only.path())
}
