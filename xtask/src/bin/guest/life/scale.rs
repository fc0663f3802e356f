//! Many containers with few profiles: what they cost.

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    Args, Claims,
    enforcer::Enforcer,
    number, policies,
    reader::{Readers, cgroup},
};

pub(super) fn run(args: &Args, claims: &mut Claims) -> Result<()> {
    let mut enforcer = Enforcer::start()?;
    let profiles: Vec<String> = (0..args.profiles)
        .map(|number| format!("tenant-{number}"))
        .collect();
    // Programs stay loaded: they are no part of what profiles and containers cost.
    enforcer.apply(policies::FIRST, "first")?;
    enforcer.remove("first")?;
    let empty = enforcer.settled()?;
    let mut load = 0;
    for (number_, name) in profiles.iter().enumerate() {
        let file = format!("/tmp/life-{name}.yaml");
        fs::write(&file, policies::distinct(number_))?;
        load += number(&enforcer.apply(&file, name)?, "/ms")?;
    }
    let loaded = enforcer.settled()?;
    let cgroups: Vec<PathBuf> = (0..args.containers)
        .map(|number| cgroup(&format!("scale-{number}")))
        .collect::<Result<_>>()?;
    let memory = free_memory()?;
    let bind = number(&enforcer.protect(&cgroups, &profiles)?, "/ms")?;
    let bound = enforcer.state()?;
    let used = memory.saturating_sub(free_memory()?);
    claims.claim("memory of the maps grows with profiles and not with containers", (|| {
        let (maps, bytes) = (number(&loaded, "/usage/maps")?, number(&loaded, "/usage/map_bytes")?);
        ensure!(number(&bound, "/usage/maps")? == maps, "{bound}");
        // Kernels from 6.4 count what is really used; a container is an element of 48 bytes in a hash.
        let grown = number(&bound, "/usage/map_bytes")?.saturating_sub(bytes);
        ensure!(grown <= 100 * args.containers as u64, "{grown} bytes more for {} containers", args.containers);
        let per_profile = bytes.saturating_sub(number(&empty, "/usage/map_bytes")?) / args.profiles as u64;
        Ok(format!(
            "{} profiles loaded in {load} ms, {} containers bound in {bind} ms; {maps} maps, {} KiB, of which {} KiB \
             per profile; containers: {grown} bytes of maps, {used} KiB of free memory",
            args.profiles, args.containers, bytes / 1024, per_profile / 1024
        ))
    })());
    claims.claim(
        "the last container is protected like the first",
        (|| {
            for container in [cgroups.first(), cgroups.last()].into_iter().flatten() {
                Readers::start(container, 1)?.stop()?.held()?;
            }
            Ok(String::new())
        })(),
    );
    let ids: Vec<u64> = cgroups
        .iter()
        .map(|cgroup| Ok(fs::metadata(cgroup)?.ino()))
        .collect::<Result<_>>()?;
    for cgroup in &cgroups {
        fs::remove_dir(cgroup).context("remove a cgroup")?;
    }
    enforcer.step(&json!({ "do": "forget", "ids": ids }))?;
    for profile in &profiles {
        enforcer.remove(profile)?;
    }
    claims.claim(
        "containers that ended and profiles that were removed leave nothing",
        (|| {
            let after = enforcer.state_with("maps", number(&empty, "/usage/maps")?)?;
            nothing_left(&empty, &after)
        })(),
    );
    enforcer.uninstall()
}

fn nothing_left(empty: &Value, after: &Value) -> Result<String> {
    for count in ["/usage/maps", "/bindings"] {
        let (empty, after) = (number(empty, count)?, number(after, count)?);
        ensure!(empty == after, "{count}: {empty} before, {after} after");
    }
    Ok(String::new())
}

/// KiB that the machine has left.
fn free_memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find(|line| line.starts_with("MemFree:"));
    line.and_then(|line| line.split_whitespace().nth(1))
        .and_then(|number| number.parse().ok())
        .context("find the free memory")
}
