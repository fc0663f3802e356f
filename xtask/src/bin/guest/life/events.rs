//! Events under floods: what is not written is counted, and what matters is written.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    Args, Claims,
    enforcer::Enforcer,
    number,
    policies::SECOND,
    reader::{SECRET, Task, cgroup},
};

const NAME: &str = "events";
/// Equal denials before the event that must not be lost.
const EQUAL: u64 = 100_000;
/// Different denials of one rule.
const DIFFERENT: u64 = 10_000;

pub(super) fn run(_: &Args, claims: &mut Claims) -> Result<()> {
    let deep = deep_file()?;
    let mut enforcer = Enforcer::start()?;
    enforcer.apply(SECOND, NAME)?;
    let container = cgroup(NAME)?;
    enforcer.protect(std::slice::from_ref(&container), &[NAME.to_owned()])?;
    let mut task = Task::start(&container)?;

    let mut written = 0;
    claims.claim(
        "an event comes through behind a hundred thousand others",
        (|| {
            ensure!(task.ask(&format!("times {EQUAL} {SECRET}"))? == EQUAL);
            ensure!(task.ask(&format!("times 1 {deep}"))? == 1);
            let events = drain(&mut enforcer, "/life/other/")?;
            written += number(&events, "/drained")?;
            let found = &events["found"][0];
            ensure!(found["event"]["path"] == deep.as_str(), "{events}");
            ensure!(found["rule"].is_string() && found["profile"] == NAME, "{found}");
            Ok(format!(
                "{} events written; a path of {} bytes is complete, its event has {}",
                written,
                deep.len(),
                found["bytes"]
            ))
        })(),
    );
    claims.claim(
        "an event names the executables of the task and of its ancestors",
        (|| {
            ensure!(task.ask(&format!("times 1 {deep}"))? <= 1);
            std::thread::sleep(std::time::Duration::from_millis(1100));
            ensure!(task.ask(&format!("times 1 {deep}"))? == 1);
            let events = drain(&mut enforcer, "/life/other/")?;
            written += number(&events, "/drained")?;
            let found = &events["found"][0];
            ensure!(found["executable"] == "/varmor-guest", "{found}");
            ensure!(found["ancestors"][0]["executable"] == "/varmor-guest", "{found}");
            ensure!(number(found, "/repeated")? == 1, "{found}");
            Ok(found["ancestors"].to_string())
        })(),
    );
    claims.claim(
        "a flood of one rule does not hide another rule",
        (|| {
            let refused = task.ask(&format!("create {DIFFERENT} /life/other/new"))?;
            ensure!(refused == DIFFERENT, "{refused} refused");
            std::thread::sleep(std::time::Duration::from_millis(1100));
            ensure!(task.ask(&format!("create {DIFFERENT} /life/other/more"))? == DIFFERENT);
            ensure!(task.ask(&format!("times 1 {SECRET}"))? == 1);
            let events = drain(&mut enforcer, SECRET)?;
            written += number(&events, "/drained")?;
            ensure!(
                events["found"].as_array().is_some_and(|found| !found.is_empty()),
                "{events}"
            );
            Ok(format!("{} events in {} ms", events["drained"], events["ms"]))
        })(),
    );
    claims.claim(
        "every denial is an event, or counted as repeated, limited or lost",
        (|| {
            let state = enforcer.state()?;
            let activity = &state["activity"][0];
            let count = |name: &str| number(activity, &format!("/{name}"));
            let sum = written + count("repeated")? + count("limited")? + count("lost")?;
            ensure!(count("denied")? == sum, "{activity}, {written} written");
            let hits = activity["hits"].as_array().into_iter().flatten();
            let hits: u64 = hits.filter_map(|hit| hit[1].as_u64()).sum();
            ensure!(hits == count("denied")?, "{hits} hits, {activity}");
            Ok(activity.to_string())
        })(),
    );
    let before = written;
    enforcer.kill()?;
    let mut enforcer = Enforcer::start()?;
    claims.claim(
        "the next enforcer explains events of rules that it has not compiled",
        (|| {
            std::thread::sleep(std::time::Duration::from_millis(1100));
            ensure!(task.ask(&format!("times 1 {SECRET}"))? == 1);
            let events = drain(&mut enforcer, SECRET)?;
            let found = &events["found"][0];
            ensure!(found["rule"].is_string() && found["profile"] == NAME, "{events}");
            Ok(format!("{} events before, then {}", before, found["rule"]))
        })(),
    );
    enforcer.uninstall()
}

fn drain(enforcer: &mut Enforcer, path: &str) -> Result<Value> {
    enforcer.step(&json!({ "do": "events", "path": path }))
}

/// A file whose path is almost as long as paths can be.
fn deep_file() -> Result<String> {
    let mut path = "/life/other".to_owned();
    for level in 0..15 {
        path = format!("{path}/{level}{}", "d".repeat(250));
    }
    fs::create_dir_all(&path).context("make the deep folder")?;
    path.push_str("/file");
    fs::write(&path, "deep").context("make the deep file")?;
    Ok(path)
}
