//! `bench list` and `bench doctor`: what can be measured, and whether this machine can.

use std::{fs, process::ExitCode};

use anyhow::Result;
use clap::ValueEnum;

use super::{
    operations,
    preset::{Preset, phoronix},
    stats::Backend,
    systems,
};
use crate::{
    kernel::{Kernel, Series},
    process,
    tools::{self, Tool},
};

pub(super) fn list() -> ExitCode {
    println!("presets (cargo xtask bench preset NAME):");
    for value in Preset::value_variants()
        .iter()
        .filter_map(ValueEnum::to_possible_value)
    {
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        println!("  {:<16} {help}", value.get_name());
    }
    println!("backends: {} (guest instructions)", Backend::TcgIcount.name());
    println!(
        "  {} (time and memory on this machine): seed-pts and seed-grsec with --backend native; the controller in seed-resources",
        Backend::NativeWall.name()
    );
    println!("  by the Phoronix Test Suite, in the same time: seed-pts with --engine pts");
    println!("systems of `bench hooks`:");
    for system in systems::all() {
        println!("  {}", system.name);
    }
    println!("operations of `bench hooks`:");
    for operation in operations::ALL {
        println!("  {:<16} {}", operation.name, operation.does);
    }
    ExitCode::SUCCESS
}

pub(super) fn doctor() -> Result<ExitCode> {
    let mut missing = 0;
    let groups: [&[Tool]; 3] = [tools::PROGRAMS, tools::GUEST, tools::APPARMOR];
    for tool in groups.into_iter().flatten() {
        missing += usize::from(!tool.show());
    }
    let qemu = process::output("qemu-system-x86_64", ["--version"]).unwrap_or_default();
    println!("{:<22} {}", "QEMU", qemu.lines().next().unwrap_or("does not run"));
    for series in Series::ALL {
        let state = match Kernel::cached(series)? {
            Some(kernel) => format!("in the cache: {}", kernel.release),
            None => "not in the cache: the first guest fetches it".to_owned(),
        };
        println!("{:<22} {state}", format!("kernel {series}"));
    }
    let modules = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let modules = match modules.trim() {
        "" => "not told (securityfs is not mounted)",
        modules => modules,
    };
    println!("{:<22} {modules}; guests bring their own", "LSMs of this host");
    match phoronix::find() {
        Ok(program) => println!("{:<22} {}", "Phoronix Test Suite", program.display()),
        Err(reason) => println!("{:<22} {reason}; nothing else needs it", "Phoronix Test Suite"),
    }
    println!("{:<22} {}", "seed-pts --engine pts", phoronix::NEEDS);
    Ok(if missing == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
