//! `fuzz`: runs the fuzz targets of varmor-common, each for a while, from the corpus that is in the repository.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use tar::{Archive, Builder, Header};

use crate::{
    process::{self, Run},
    progress, tools, workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds for each target
    #[arg(long, default_value_t = 600)]
    seconds: u32,
    /// Only this target
    #[arg(long)]
    target: Option<String>,
    /// Afterwards, replace the archive of the repository by the fewest inputs that reach as much code
    #[arg(long)]
    minimise: bool,
}

const FOLDER: &str = "varmor-common/fuzz";
const TARGETS: [&str; 8] = [
    "pattern",
    "matcher",
    "policy",
    "apparmor",
    "seccomp",
    "operation",
    "event",
    "audit",
];
/// Longest input; the formats of all targets are lines of text.
const LONGEST: u32 = 1024;
/// What rustc needs to be told so that the fuzzer sees which code an input reaches. These are stable options; the
/// sanitizers, which are not, would find nothing in code without `unsafe`.
const INSTRUMENTATION: &str = "--cfg fuzzing -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4 \
    -C llvm-args=-sanitizer-coverage-inline-8bit-counters -C llvm-args=-sanitizer-coverage-pc-table \
    -C llvm-args=-sanitizer-coverage-trace-compares -C codegen-units=1";

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    let targets: Vec<&str> = TARGETS
        .into_iter()
        .filter(|target| args.target.as_ref().is_none_or(|wanted| wanted == target))
        .collect();
    if targets.is_empty() {
        bail!("there is no such target; there are {}", TARGETS.join(", "));
    }
    tools::need(tools::PROGRAMS)?;
    let programs = progress::timed("build the fuzz targets", build)?;
    let mut good = true;
    for target in targets {
        let place = Place::of(target)?;
        let program = programs.join(target);
        let ran = progress::timed(&format!("fuzz {target} for {} s", args.seconds), || {
            run(&program, target, args.seconds, &place)
        })?;
        good &= ran;
        if ran && args.minimise {
            progress::timed(&format!("minimise the corpus of {target}"), || {
                minimise(&program, target, &place)
            })?;
        }
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The folders of one target.
struct Place {
    /// In the repository, written by people.
    seeds: PathBuf,
    /// In the repository, found by machines: hundreds of inputs, in one file.
    archive: PathBuf,
    /// What this machine has found.
    found: PathBuf,
    /// Inputs at which the target failed.
    crashes: PathBuf,
}

impl Place {
    fn of(target: &str) -> Result<Self> {
        let scratch = workspace::target().join("fuzz-work").join(target);
        let corpus = workspace::root().join(FOLDER).join("corpus");
        let place = Self {
            seeds: corpus.join(target),
            archive: corpus.join(format!("{target}.tar")),
            found: scratch.join("corpus"),
            crashes: scratch.join("crashes"),
        };
        for folder in [&place.seeds, &place.found, &place.crashes] {
            workspace::make_dir(folder)?;
        }
        if place.archive.is_file() {
            unpack(&place.archive, &place.found)?;
        }
        Ok(place)
    }
}

fn build() -> Result<PathBuf> {
    let host = host()?;
    let output = workspace::target().join("fuzz");
    Run::new("build-fuzz", "cargo")
        .without_cargo_env()
        .args([
            "build",
            "--release",
            "--locked",
            "--target",
            &host,
            "--target-dir",
        ])
        .arg(&output)
        .env("RUSTFLAGS", INSTRUMENTATION)
        .dir(&workspace::root().join(FOLDER))
        .run()?;
    Ok(output.join(host).join("release"))
}

/// The target of this machine. With it given, the instrumentation reaches no build script.
fn host() -> Result<String> {
    let text = process::output("rustc", ["-vV"]).context("ask rustc for its target")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

/// False if an input was found at which the target fails.
fn run(program: &Path, target: &str, seconds: u32, place: &Place) -> Result<bool> {
    let run = Run::new(&format!("fuzz-{target}"), program)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={LONGEST}"))
        .arg(format!("-artifact_prefix={}/", place.crashes.display()))
        .args(["-timeout=60", "-rss_limit_mb=2048", "-print_final_stats=1"])
        .args([&place.found, &place.seeds]);
    let log = run.log();
    let good = run.status()?;
    let text = fs::read_to_string(&log).with_context(|| format!("read {}", log.display()))?;
    let executions = text
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .map_or("an unknown number of", str::trim);
    if good {
        println!("{target}: {executions} executions, no failure");
    } else {
        println!("{target}: failed; the input is in {}", place.crashes.display());
    }
    Ok(good)
}

fn minimise(program: &Path, target: &str, place: &Place) -> Result<()> {
    let scratch = workspace::Scratch::new("corpus")?;
    Run::new(&format!("fuzz-merge-{target}"), program)
        .arg("-merge=1")
        .arg(format!("-max_len={LONGEST}"))
        .arg(scratch.path())
        .args([&place.seeds, &place.found])
        .run()?;
    let inputs = pack(scratch.path(), &place.archive)?;
    println!("{target}: {inputs} inputs in {}", place.archive.display());
    Ok(())
}

fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    let told = || format!("unpack {}", archive.display());
    let file = File::open(archive).with_context(told)?;
    Archive::new(file).unpack(folder).with_context(told)
}

/// Packs the files of a folder so that equal files give equal bytes; how many these are.
fn pack(folder: &Path, archive: &Path) -> Result<usize> {
    let told = || format!("write {}", archive.display());
    let entries = fs::read_dir(folder).context("list the corpus")?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<_>>>()
        .context("list the corpus")?;
    paths.sort();
    let mut builder = Builder::new(File::create(archive).with_context(told)?);
    for path in &paths {
        let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let mut header = Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let name = path.file_name().context("an input has a name")?;
        builder
            .append_data(&mut header, name, content.as_slice())
            .with_context(told)?;
    }
    builder.finish().with_context(told)?;
    Ok(paths.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_again() -> Result<()> {
        let scratch = workspace::Scratch::new("corpus-test")?;
        let (before, after) = (scratch.path().join("before"), scratch.path().join("after"));
        for folder in [&before, &after] {
            fs::create_dir(folder)?;
        }
        fs::write(before.join("b"), [0, 255])?;
        fs::write(before.join("a"), "text")?;
        let archives = ["1.tar", "2.tar"].map(|name| scratch.path().join(name));
        for archive in &archives {
            assert_eq!(pack(&before, archive)?, 2);
        }
        assert_eq!(fs::read(&archives[0])?, fs::read(&archives[1])?);
        unpack(&archives[0], &after)?;
        assert_eq!(fs::read(after.join("a"))?, b"text");
        assert_eq!(fs::read(after.join("b"))?, [0, 255]);
        Ok(())
    }
}
