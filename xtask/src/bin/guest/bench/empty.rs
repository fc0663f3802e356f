//! Programs that do nothing, on the hooks that the product attaches: what the hooks themselves cost. Also tells how
//! often an operation passes each hook.

use std::{
    collections::BTreeMap,
    fs,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{btf, raw};
use crate::limits::lift_locked_memory;

/// Attached while the value lives.
pub(super) struct EmptyPrograms(Vec<(String, OwnedFd, OwnedFd)>);

impl EmptyPrograms {
    pub(super) fn attach(hooks: &[String]) -> Result<Self> {
        lift_locked_memory()?;
        let ids = btf::hooks()?;
        let load = |hook: &String| {
            let id = *ids.get(hook).with_context(|| format!("no hook {hook}"))?;
            let program =
                raw::load_empty_program(id).with_context(|| format!("load an empty program for {hook}"))?;
            let link = raw::attach(program.as_fd()).with_context(|| format!("attach it to {hook}"))?;
            Ok((hook.clone(), program, link))
        };
        hooks.iter().map(load).collect::<Result<_>>().map(Self)
    }

    /// How often each program ran; the kernel counts while `kernel.bpf_stats_enabled` is set.
    pub(super) fn runs(&self) -> Result<BTreeMap<String, u64>> {
        let count = |(hook, program, _): &(String, OwnedFd, OwnedFd)| {
            let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))?;
            let runs = about.lines().find_map(|line| line.strip_prefix("run_cnt:"));
            let runs = runs.context("the kernel does not count runs of programs")?;
            Ok((hook.clone(), runs.trim().parse()?))
        };
        self.0.iter().map(count).collect()
    }
}

/// The hooks with a link in the folder that the product pins its links in.
pub(super) fn attached(bpffs: &Path) -> Result<Vec<String>> {
    let mut hooks = Vec::new();
    let below = |folder: &Path| {
        fs::read_dir(folder)
            .with_context(|| format!("read {}", folder.display()))
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>())
    };
    let is_run = |path: &PathBuf| path.to_string_lossy().contains("/varmor-run-");
    for run in below(bpffs)?.into_iter().filter(is_run) {
        for build in below(&run)? {
            let links = build.join("links");
            for link in fs::read_dir(&links).into_iter().flatten().flatten() {
                hooks.push(link.file_name().to_string_lossy().into_owned());
            }
        }
    }
    hooks.sort();
    hooks.dedup();
    Ok(hooks)
}
