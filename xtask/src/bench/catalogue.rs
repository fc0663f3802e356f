//! `bench list` and `bench doctor`: what can be measured, and whether this machine can.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::ValueEnum;

use super::{operations, preset::Preset, stats::Backend, systems};
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
    println!("  pts: n/a (no preset uses it yet)");
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
    match pts(&candidates()) {
        Ok(program) => println!(
            "{:<22} {}: detected, but no preset uses it yet",
            "Phoronix Test Suite",
            program.display()
        ),
        Err(reason) => println!("{:<22} not used: {reason}", "Phoronix Test Suite"),
    }
    Ok(if missing == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Where the suite may be; it is detected and never fetched.
fn candidates() -> Vec<PathBuf> {
    const NAME: &str = "phoronix-test-suite";
    let path = env::var_os("PATH").unwrap_or_default();
    let chosen = env::var_os("PTS_BIN").map(PathBuf::from);
    let found = env::split_paths(&path).map(|folder| folder.join(NAME));
    let shared = Path::new("/usr/share").join(NAME).join(NAME);
    chosen.into_iter().chain(found).chain([shared]).collect()
}

/// The first launcher that runs, or why none does.
fn pts(candidates: &[PathBuf]) -> Result<PathBuf, String> {
    let Some(program) = candidates.iter().find(|file| file.is_file()) else {
        return Err(
            "not detected: neither $PTS_BIN nor PATH nor /usr/share has it, and Debian has no package"
                .to_owned(),
        );
    };
    let php = env::var("PHP_BIN").unwrap_or_else(|_| "php".to_owned());
    if !tools::runs(&php, &["--version"]) {
        return Err(format!("{} is there, but {php} does not run", program.display()));
    }
    Ok(program.clone())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::pts;

    #[test]
    fn absent_suite_is_told_with_a_reason() {
        let reason = pts(&[PathBuf::from("/nonexistent/phoronix-test-suite")]).unwrap_err();
        assert!(reason.starts_with("not detected"), "{reason}");
    }
}
