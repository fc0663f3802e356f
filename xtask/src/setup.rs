//! `setup`: reports and installs what the lab needs.

use std::{collections::BTreeSet, process::ExitCode};

use anyhow::{Result, bail};

use crate::{
    bpf,
    kernel::{self, Series},
    progress::Progress,
    tools::{self, Tool},
    workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only report; the exit code is 1 if something is missing
    #[arg(long)]
    check: bool,
    /// Ask the Debian archive for newer kernels than those in the cache
    #[arg(long)]
    fresh_kernels: bool,
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    let groups = [
        tools::PROGRAMS,
        bpf::Toolchain::tools(),
        tools::GUEST,
        tools::CONTAINER_GUEST,
        tools::APPARMOR,
        tools::CLUSTER,
        tools::IMAGES,
    ];
    let mut seen = BTreeSet::new();
    let all: Vec<Tool> = groups
        .into_iter()
        .flatten()
        .filter(|tool| seen.insert(tool.name))
        .copied()
        .collect();
    let mut missing = 0;
    for tool in &all {
        missing += usize::from(!tool.show());
    }
    println!(
        "{:<22} {:<30} {}",
        "eBPF toolchain",
        "the eBPF object",
        bpf::Toolchain::describe()
    );
    if args.check {
        return Ok(if missing == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("the lab runs on x86_64 Linux only");
    }
    tools::need(&all)?;
    if args.fresh_kernels {
        let mut progress = Progress::new("kernels", Series::ALL.len());
        for series in Series::ALL {
            let parent = workspace::cache().join("kernels").join(series.name());
            let kernel = progress.step(series.name(), || kernel::fetch(series, &parent))?;
            println!("kernel {series}: {}", kernel.release);
        }
        progress.finish();
    }
    Ok(ExitCode::SUCCESS)
}
