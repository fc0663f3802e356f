//! The BPF enforcer: the only owner of the kernel programs, their maps and their links.
//!
//! Everything that enforcement needs is pinned, so that it outlives the agent; what is in the maps is the truth,
//! and a lock keeps two agent processes (the daemon and `varmor run`) from writing at the same time.

mod activity;
mod attachment;
mod explain;
mod gate;
mod journal;
mod keeper;
mod key;
mod ledger;
mod names;
mod object;
mod own;
mod patch;
mod pins;
mod raw;
mod record;
mod statistics;
mod tables;
pub mod usage;

use std::borrow::Cow;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::PathBuf;

use aya::maps::{Map, MapData, RingBuf};
use varmor_common::abi::{
    ACTION_FAULT, Binding, MANAGED_CONTAINER, MAX_BINDINGS, MAX_SLOTS, Managed, RawEvent, SLOT_NONE,
};
use varmor_common::compile::bpf::{self, HookGroups};
use varmor_common::profile::Profile;

use self::activity::Counts;
use self::explain::{Explanation, Explanations};
pub use self::gate::let_starts_run;
use self::gate::{Gate, SignOfLife};
use self::journal::Journal;
use self::keeper::Keeper;
use self::key::hash_key;
use self::ledger::{Bound, Ledger};
use self::names::{Named, Names};
use self::object::Object;
use self::pins::Pins;
use self::raw::Lock;
pub use self::record::{CallRecorder, SeenCalls};
pub use self::statistics::{ProgramStatistics, statistics};
use self::tables::Tables;
use super::{
    Activity, Adoption, Applied, CgroupId, Counters, Enforcer, EnforcerError, HookState, KernelEvent,
    LoadedProfile, Resolution,
};
use crate::kernel::IDENTITY;

/// Where the enforcer keeps its pins and its lock.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder on the BPF filesystem, made if missing.
    pub bpffs: PathBuf,
    /// Folder for the lock, the key of the name hash and what explains events; on a filesystem that forgets at boot.
    pub state_dir: PathBuf,
}

/// How the programs came to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Loaded now.
    Loaded,
    /// Adopted from an earlier agent.
    Adopted,
}

/// Handle on the programs in the kernel.
pub struct BpfEnforcer {
    object: Object,
    pins: Pins,
    tables: Tables,
    names: Names,
    ledger: Ledger,
    events: RingBuf<MapData>,
    activity: Counts,
    cgroups: File,
    lock: PathBuf,
    key: u64,
    start: Start,
    explanations: Explanations,
    journal: Journal,
    /// Groups whose hooks this process has seen attached, and no others.
    attached: Option<HookGroups>,
    gate: Gate,
    /// Kept by the process that answers at the gate.
    sign_of_life: Option<SignOfLife>,
    /// Everything that is pinned, held open. Empty where the enforcer is only looked at.
    keeper: Keeper,
}

/// Events that a profile may write in a second, and at once. What is more is counted.
const EVENTS_PER_SECOND: u32 = 1000;
const EVENT_BURST: u32 = 2000;

/// Updates of a profile after which counters of old versions are removed.
const COUNTED_GENERATIONS: u32 = 16;

/// Events that fit into the ring.
const EVENTS_PER_ROUND: usize = (4 << 20) / size_of::<RawEvent>();

/// Makes the maps, or adopts the maps and programs of an earlier agent of the same build. Programs are loaded when
/// the first profile needs them.
pub fn open(options: &Options) -> Result<BpfEnforcer, EnforcerError> {
    let object = Object::choose()?;
    let lock = options.state_dir.join("lock");
    let _held = Lock::take(&lock).map_err(|error| EnforcerError::kernel("lock the enforcer", error))?;
    let pins = Pins::of_object(&options.bpffs, object.bytes());
    let key = hash_key(&options.state_dir, pins.name())?;
    let start = if pins.is_complete() && key.existed {
        Start::Adopted
    } else {
        object.create(&pins, key.value)?;
        Names::create(&pins)?;
        Tables::open(&pins)?.limit_events(EVENTS_PER_SECOND, EVENT_BURST)?;
        pins.set_complete()
            .map_err(|error| EnforcerError::kernel("mark the pins complete", error))?;
        Start::Loaded
    };
    let mut enforcer = BpfEnforcer::attach_to(options, object, pins, key.value, start)?;
    enforcer.tables.set_agent(own_process())?;
    if start == Start::Adopted {
        enforcer.repair()?;
    }
    enforcer.hold()?;
    Ok(enforcer)
}

/// The number of this process in the first pid namespace; 0 in any other, where the programs could not tell it from
/// another process.
fn own_process() -> u32 {
    /// `PROC_PID_INIT_INO` (include/uapi/linux/nsfs.h).
    const FIRST: &str = "pid:[4026531836]";
    let is_first =
        std::fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace.as_os_str() == FIRST);
    if is_first {
        std::process::id()
    } else {
        tracing::warn!("the agent is in a pid namespace: protected tasks are not kept from its process");
        0
    }
}

/// The programs of a running agent of the same build, if there are any: for status.
pub fn inspect(options: &Options) -> Result<Option<BpfEnforcer>, EnforcerError> {
    let object = Object::choose()?;
    let pins = Pins::of_object(&options.bpffs, object.bytes());
    if !pins.is_complete() {
        return Ok(None);
    }
    let key = hash_key(&options.state_dir, pins.name())?;
    BpfEnforcer::attach_to(options, object, pins, key.value, Start::Adopted).map(Some)
}

impl BpfEnforcer {
    fn attach_to(
        options: &Options,
        object: Object,
        pins: Pins,
        key: u64,
        start: Start,
    ) -> Result<Self, EnforcerError> {
        let events = MapData::from_pin(pins.map("EVENTS"))
            .and_then(|data| RingBuf::try_from(Map::RingBuf(data)))
            .map_err(|error| EnforcerError::kernel("open the ring of events", error))?;
        let tables = Tables::open(&pins)?;
        let names = Names::open(&pins)?;
        Ok(Self {
            ledger: Ledger::read(&tables, &names)?,
            tables,
            names,
            activity: Counts::open(&pins)?,
            events,
            cgroups: File::open("/sys/fs/cgroup")
                .map_err(|error| EnforcerError::kernel("open /sys/fs/cgroup", error))?,
            lock: options.state_dir.join("lock"),
            journal: Journal::new(options.state_dir.join(format!("journal-{}", pins.name()))),
            explanations: Explanations::open(options.state_dir.join(format!("sites-{}", pins.name()))),
            object,
            key,
            start,
            attached: None,
            gate: Gate::open(&pins)?,
            sign_of_life: None,
            pins,
            keeper: Keeper::default(),
        })
    }

    /// Whether the programs were loaded by this process or adopted.
    #[must_use]
    pub fn start(&self) -> Start {
        self.start
    }

    /// Detaches and removes what agents of other versions left. Called when this version enforces everything, so
    /// that there is no moment without protection: until then both versions judge, and each can only deny.
    pub(super) fn retire_others(&self) -> Result<usize, EnforcerError> {
        let others = self
            .pins
            .others()
            .map_err(|error| EnforcerError::kernel("list old pins", error))?;
        for other in &others {
            let waiting = gate::waiting_at(other);
            other.remove().map_err(|error| {
                EnforcerError::kernel(format!("remove the pins of {}", other.name()), error)
            })?;
            gate::let_all_go(waiting);
        }
        Ok(others.len())
    }

    /// Lets every profile write as many events as it makes, for recording, where each is wanted; or no more than the limit.
    pub fn record_everything(&mut self, everything: bool) -> Result<(), EnforcerError> {
        if !everything {
            return self.tables.limit_events(EVENTS_PER_SECOND, EVENT_BURST);
        }
        // An interval of zero would refuse the event of a processor whose clock is behind.
        self.tables.limit_events(1_000_000_000, u32::MAX)
    }

    /// Detaches everything and removes all pins of this version: nothing is enforced any more.
    pub fn uninstall(self) -> Result<(), EnforcerError> {
        self.remove_all()
    }

    fn remove_all(&self) -> Result<(), EnforcerError> {
        let _held =
            Lock::take(&self.lock).map_err(|error| EnforcerError::kernel("lock the enforcer", error))?;
        let waiting = gate::waiting_at(&self.pins);
        self.pins
            .remove()
            .map_err(|error| EnforcerError::kernel("remove the pins", error))?;
        self.pins.remove_root();
        gate::let_all_go(waiting);
        Ok(())
    }

    /// Takes the lock for a change, and notices the changes of others.
    fn change(&mut self) -> Result<Lock, EnforcerError> {
        let lock =
            Lock::take(&self.lock).map_err(|error| EnforcerError::kernel("lock the enforcer", error))?;
        if self.tables.writes()? != self.ledger.writes {
            self.ledger = Ledger::read(&self.tables, &self.names)?;
            self.attached = None;
        }
        let writes = self.ledger.writes.wrapping_add(1);
        self.tables.set_writes(writes)?;
        self.ledger.writes = writes;
        Ok(lock)
    }

    /// What the kernel holds now.
    fn ledger(&self) -> Result<Cow<'_, Ledger>, EnforcerError> {
        if self.tables.writes()? == self.ledger.writes {
            Ok(Cow::Borrowed(&self.ledger))
        } else {
            Ledger::read(&self.tables, &self.names).map(Cow::Owned)
        }
    }

    /// Finishes or takes back what an agent that was killed had begun.
    fn repair(&mut self) -> Result<(), EnforcerError> {
        let slots: Vec<u32> = self.ledger.profiles().map(|named| named.slot).collect();
        for slot in self.tables.repair(&slots, &self.journal.unfinished())? {
            self.names.remove(slot)?;
        }
        self.journal.clear().map_err(journal_failed)?;
        for named in self.names.all()? {
            let generation = self.tables.generation_of(named.slot)?;
            if generation != named.generation {
                self.names.set(&Named { generation, ..named })?;
            }
        }
        self.ledger = Ledger::read(&self.tables, &self.names)?;
        self.attach(HookGroups::default())?;
        self.detach()
    }

    /// Attaches what the loaded profiles and `more` need.
    fn attach(&mut self, more: HookGroups) -> Result<(), EnforcerError> {
        let groups = self.ledger.groups().union(more);
        if self.attached.is_none_or(|attached| !attached.contains(groups)) {
            attachment::attach(&self.object, &self.pins, self.key, groups)?;
            self.attached = Some(groups);
            self.hold()?;
        }
        Ok(())
    }

    /// Holds everything that is pinned, and keeps protected tasks from it.
    fn hold(&mut self) -> Result<(), EnforcerError> {
        self.tables.list_own(&self.pins)?;
        self.keeper = Keeper::open(&self.pins)
            .map_err(|error| EnforcerError::kernel("open the pinned objects", error))?;
        Ok(())
    }

    /// Puts back pins that somebody has removed; the number of them.
    pub(super) fn put_back_pins(&self) -> Result<usize, EnforcerError> {
        self.keeper
            .restore()
            .map_err(|error| EnforcerError::kernel("put removed pins back", error))
    }

    /// Detaches what no loaded profile needs.
    fn detach(&mut self) -> Result<(), EnforcerError> {
        let groups = self.ledger.groups();
        if self.attached != Some(groups) {
            // A link that is held stays attached without its pin.
            self.keeper = Keeper::default();
            attachment::detach(&self.object, &self.pins, groups)?;
            self.attached = Some(groups);
            self.hold()?;
        }
        Ok(())
    }

    fn named(&self, profile: &str) -> Result<Named, EnforcerError> {
        self.ledger
            .profile(profile)
            .cloned()
            .ok_or_else(|| EnforcerError::UnknownProfile(profile.to_owned()))
    }

    fn cgroup_exists(&self, cgroup: u64) -> bool {
        raw::open_cgroup(self.cgroups.as_fd(), cgroup).is_ok()
    }
}

fn journal_failed(error: std::io::Error) -> EnforcerError {
    EnforcerError::kernel("keep the journal of changes", error)
}

impl Enforcer for BpfEnforcer {
    fn apply(&mut self, profile: &Profile) -> Result<Applied, EnforcerError> {
        let _held = self.change()?;
        let all: Vec<Named> = self.ledger.profiles().cloned().collect();
        let targets = names::target_keys(&all, profile);
        let compiled = bpf::compile_after(profile, self.key, &targets, self.object.kernel());
        let mut artefact = compiled.map_err(|error| EnforcerError::TooLarge {
            profile: profile.name.clone(),
            reason: error.to_string(),
        })?;
        let (slot, generation) = if let Some(named) = self.ledger.profile(&profile.name) {
            (named.slot, named.generation.wrapping_add(1))
        } else {
            let full = EnforcerError::Full {
                what: "profile",
                limit: MAX_SLOTS,
            };
            (self.ledger.free_slot().ok_or(full)?, 1)
        };
        artefact.descriptor.slot = slot;
        artefact.descriptor.generation = generation;
        let explanation = Explanation::new(profile, &artefact);
        let unsupported = explanation.unsupported.clone();
        self.explanations
            .add(slot, explanation)
            .map_err(|error| EnforcerError::kernel("keep what explains events", error))?;
        if generation.is_multiple_of(COUNTED_GENERATIONS) {
            self.activity.forget_unexplained(&self.explanations);
        }
        self.attach(artefact.hooks.union(IDENTITY))?;
        let indexes = self
            .tables
            .free_indexes(all.iter().map(|named| named.slot), &artefact)?;
        let touched: Vec<u32> = indexes.iter().copied().chain(self.tables.owned(slot)?).collect();
        self.journal.note(&touched).map_err(journal_failed)?;
        self.tables.swap(slot, &indexes, &artefact)?;
        self.journal.clear().map_err(journal_failed)?;
        let rules = profile.every_rule().count();
        let named = Named {
            slot,
            generation,
            rules: u32::try_from(rules).unwrap_or(u32::MAX),
            groups: artefact.hooks,
            targets: artefact.target_keys,
            name: profile.name.clone(),
        };
        self.names.set(&named)?;
        self.ledger.set_profile(named);
        self.detach()?;
        Ok(Applied {
            slot,
            generation,
            rules: rules - unsupported.len(),
            unsupported,
        })
    }

    fn remove(&mut self, profile: &str) -> Result<(), EnforcerError> {
        let _held = self.change()?;
        let slot = self.named(profile)?.slot;
        let bindings = self.ledger.users(slot);
        if bindings != 0 {
            return Err(EnforcerError::ProfileInUse {
                profile: profile.to_owned(),
                bindings,
            });
        }
        let touched = self.tables.owned(slot)?;
        self.journal.note(&touched).map_err(journal_failed)?;
        self.tables.clear(slot)?;
        self.journal.clear().map_err(journal_failed)?;
        self.names.remove(slot)?;
        self.ledger.remove_profile(slot);
        self.activity.clear(slot)?;
        self.explanations
            .forget(slot)
            .map_err(|error| EnforcerError::kernel("forget what explains events", error))?;
        self.detach()
    }

    fn protect(&mut self, cgroup: CgroupId, profile: &str, adoption: Adoption) -> Result<(), EnforcerError> {
        let _held = self.change()?;
        let slot = self.named(profile)?.slot;
        if !self.cgroup_exists(cgroup.0) {
            return Err(EnforcerError::Cgroup {
                cgroup,
                reason: "it does not exist".to_owned(),
            });
        }
        let before = self.ledger.bound(cgroup.0);
        let binding = match before {
            Some(bound) => bound.managed.binding,
            None => self.ledger.free_binding().ok_or(EnforcerError::Full {
                what: "container",
                limit: MAX_BINDINGS,
            })?,
        };
        let adopt_before = match (adoption, before) {
            // While there was no profile, the hooks may have been off and no child got its parent's label.
            (_, Some(bound)) if bound.managed.adopt_before != 0 && bound.slot != SLOT_NONE => {
                bound.managed.adopt_before
            }
            (Adoption::Running, _) => raw::boot_time(),
            (Adoption::AtExec, _) => 0,
        };
        let managed = Managed {
            binding,
            kind: MANAGED_CONTAINER,
            adopt_before,
        };
        if before.is_none() {
            self.tables.clear_aliases(binding)?;
        }
        // The binding first: a task must never find a label whose binding says nothing.
        self.tables.set_binding(
            binding,
            Binding {
                cgroup: cgroup.0,
                slot,
                _pad: 0,
            },
        )?;
        self.tables.set_managed(cgroup.0, managed)?;
        self.ledger.set_bound(cgroup.0, Bound { managed, slot });
        Ok(())
    }

    fn release(&mut self, cgroup: CgroupId) -> Result<(), EnforcerError> {
        let _held = self.change()?;
        let Some(bound) = self.ledger.bound(cgroup.0) else {
            return Ok(());
        };
        if self.cgroup_exists(cgroup.0) {
            let slot = SLOT_NONE;
            self.tables.set_binding(
                bound.managed.binding,
                Binding {
                    cgroup: cgroup.0,
                    slot,
                    _pad: 0,
                },
            )?;
            self.ledger.set_bound(cgroup.0, Bound { slot, ..bound });
            return Ok(());
        }
        // Tasks that left the cgroup before it was removed keep a label whose binding is nobody's: denied.
        self.tables.remove_managed(cgroup.0)?;
        self.ledger.remove_bound(cgroup.0);
        self.tables.set_binding(bound.managed.binding, Binding::default())
    }

    fn bindings(&self) -> Result<Vec<(CgroupId, Option<String>)>, EnforcerError> {
        let ledger = self.ledger()?;
        let name = |slot| ledger.profile_in(slot).map(|named| named.name.clone());
        Ok(ledger
            .managed()
            .map(|(cgroup, bound)| (CgroupId(cgroup), name(bound.slot)))
            .collect())
    }

    fn is_bound(&self, cgroup: CgroupId) -> Result<bool, EnforcerError> {
        Ok(self.ledger()?.bound(cgroup.0).is_some())
    }

    fn profiles(&self) -> Result<Vec<LoadedProfile>, EnforcerError> {
        let ledger = self.ledger()?;
        let loaded = |named: &Named| LoadedProfile {
            name: named.name.clone(),
            slot: named.slot,
            generation: named.generation,
            rules: named.rules as usize,
            unsupported: self
                .explanations
                .newest(named.slot)
                .map(|explanation| explanation.unsupported.clone())
                .unwrap_or_default(),
        };
        Ok(ledger.profiles().map(loaded).collect())
    }

    fn drain(&mut self, sink: &mut dyn FnMut(KernelEvent)) -> Result<(), EnforcerError> {
        // A container may write events faster than they are read: a round ends after a ring's worth of them.
        for _ in 0..EVENTS_PER_ROUND {
            let Some(item) = self.events.next() else { break };
            match raw::event(&item) {
                Some(event) => sink(event),
                None => {
                    return Err(EnforcerError::kernel(
                        "read an event",
                        format!("it has {} bytes", item.len()),
                    ));
                }
            }
        }
        Ok(())
    }

    fn repetitions(&mut self, sink: &mut dyn FnMut(u64, u64)) -> Result<(), EnforcerError> {
        self.activity.repetitions(sink)
    }

    fn activity(&self) -> Result<Vec<Activity>, EnforcerError> {
        self.activity.read(&self.ledger, &self.explanations)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.events.as_raw_fd() >= 0).then(|| self.events.as_fd())
    }

    fn resolve(&self, event: &RawEvent) -> Resolution {
        let Some(explanation) = self.explanations.get(event.slot, event.generation) else {
            return Resolution {
                profile: self.ledger.profile_in(event.slot).map(|named| named.name.clone()),
                ..Resolution::default()
            };
        };
        let decided = explanation.decided_by(event.domain, event.site, event.requested);
        // A fault is decided by no rule, and not by the default either.
        let decided = decided.filter(|_| event.action != ACTION_FAULT);
        let (rule, origin) = decided.unzip();
        Resolution {
            profile: Some(explanation.profile.clone()),
            rule,
            origin,
        }
    }

    fn counters(&self) -> Result<Counters, EnforcerError> {
        self.tables.counters()
    }

    fn hooks(&self) -> Vec<HookState> {
        attachment::states(&self.object, &self.pins)
    }
}
