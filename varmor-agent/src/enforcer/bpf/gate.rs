//! User space's side of the gate: who waits there, which cgroups have one, and the agent's sign of life.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use aya::maps::{Array, HashMap, Map, MapData, RingBuf};
use rustix::process::{Pid, Signal, kill_process};
use varmor_common::abi::{
    MANAGED_FREE, MANAGED_GATE, Managed, PASSES_ONCE, SETTING_ABSENT, SETTING_ALIVE, Waiting,
};

use super::super::{CgroupId, EnforcerError, Pulse, Resident, WithoutAgent};
use super::BpfEnforcer;
use super::CallRecorder;
use super::pins::Pins;
use super::raw::{Shared, boot_time};

/// Between two signs of life; the programs take the agent for absent after `AGENT_LAPSE`.
const BEAT: Duration = Duration::from_secs(1);
const STACK: usize = 64 << 10;

/// The maps of the gate.
pub(super) struct Gate {
    waiting: HashMap<MapData, u32, Shared<Waiting>>,
    starts: RingBuf<MapData>,
}

impl Gate {
    pub(super) fn open(pins: &Pins) -> Result<Self, EnforcerError> {
        let failed = |error| EnforcerError::kernel("open the maps of the start gate", error);
        let data = |name| MapData::from_pin(pins.map(name));
        Ok(Self {
            waiting: data("WAITING")
                .and_then(|data| Map::HashMap(data).try_into())
                .map_err(failed)?,
            starts: data("STARTS")
                .and_then(|data| RingBuf::try_from(Map::RingBuf(data)))
                .map_err(failed)?,
        })
    }

    /// Readable when somebody has come.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.starts.as_fd()
    }

    /// Who waits, by process number.
    pub(super) fn waiting(&mut self) -> Result<Vec<(u32, Waiting)>, EnforcerError> {
        // The map is the truth; the ring has done its work when it woke us.
        while self.starts.next().is_some() {}
        self.waiting
            .iter()
            .map(|entry| entry.map(|(process, waiting)| (process, waiting.0)))
            .filter(|entry| !matches!(entry, Ok((_, waiting)) if waiting.since == PASSES_ONCE))
            .collect::<Result<_, _>>()
            .map_err(|error| EnforcerError::kernel("list who waits at the start gate", error))
    }

    /// The process goes on for this one exec.
    pub(super) fn let_pass(&mut self, process: u32, cgroup: u64) -> Result<(), EnforcerError> {
        let waiting = Waiting {
            cgroup,
            since: PASSES_ONCE,
        };
        self.waiting
            .insert(process, Shared(waiting), 0)
            .map_err(|error| EnforcerError::kernel("let a runtime pass", error))?;
        go_on(process).map_err(|error| EnforcerError::kernel("let a runtime pass", error))
    }

    /// Forgets who died before it used its leave.
    pub(super) fn forget_dead(&mut self) {
        let unused = self
            .waiting
            .iter()
            .filter_map(Result::ok)
            .filter(|(process, waiting)| {
                waiting.0.since == PASSES_ONCE && !Path::new(&format!("/proc/{process}")).exists()
            });
        let dead: Vec<u32> = unused.map(|(process, _)| process).collect();
        for process in dead {
            let _ = self.waiting.remove(&process);
        }
    }

    /// The process goes on: it makes its call again and is judged by what is known now.
    pub(super) fn let_go(&mut self, process: u32) -> Result<(), EnforcerError> {
        // It may have come again meanwhile, or have died: an entry that is gone is what was wanted.
        let _ = self.waiting.remove(&process);
        go_on(process).map_err(|error| EnforcerError::kernel("let a start go on", error))
    }
}

/// Lets everybody go on who waits at a gate that is about to go.
pub(super) fn let_all_go(waiting: Vec<u32>) {
    for process in waiting {
        if let Err(error) = go_on(process) {
            tracing::warn!(process, %error, "a start that waited cannot be continued; send it SIGCONT");
        }
    }
}

/// Who waits at the gate of other pins, which may be too old to have one.
pub(super) fn waiting_at(pins: &Pins) -> Vec<u32> {
    let map = MapData::from_pin(pins.map("WAITING"));
    let Ok(map) = map.and_then(|data| HashMap::<_, u32, Shared<Waiting>>::try_from(Map::HashMap(data)))
    else {
        return Vec::new();
    };
    map.keys().filter_map(Result::ok).collect()
}

/// Lets containers run that start while no agent answers, at the gates of every build whose pins are there; an agent that
/// starts says again what it wants. The answer is how many there are.
pub fn let_starts_run(bpffs: &Path) -> Result<usize, EnforcerError> {
    let all = Pins::all(bpffs).map_err(|error| EnforcerError::kernel("list the pins", error))?;
    let with_gate = all.iter().filter(|pins| pins.map("SETTINGS").exists());
    with_gate
        .map(|pins| {
            let mut settings: Array<MapData, u32> = MapData::from_pin(pins.map("SETTINGS"))
                .and_then(|data| Map::Array(data).try_into())
                .map_err(|error| EnforcerError::kernel("open the settings", error))?;
            settings
                .set(SETTING_ABSENT, 1, 0)
                .map_err(|error| EnforcerError::kernel("write the settings", error))
        })
        .try_fold(0, |count, outcome| outcome.map(|()| count + 1))
}

fn go_on(process: u32) -> io::Result<()> {
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else {
        return Ok(());
    };
    match kill_process(pid, Signal::CONT) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A thread that says that this process lives, whatever it is busy with; ends with the value.
pub(super) struct SignOfLife {
    #[expect(dead_code, reason = "dropping it ends the thread")]
    end: Sender<()>,
}

impl SignOfLife {
    pub(super) fn start(pins: &Pins) -> Result<Self, EnforcerError> {
        let failed = |error| EnforcerError::kernel("open the settings", error);
        let mut settings: Array<MapData, u32> = MapData::from_pin(pins.map("SETTINGS"))
            .and_then(|data| Map::Array(data).try_into())
            .map_err(failed)?;
        let mut beat = move || {
            let seconds = u32::try_from(boot_time() / 1_000_000_000).unwrap_or(u32::MAX);
            settings.set(SETTING_ALIVE, seconds, 0)
        };
        beat().map_err(|error| EnforcerError::kernel("give a sign of life", error))?;
        let (end, ended) = channel::<()>();
        thread::Builder::new()
            .name("alive".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                    if let Err(error) = beat() {
                        tracing::error!(%error, "no sign of life can be given; new containers will be refused");
                    }
                }
            })
            .map_err(|error| EnforcerError::kernel("start the thread that gives signs of life", error))?;
        Ok(Self { end })
    }
}

impl Resident for BpfEnforcer {
    fn set_pulse(&mut self, pulse: Pulse) {
        self.object.set_pulse(pulse);
    }

    fn record_calls(&self, profile: &str) -> Result<Option<CallRecorder>, EnforcerError> {
        Self::record_calls(self, profile).map(Some)
    }

    fn record_everything(&mut self, everything: bool) -> Result<(), EnforcerError> {
        Self::record_everything(self, everything)
    }

    fn answer_starts(&mut self, without_agent: WithoutAgent) -> Result<(), EnforcerError> {
        self.tables.set_absent(without_agent == WithoutAgent::Run)?;
        self.sign_of_life = Some(SignOfLife::start(&self.pins)?);
        Ok(())
    }

    fn start_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.gate.fd())
    }

    fn waiting(&mut self) -> Result<Vec<(u32, Waiting)>, EnforcerError> {
        self.gate.waiting()
    }

    fn let_go(&mut self, process: u32) -> Result<(), EnforcerError> {
        self.gate.let_go(process)
    }

    fn let_pass(&mut self, process: u32, cgroup: CgroupId) -> Result<(), EnforcerError> {
        self.gate.let_pass(process, cgroup.0)
    }

    fn set_gates(&mut self, gates: &BTreeSet<CgroupId>) -> Result<(), EnforcerError> {
        let ledger = self.ledger()?;
        let marked = ledger.marked();
        let new: Vec<u64> = gates
            .iter()
            .map(|gate| gate.0)
            .filter(|gate| ledger.bound(*gate).is_none() && marked.get(gate) != Some(&MANAGED_GATE))
            .collect();
        let old: Vec<u64> = marked
            .iter()
            .filter(|(cgroup, kind)| **kind == MANAGED_GATE && !gates.contains(&CgroupId(**cgroup)))
            .map(|(cgroup, _)| *cgroup)
            .collect();
        self.mark(&new, &old, MANAGED_GATE)
    }

    fn has_gate(&self, cgroup: CgroupId) -> bool {
        self.ledger()
            .is_ok_and(|ledger| ledger.marked().get(&cgroup.0) == Some(&MANAGED_GATE))
    }

    fn set_free(&mut self, cgroups: &[CgroupId]) -> Result<(), EnforcerError> {
        let ledger = self.ledger()?;
        let new: Vec<u64> = cgroups
            .iter()
            .map(|cgroup| cgroup.0)
            .filter(|cgroup| ledger.bound(*cgroup).is_none() && !ledger.marked().contains_key(cgroup))
            .collect();
        self.mark(&new, &[], MANAGED_FREE)
    }

    fn forget_marks(&mut self, existing: &BTreeSet<CgroupId>) -> Result<(), EnforcerError> {
        self.gate.forget_dead();
        let gone: Vec<u64> = self
            .ledger()?
            .marked()
            .keys()
            .copied()
            .filter(|cgroup| !existing.contains(&CgroupId(*cgroup)))
            .collect();
        self.mark(&[], &gone, MANAGED_FREE)
    }

    fn restore_pins(&self) -> Result<usize, EnforcerError> {
        self.put_back_pins()
    }

    fn take_down(&mut self) -> Result<bool, EnforcerError> {
        self.remove_all().map(|()| true)
    }

    fn retire_other_versions(&self) -> Result<usize, EnforcerError> {
        self.retire_others()
    }
}

impl BpfEnforcer {
    fn mark(&mut self, new: &[u64], old: &[u64], kind: u32) -> Result<(), EnforcerError> {
        if new.is_empty() && old.is_empty() {
            return Ok(());
        }
        let _held = self.change()?;
        for &cgroup in new {
            let managed = Managed {
                kind,
                ..Managed::default()
            };
            self.tables.set_managed(cgroup, managed)?;
            self.ledger.mark(cgroup, kind);
        }
        for &cgroup in old {
            self.tables.remove_managed(cgroup)?;
            self.ledger.unmark(cgroup);
        }
        Ok(())
    }
}
