//! Presets that run programs of a distribution, each with a known amount of work, under several systems.
//!
//! All suites share a guest, with their programs in its memory; the block is a boot, and all systems run in each. On this machine
//! a block is every system in a random order and then in the reverse order.

mod packages;
pub(super) mod suite;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Error, Result};
use serde_json::json;

use self::suite::Suite;
use super::{
    Engine, Scale, Settings,
    cells::{self, Condition, SEED},
    phoronix::Session,
};
use crate::{
    bench::{
        boots,
        hooks::{self, Room},
        native,
        protocol::{Clock, Plan},
        record::{Folder, Sample, Summary},
        report::Report,
        stats::Backend,
        systems::{self, NOTHING, NOTHING_AGAIN},
    },
    kernel::Series,
    test,
};

/// Of one boot; the emulated programs take their time.
const TIMEOUT: Duration = Duration::from_hours(4);

/// What is measured.
pub(super) struct Programs {
    pub(super) preset: &'static str,
    /// The first one is what the others are compared with.
    pub(super) conditions: Vec<Condition>,
    pub(super) suites: Vec<&'static Suite>,
    /// Somebody asked for these suites: also for those whose numbers are not to be believed yet.
    pub(super) named: bool,
}

/// What came of it; samples and summary are in the folder.
pub(super) struct Measured {
    pub(super) folder: Folder,
    /// What tables call the kernel.
    pub(super) kernel: String,
    pub(super) summary: Summary,
    /// Per unit of work.
    pub(super) samples: Vec<Sample>,
    pub(super) problems: Vec<String>,
}

impl Programs {
    pub(super) fn measure(&self, settings: &Settings) -> Result<Measured> {
        let backend = settings.backend;
        let boots = settings.boots.unwrap_or(match settings.scale {
            Scale::Smoke => 1,
            Scale::Std => backend.blocks_for_a_verdict(),
        });
        let names: Vec<&str> = self.suites.iter().map(|suite| suite.name).collect();
        let folder = settings.folder(self.preset, boots, &names)?;
        let mut summary = Summary {
            preset: self.preset.to_owned(),
            scale: settings.scale.name().to_owned(),
            backend,
            unit: unit(settings),
            kernels: [].into(),
            cells: Vec::new(),
        };
        let mut samples = Vec::new();
        let mut problems = Vec::new();
        let mut ready = Ready::default();
        for suite in &self.suites {
            match self.left_out(suite, backend) {
                Some(reason) => {
                    ready.missing.insert(suite.name, reason.to_owned());
                }
                None => ready.add(suite),
            }
        }
        let (reports, failure) = ready.measure(self, settings, &folder, boots);
        for report in &reports {
            summary
                .kernels
                .insert(report.kernel_name().to_owned(), report.release.clone());
            let found = report.problems().iter();
            problems.extend(
                found
                    .filter(|problem| !self.is_expected(problem, backend))
                    .cloned(),
            );
        }
        problems.extend(failure.clone());
        for suite in &self.suites {
            let workloads = suite.workloads(settings.work());
            let mut cells = cells::cells(suite.name, &reports, &workloads, &self.conditions, backend);
            let missing = ready.missing.get(suite.name);
            if let Some(reason) = missing.or(failure.as_ref()) {
                let reason = reason.replace(['\n', '|'], " ");
                for cell in cells.iter_mut().filter(|cell| cell.value.is_none()) {
                    cell.reason = Some(reason.clone());
                }
            }
            let failed = missing.filter(|_| self.left_out(suite, backend).is_none());
            problems.extend(failed.map(|reason| format!("{}: {reason}", suite.name)));
            summary.cells.extend(cells);
            samples.extend(cells::samples(suite.name, &reports, &workloads, &self.conditions));
        }
        folder.summary(&summary)?;
        folder.samples(&summary, &samples)?;
        let about = json!({
            "boots": boots,
            "salts": (0..boots).collect::<Vec<_>>(),
            "schedule_seed": SEED,
            "bootstrap_seed": SEED,
            "packages": ready.versions,
            "engine": settings.engine.name(),
        });
        folder.meta(&summary, &about)?;
        Ok(Measured {
            folder,
            kernel: summary.kernels.keys().next().cloned().unwrap_or_default(),
            summary,
            samples,
            problems,
        })
    }

    /// Why a suite that nobody has named is not run in guests.
    fn left_out(&self, suite: &Suite, backend: Backend) -> Option<&'static str> {
        suite
            .unproven
            .filter(|_| !self.named && backend == Backend::TcgIcount)
    }

    /// Not every machine can run every system: such a row says why it has no numbers, and the run is whole. Guests can run all.
    fn is_expected(&self, problem: &str, backend: Backend) -> bool {
        let names = self
            .conditions
            .iter()
            .map(|condition| condition.system.name.as_str());
        backend == Backend::NativeWall
            && names
                .filter(|name| *name != NOTHING)
                .any(|name| problem.starts_with(&format!("{name}: ")))
    }

    /// Every system, and the first one once more at the end.
    pub(super) fn plan(&self, suites: &[&Suite], scale: Scale, salt: u32) -> Plan {
        let systems = self.conditions.iter().map(|condition| condition.system.clone());
        Plan {
            systems: systems.chain([systems::nothing(NOTHING_AGAIN)]).collect(),
            operations: suites.iter().flat_map(|suite| suite.work(scale)).collect(),
            count_hooks: false,
            by_program: false,
            salt,
            clock: Clock::Instructions,
        }
    }
}

/// Of every value; numbers of two engines are never compared.
fn unit(settings: &Settings) -> String {
    let unit = settings.backend.unit();
    match settings.engine {
        Engine::Native => unit.to_owned(),
        Engine::Pts => format!("{unit}, timed by the Phoronix Test Suite"),
    }
}

/// Suites whose programs are there, in one guest: to load the policies takes longer than most suites.
#[derive(Default)]
struct Ready {
    suites: Vec<&'static Suite>,
    room: Room,
    /// Packages with their versions.
    versions: Vec<String>,
    /// Suites without programs, and why.
    missing: BTreeMap<&'static str, String>,
}

impl Ready {
    fn add(&mut self, suite: &'static Suite) {
        match packages::shares(suite.packages) {
            Ok((shares, versions)) => {
                self.room.shares.extend(shares);
                self.room.memory = self.room.memory.max(suite.memory);
                self.versions.extend(versions);
                self.suites.push(suite);
            }
            Err(error) => {
                self.missing.insert(suite.name, format!("{error:#}"));
            }
        }
    }

    /// Every block, and why there are not all of them.
    fn measure(
        &mut self,
        run: &Programs,
        settings: &Settings,
        folder: &Folder,
        blocks: u32,
    ) -> (Vec<Report>, Option<String>) {
        let mut reports = Vec::new();
        if self.suites.is_empty() {
            return (reports, None);
        }
        self.room.timeout = TIMEOUT;
        // The parser's libraries are this machine's, and never older than those of the programs.
        let outcome = test::parser().and_then(|parser| {
            self.room.shares.extend(parser);
            match settings.backend {
                Backend::TcgIcount => {
                    let (measured, failure) = self.boot(run, settings, folder, blocks);
                    reports = measured;
                    failure.map_or(Ok(()), Err)
                }
                Backend::NativeWall | Backend::ClusterWall => {
                    self.stay(run, settings, folder, blocks, &mut reports)
                }
            }
        });
        (reports, outcome.err().map(|error| format!("{error:#}")))
    }

    /// A guest for each block.
    fn boot(
        &self,
        run: &Programs,
        settings: &Settings,
        folder: &Folder,
        boots: u32,
    ) -> (Vec<Report>, Option<Error>) {
        let kernel = settings.kernel.unwrap_or(Series::V6_1);
        boots::measure(&format!("{} {kernel}", run.preset), boots, |salt| {
            let plan = run.plan(&self.suites, settings.work(), salt);
            let kept = folder.boot(&format!("{kernel}-{salt}"));
            hooks::measure_kept(kernel, &plan, &settings.programs, &self.room, &kept)
        })
    }

    /// Blocks on this machine.
    fn stay(
        &self,
        run: &Programs,
        settings: &Settings,
        folder: &Folder,
        blocks: u32,
        reports: &mut Vec<Report>,
    ) -> Result<()> {
        let mut plan = run.plan(&self.suites, settings.work(), 0);
        plan.clock = Clock::Time;
        for work in &mut plan.operations {
            // The block is what is repeated.
            work.batches = 1;
        }
        let room = native::Room::new(&plan, &settings.programs, &self.room.shares)?;
        let measured = match &settings.phoronix {
            None => native::blocks(plan, blocks, folder, run.preset, |plan, kept| {
                room.measure(plan, kept)
            }),
            Some(program) => {
                let session = Session::new(program, &room, &self.suites, settings.work(), folder)?;
                native::blocks(plan, blocks, folder, run.preset, |plan, kept| {
                    session.measure(plan, kept)
                })
            }
        };
        reports.extend(measured?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Backend, Programs};
    use crate::bench::{
        preset::cells::Condition,
        systems::{self, NOTHING},
    };

    #[test]
    fn what_this_machine_cannot_run_is_expected_and_what_goes_wrong_is_not() {
        let programs = Programs {
            preset: "test",
            conditions: vec![
                Condition::new("NoProtect", systems::nothing(NOTHING)),
                Condition::new("Enhance BPF", systems::compared("EnhanceProtect", "BPF")),
            ],
            suites: Vec::new(),
            named: false,
        };
        let cannot = "EnhanceProtect-BPF: this kernel has no BPF LSM";
        assert!(programs.is_expected(cannot, Backend::NativeWall));
        assert!(!programs.is_expected(cannot, Backend::TcgIcount));
        assert!(!programs.is_expected("nothing: the program is not there", Backend::NativeWall));
        let operation = "EnhanceProtect-BPF, sysbench-cpu: sysbench has done 3 events, not 100";
        assert!(!programs.is_expected(operation, Backend::NativeWall));
    }
}
