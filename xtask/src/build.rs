//! `build`: the eBPF object, then every program, static so that it runs in any guest.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};

use crate::{
    bench, bpf,
    process::{self, Run},
    progress::{Progress, timed},
    tools, workspace,
};

const MUSL: &str = "x86_64-unknown-linux-musl";
const GNU: &str = "x86_64-unknown-linux-gnu";
/// Package and program.
const PROGRAMS: &[(&str, &str)] = &[
    ("varmor-agent", "varmor-agent"),
    ("varmor-agent", "varmor"),
    ("varmor-controller", "varmor-controller"),
    ("xtask", "varmor-guest"),
    ("xtask", "varmor-intruder"),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the eBPF object
    #[arg(long)]
    bpf_only: bool,
    /// Without optimisation (quicker to build)
    #[arg(long)]
    debug: bool,
    /// Also load every kernel program on every kernel and print what the verifiers say
    #[arg(long, conflicts_with = "bpf_only")]
    stats: bool,
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    println!("eBPF toolchain: {}", bpf::Toolchain::describe());
    if args.bpf_only {
        timed("build the eBPF objects", bpf::build)?;
    } else {
        let built = build(Profile::from_debug(args.debug))?;
        println!("target: {}", built.target);
        for (_, program) in PROGRAMS {
            println!("{}", built.program(program).display());
        }
        if args.stats {
            return bench::load::report(&[], &built.program("varmor"));
        }
    }
    println!("{}", bpf::objects().display());
    Ok(ExitCode::SUCCESS)
}

/// How much the compiler works on the programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// What ships.
    Release,
    /// What the suites run: built together with the tests, so that everything is compiled once.
    Lab,
    Debug,
}

impl Profile {
    fn from_debug(debug: bool) -> Self {
        if debug { Self::Debug } else { Self::Release }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Lab => "lab",
            Self::Debug => "debug",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Release => &["--release"],
            Self::Lab => &["--profile", "lab"],
            Self::Debug => &[],
        }
    }
}

/// Where the finished programs are.
pub(crate) struct Built {
    target: &'static str,
    folder: PathBuf,
}

impl Built {
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Builds everything that runs in guests and on nodes.
pub(crate) fn build(profile: Profile) -> Result<Built> {
    tools::need(tools::PROGRAMS)?;
    let mut progress = Progress::new("build", 2);
    progress.step("eBPF objects", bpf::build)?;
    let target = static_target()?;
    progress.step(&format!("programs for {target}, static"), || {
        let run = static_cargo("build-programs", "build", target).args(profile.arguments());
        let run = if profile == Profile::Lab {
            // The selection of `test`: dependencies would have other features, and be compiled again, without the tests.
            run.args(["--workspace", "--bins", "--tests"])
        } else {
            run.args(
                PROGRAMS
                    .iter()
                    .flat_map(|(package, program)| ["--package", package, "--bin", program]),
            )
        };
        run.run()
    })?;
    progress.finish();
    Ok(Built {
        target,
        folder: workspace::cargo_target().join(target).join(profile.folder()),
    })
}

/// Builds an example of the agent beside the programs, with what they were built of.
pub(crate) fn example(built: &Built, name: &str) -> Result<PathBuf> {
    static_cargo("build-example", "build", built.target)
        .args(["--release", "--package", "varmor-agent", "--example", name])
        .run()?;
    Ok(built.folder.join("examples").join(name))
}

/// `cargo test` over the workspace with the compilation of [`Profile::Lab`].
pub(crate) fn test(log: &str) -> Result<Run> {
    Ok(static_cargo(log, "test", static_target()?)
        .args(Profile::Lab.arguments())
        .args(["--workspace", "--no-fail-fast"]))
}

/// Builds static programs. The flag reaches the programs only, not build scripts and derive macros, because --target is
/// given.
fn static_cargo(log: &str, command: &str, target: &str) -> Run {
    cargo(log)
        .args([command, "--target", target])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
}

/// A cargo command in the workspace that knows where the eBPF objects are.
pub(crate) fn cargo(log: &str) -> Run {
    Run::new(log, "cargo").env("VARMOR_BPF_DIR", bpf::objects())
}

/// musl if rustup has its standard library, otherwise the static glibc that Debian's libc6-dev brings.
fn static_target() -> Result<&'static str> {
    let sysroot = process::output("rustc", ["--print", "sysroot"]).context("find the standard libraries")?;
    let musl = PathBuf::from(sysroot.trim())
        .join("lib/rustlib")
        .join(MUSL)
        .join("lib");
    Ok(if musl.is_dir() && tools::runs("musl-gcc", &["--version"]) {
        MUSL
    } else {
        GNU
    })
}
