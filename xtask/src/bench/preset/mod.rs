//! `bench preset`: one command per table of the documents that varmor is compared with.

pub(super) mod cells;
mod grsec;
mod lsmperf;
pub(super) mod phoronix;
mod programs;
pub(super) mod pts;
mod resources;
mod smoke;
mod unixbench;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;

use super::{
    hooks::{self, Programs},
    record::{Folder, Run},
    stats::Backend,
};
use crate::{kernel::Series, tools};

#[derive(clap::Args)]
pub(super) struct Args {
    preset: Preset,
    /// How much is measured
    #[arg(long, default_value = "smoke")]
    scale: Scale,
    /// What is counted: instructions of a guest, or the time of this machine (seed-pts and seed-grsec, as root) [default: guest; with
    /// --engine pts: native]
    #[arg(long)]
    backend: Option<On>,
    /// Who starts and times the programs of seed-pts
    #[arg(long, default_value = "native")]
    engine: Engine,
    /// Boots of each guest (at least 3 for an interval), or blocks on this machine (some 12 for a verdict) [default: by scale]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    boots: Option<u32>,
    /// Only this kernel [default: 6.1; seed-lsmperf: all four; seed-resources: 6.12]
    #[arg(long)]
    kernel: Option<Series>,
    /// Only these suites of seed-pts [default: all]
    #[arg(long)]
    suite: Vec<pts::Name>,
    /// Go on with a run that was broken off: its folder below target/bench. Boots that came to their end are not repeated
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Take `varmor` and `varmor-guest` from this folder instead of building them
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Preset {
    /// Apache, GIMP, Redis and Sysbench under nothing and under each mode of each enforcer
    SeedPts,
    /// The tests of UnixBench under 0, 1, 2, 4, 8, 50 and 1,000 rules
    SeedUnixbench,
    /// The eventfd workload of lsm-perf over kernels and sets of security modules
    SeedLsmperf,
    /// stress-ng, ab and fio under nothing and under two modes of BPF, beside the numbers of a hardened kernel
    SeedGrsec,
    /// What controller and agent need for one policy that protects 12,800 pods on 400 nodes
    SeedResources,
    /// A few operations under a few systems: whether all of it works
    Smoke,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Scale {
    /// Whether it works: one boot, numbers without an interval
    Smoke,
    /// Numbers to report
    Std,
}

/// Where a preset measures.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum On {
    /// In guests that count instructions: all systems, the same numbers everywhere
    Guest,
    /// On this machine, in its time: the systems that its kernel can run
    Native,
}

/// Who starts and times programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// This program
    Native,
    /// The Phoronix Test Suite that you have installed, with profiles of our own and offline, in this machine's time
    Pts,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Pts => "pts",
        }
    }

    /// What starts the suite, if it is to be started.
    fn launcher(self, found: impl FnOnce() -> Result<PathBuf, String>) -> Result<Option<PathBuf>> {
        match self {
            Self::Native => Ok(None),
            Self::Pts => found().map(Some).map_err(|reason| {
                anyhow!(
                    "--engine pts: {reason}. It {}. `--engine native` needs none of it",
                    phoronix::NEEDS
                )
            }),
        }
    }
}

impl On {
    pub(super) fn backend(self) -> Backend {
        match self {
            Self::Guest => Backend::TcgIcount,
            Self::Native => Backend::NativeWall,
        }
    }
}

impl Scale {
    fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Std => "std",
        }
    }
}

/// What every preset is given.
struct Settings {
    scale: Scale,
    backend: Backend,
    boots: Option<u32>,
    kernel: Option<Series>,
    programs: Programs,
    resume: Option<PathBuf>,
    engine: Engine,
    /// Starts the Phoronix Test Suite, where that is the engine.
    phoronix: Option<PathBuf>,
}

impl Settings {
    /// The scale of the work of a program's run. What is repeated in guests is the boot: a count gets no better by more of the same within
    /// one, and at a hundredth of a processor's speed a boot would take hours.
    fn work(&self) -> Scale {
        match self.backend {
            Backend::TcgIcount => Scale::Smoke,
            Backend::NativeWall | Backend::ClusterWall => self.scale,
        }
    }

    /// The folder of a run of so many boots, new or resumed.
    fn folder(&self, preset: &str, boots: u32, suites: &[&str]) -> Result<Folder> {
        let run = Run {
            preset: preset.to_owned(),
            scale: self.scale.name().to_owned(),
            backend: self.backend,
            kernel: self
                .kernel
                .map(|kernel| kernel.name().to_owned())
                .unwrap_or_default(),
            boots,
            suites: suites.iter().map(|suite| (*suite).to_owned()).collect(),
            engine: self.engine.name().to_owned(),
            programs: self.programs.digests()?,
        };
        Folder::of(&run, self.resume.as_deref())
    }
}

impl Args {
    fn on(&self) -> On {
        self.backend.unwrap_or(match self.engine {
            Engine::Native => On::Guest,
            Engine::Pts => On::Native,
        })
    }

    /// An option that the preset would take no notice of.
    fn without_effect(&self) -> Option<&'static str> {
        let has_boots = !matches!(self.preset, Preset::Smoke | Preset::SeedResources);
        let is_of_resources = matches!(self.preset, Preset::SeedResources);
        let is_pts = self.engine == Engine::Pts;
        let is_native = self.on() == On::Native;
        let has_programs = matches!(self.preset, Preset::SeedPts | Preset::SeedGrsec);
        [
            ("--engine", is_pts && !matches!(self.preset, Preset::SeedPts)),
            ("--backend", is_native && !has_programs),
            ("--backend", is_pts && !is_native),
            ("--kernel", is_native && self.kernel.is_some()),
            ("--resume", self.resume.is_some() && !has_boots),
            ("--boots", self.boots.is_some() && !has_boots),
            (
                "--suite",
                !self.suite.is_empty() && !matches!(self.preset, Preset::SeedPts),
            ),
            ("--programs", self.programs.is_some() && is_of_resources),
        ]
        .into_iter()
        .find_map(|(option, is_idle)| is_idle.then_some(option))
    }
}

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    if let Some(option) = args.without_effect() {
        bail!("{option}: this preset has no such choice with its other options; leave the option out");
    }
    let phoronix = args.engine.launcher(phoronix::find)?;
    tools::need(tools::GUEST)?;
    let settings = Settings {
        scale: args.scale,
        backend: args.on().backend(),
        boots: args.boots,
        kernel: args.kernel,
        programs: hooks::programs(args.programs.as_deref())?,
        resume: args.resume.clone(),
        engine: args.engine,
        phoronix,
    };
    match args.preset {
        Preset::SeedPts => pts::run(&settings, &args.suite),
        Preset::SeedUnixbench => unixbench::run(&settings),
        Preset::SeedLsmperf => lsmperf::run(&settings),
        Preset::SeedGrsec => grsec::run(&settings),
        Preset::SeedResources => resources::run(&settings),
        Preset::Smoke => smoke::run(&settings),
    }
}

/// Names what could not be measured on a kernel; such a run has failed.
fn closing(kernel: &str, problems: &[String]) -> ExitCode {
    for problem in problems {
        println!("FAILED: {kernel}: {problem}");
    }
    if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Args, Engine};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn options_that_a_preset_does_not_have_are_refused() {
        let idle = |line: &str| {
            let words = std::iter::once("preset").chain(line.split(' '));
            Line::try_parse_from(words).unwrap().args.without_effect()
        };
        assert_eq!(idle("seed-resources --scale std --kernel 6.1"), None);
        assert_eq!(idle("seed-resources --boots 3"), Some("--boots"));
        assert_eq!(idle("seed-resources --programs out"), Some("--programs"));
        assert_eq!(idle("smoke --resume a"), Some("--resume"));
        assert_eq!(idle("seed-unixbench --suite redis"), Some("--suite"));
        assert_eq!(idle("seed-unixbench --backend native"), Some("--backend"));
        assert_eq!(idle("seed-grsec --backend native --kernel 6.1"), Some("--kernel"));
        assert_eq!(idle("seed-pts --backend native --boots 3"), None);
        assert_eq!(idle("seed-pts --suite redis --boots 3 --resume a"), None);
        assert_eq!(idle("seed-grsec --engine pts"), Some("--engine"));
        assert_eq!(idle("smoke --engine pts"), Some("--engine"));
        assert_eq!(idle("seed-pts --engine pts --backend guest"), Some("--backend"));
        assert_eq!(idle("seed-pts --engine pts --kernel 6.1"), Some("--kernel"));
        assert_eq!(
            idle("seed-pts --engine pts --boots 3 --suite redis --resume a"),
            None
        );
        assert_eq!(idle("seed-pts --engine pts --backend native"), None);
        assert_eq!(idle("seed-grsec --engine native"), None);
    }

    #[test]
    fn engine_that_is_not_there_is_refused_with_what_it_needs() {
        let absent = || Err("not detected".to_owned());
        let error = Engine::Pts.launcher(absent).unwrap_err().to_string();
        assert!(
            error.contains("not detected") && error.contains("needs phoronix-test-suite"),
            "{error}"
        );
        assert!(error.ends_with("`--engine native` needs none of it"), "{error}");
        assert_eq!(Engine::Native.launcher(absent).unwrap(), None);
        let there = || Ok("/opt/phoronix-test-suite".into());
        assert!(Engine::Pts.launcher(there).unwrap().is_some());
    }
}
