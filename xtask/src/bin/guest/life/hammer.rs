//! Updates of a policy while readers hammer what both versions deny and what both allow.

use std::{fs, time::Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    Args, Claims,
    enforcer::Enforcer,
    number,
    policies::{FIRST, SECOND},
    reader::{Readers, cgroup},
};

const READERS: usize = 4;
const NAME: &str = "hammer";
/// Updates without readers, for comparison.
const IDLE: usize = 20;

pub(super) fn run(args: &Args, claims: &mut Claims) -> Result<()> {
    // Each update waits for all running programs. An expedited wait is the same promise, sooner: more updates hit
    // the readers in the same time.
    let _ = fs::write("/sys/kernel/rcu_expedited", "1");
    let mut enforcer = Enforcer::start()?;
    enforcer.apply(FIRST, NAME)?;
    let before = enforcer.settled()?;
    let start = Instant::now();
    hammer(&mut enforcer, IDLE)?;
    let idle = start.elapsed();
    let container = cgroup("hammer")?;
    enforcer.protect(std::slice::from_ref(&container), &[NAME.to_owned()])?;
    let readers = Readers::start(&container, READERS)?;
    let start = Instant::now();
    hammer(&mut enforcer, args.updates)?;
    let taken = start.elapsed();
    let seen = readers.stop()?;
    claims.claim(
        "not one open is judged wrongly while the policy is updated again and again",
        seen.held().map(|seen| {
            format!(
                "{} updates in {:.1} s ({} us each, {} on an idle machine), {READERS} readers: {seen}",
                args.updates,
                taken.as_secs_f64(),
                taken.as_micros() / args.updates.max(1) as u128,
                idle.as_micros() / IDLE as u128
            )
        }),
    );
    let maps = number(&before, "/usage/maps")?;
    let left = enforcer.state_with("maps", maps);
    claims.claim(
        "no tables of old versions are left",
        left.map(|_| format!("{maps} maps")),
    );
    let after = enforcer.state()?;
    claims.claim(
        "no operation could not be judged",
        (|| {
            let faults = &after["counters"]["faults"];
            ensure!(faults.as_array().is_some_and(Vec::is_empty), "{faults}");
            let misses: u64 = after["hooks"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|hook| hook["recursion_misses"].as_u64())
                .sum();
            Ok(format!("{misses} calls left out by the kernel's recursion guard"))
        })(),
    );
    enforcer.uninstall()
}

fn hammer(enforcer: &mut Enforcer, times: usize) -> Result<()> {
    let step = json!({ "do": "hammer", "files": [SECOND, FIRST], "name": NAME, "times": times });
    enforcer.step(&step).map(|_| ())
}
