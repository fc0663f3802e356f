//! The BPF enforcer: the only owner of the kernel programs, their maps and their links.
//!
//! Everything that enforcement needs is pinned, so that it outlives the agent; what is in the maps is the truth,
//! and a lock keeps two agent processes (the daemon and `varmor run`) from writing at the same time.

mod names;
mod object;
mod pins;
mod raw;
mod statistics;
mod tables;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::PathBuf;

use aya::maps::{Map, MapData, RingBuf};
use aya::programs::Lsm;
use aya::programs::links::FdLink;
use varmor_common::abi::{Binding, MAX_BINDINGS, MAX_SLOTS, Managed, RawEvent, SLOT_NONE};
use varmor_common::compile::bpf::{self, Artefact, HookGroups};
use varmor_common::profile::Profile;

use self::names::{Named, Names};
use self::object::Object;
use self::pins::Pins;
use self::raw::Lock;
pub use self::statistics::{ProgramStatistics, statistics};
use self::tables::Tables;
use super::{Adoption, Applied, CgroupId, Counters, Enforcer, EnforcerError, LoadedProfile, Resolution};
use crate::kernel::IDENTITY;

/// Where the enforcer keeps its pins and its lock.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder on the BPF filesystem, made if missing.
    pub bpffs: PathBuf,
    /// Folder for the lock and the key of the name hash; on a filesystem that forgets at boot.
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
    events: RingBuf<MapData>,
    cgroups: File,
    lock: PathBuf,
    key: u64,
    start: Start,
    /// What this process compiled, for events and status: by slot.
    compiled: HashMap<u32, Vec<Compiled>>,
}

/// A compiled profile and the number of its compilation.
struct Compiled {
    generation: u32,
    profile: Profile,
    artefact: Artefact,
}

/// Compilations per slot that are kept to explain events that are still in the ring.
const KEPT_GENERATIONS: usize = 2;

/// Events that fit into the ring.
const EVENTS_PER_ROUND: usize = (4 << 20) / size_of::<RawEvent>();

/// Loads the programs, or adopts those of an earlier agent of the same build.
pub fn open(options: &Options) -> Result<BpfEnforcer, EnforcerError> {
    let object = Object::choose()?;
    let lock = options.state_dir.join("lock");
    let _held = Lock::take(&lock).map_err(|error| EnforcerError::kernel("lock the enforcer", error))?;
    let pins = Pins::of_object(&options.bpffs, object.bytes());
    let key = hash_key(&options.state_dir, pins.name())?;
    let start = if pins.is_complete() && key.existed {
        Start::Adopted
    } else {
        object.load(&pins, key.value)?;
        Names::create(&pins)?;
        pins.set_complete()
            .map_err(|error| EnforcerError::kernel("mark the pins complete", error))?;
        Start::Loaded
    };
    BpfEnforcer::attach_to(options, object, pins, key.value, start)
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

/// The secret of the name hash.
struct Key {
    value: u64,
    /// It was there before, so programs that use it may exist.
    existed: bool,
}

/// The secret is made once per boot and build, and readable by root alone: a chosen collision of names would let a
/// container name a file that an allow-list takes for another.
fn hash_key(state_dir: &std::path::Path, build: &str) -> Result<Key, EnforcerError> {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = state_dir.join(format!("key-{build}"));
    let failed = |error: std::io::Error| {
        EnforcerError::kernel(format!("keep the hash key in {}", path.display()), error)
    };
    std::fs::create_dir_all(state_dir).map_err(failed)?;
    let mut bytes = [0; 8];
    if let Ok(mut file) = File::open(&path)
        && file.read_exact(&mut bytes).is_ok()
    {
        return Ok(Key {
            value: u64::from_ne_bytes(bytes),
            existed: true,
        });
    }
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(failed)?;
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    Ok(Key {
        value: u64::from_ne_bytes(bytes),
        existed: false,
    })
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
        Ok(Self {
            tables: Tables::open(&pins)?,
            names: Names::open(&pins)?,
            events,
            cgroups: File::open("/sys/fs/cgroup")
                .map_err(|error| EnforcerError::kernel("open /sys/fs/cgroup", error))?,
            lock: options.state_dir.join("lock"),
            object,
            pins,
            key,
            start,
            compiled: HashMap::new(),
        })
    }

    /// Whether the programs were loaded by this process or adopted.
    #[must_use]
    pub fn start(&self) -> Start {
        self.start
    }

    /// Detaches and removes what agents of other versions left. Called when this version enforces everything, so
    /// that there is no moment without protection: until then both versions judge, and each can only deny.
    pub fn retire_other_versions(&self) -> Result<usize, EnforcerError> {
        let others = self
            .pins
            .others()
            .map_err(|error| EnforcerError::kernel("list old pins", error))?;
        for other in &others {
            other.remove().map_err(|error| {
                EnforcerError::kernel(format!("remove the pins of {}", other.name()), error)
            })?;
        }
        Ok(others.len())
    }

    /// Detaches everything and removes all pins of this version: nothing is enforced any more.
    pub fn uninstall(self) -> Result<(), EnforcerError> {
        let _held = self.locked()?;
        self.pins
            .remove()
            .map_err(|error| EnforcerError::kernel("remove the pins", error))
    }

    fn locked(&self) -> Result<Lock, EnforcerError> {
        Lock::take(&self.lock).map_err(|error| EnforcerError::kernel("lock the enforcer", error))
    }

    /// Attaches the programs that the groups need and that are not attached yet.
    fn attach(&self, groups: HookGroups) -> Result<(), EnforcerError> {
        let groups = groups.union(IDENTITY);
        for hook in self.object.hooks().filter(|hook| hook.groups.0 & groups.0 != 0) {
            let path = self.pins.link(hook.name);
            // A hook without a program is one that this kernel cannot attach to; `Object::load` said so.
            if path.exists() || !self.pins.program(hook.name).exists() {
                continue;
            }
            let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
                EnforcerError::kernel(format!("attach program `{}`", hook.name), error)
            };
            let mut program =
                Lsm::from_pin(self.pins.program(hook.name)).map_err(|error| failed(error.into()))?;
            let id = program.attach().map_err(|error| failed(error.into()))?;
            let link = program.take_link(id).map_err(|error| failed(error.into()))?;
            FdLink::from(link)
                .pin(&path)
                .map_err(|error| failed(error.into()))?;
        }
        Ok(())
    }

    fn named(&self, profile: &str) -> Result<Named, EnforcerError> {
        self.names
            .all()?
            .into_iter()
            .find(|named| named.name == profile)
            .ok_or_else(|| EnforcerError::UnknownProfile(profile.to_owned()))
    }

    fn cgroup_exists(&self, cgroup: u64) -> bool {
        raw::open_cgroup(self.cgroups.as_fd(), cgroup).is_ok()
    }
}

impl Enforcer for BpfEnforcer {
    fn apply(&mut self, profile: &Profile) -> Result<Applied, EnforcerError> {
        let mut artefact = bpf::compile(profile, self.key).map_err(|error| EnforcerError::TooLarge {
            profile: profile.name.clone(),
            reason: error.to_string(),
        })?;
        let _held = self.locked()?;
        let all = self.names.all()?;
        let (slot, generation) = if let Some(named) = all.iter().find(|named| named.name == profile.name) {
            (named.slot, named.generation.wrapping_add(1))
        } else {
            let free = (SLOT_NONE + 1..MAX_SLOTS).find(|slot| all.iter().all(|named| named.slot != *slot));
            let full = EnforcerError::Full {
                what: "profile",
                limit: MAX_SLOTS,
            };
            (free.ok_or(full)?, 1)
        };
        artefact.descriptor.slot = slot;
        artefact.descriptor.generation = generation;
        self.attach(artefact.hooks)?;
        let index = self.tables.free_index(all.iter().map(|named| named.slot))?;
        self.tables.swap(slot, index, &artefact)?;
        let rules = profile.rules.len();
        let record = u32::try_from(rules).unwrap_or(u32::MAX);
        self.names.set(&Named {
            slot,
            generation,
            rules: record,
            name: profile.name.clone(),
        })?;
        let unsupported = unsupported(profile, &artefact);
        let versions = self.compiled.entry(slot).or_default();
        versions.insert(
            0,
            Compiled {
                generation,
                profile: profile.clone(),
                artefact,
            },
        );
        versions.truncate(KEPT_GENERATIONS);
        Ok(Applied {
            slot,
            generation,
            rules: rules - unsupported.len(),
            unsupported,
        })
    }

    fn remove(&mut self, profile: &str) -> Result<(), EnforcerError> {
        let _held = self.locked()?;
        let named = self.named(profile)?;
        let mut bindings = 0;
        for (_, managed) in self.tables.managed()? {
            bindings += usize::from(self.tables.binding(managed.binding)?.slot == named.slot);
        }
        if bindings != 0 {
            return Err(EnforcerError::ProfileInUse {
                profile: profile.to_owned(),
                bindings,
            });
        }
        self.tables.clear(named.slot)?;
        self.compiled.remove(&named.slot);
        self.names.remove(named.slot)
    }

    fn protect(&mut self, cgroup: CgroupId, profile: &str, adoption: Adoption) -> Result<(), EnforcerError> {
        let _held = self.locked()?;
        let slot = self.named(profile)?.slot;
        if !self.cgroup_exists(cgroup.0) {
            return Err(EnforcerError::Cgroup {
                cgroup,
                reason: "it does not exist".to_owned(),
            });
        }
        let managed = self.tables.managed()?;
        let binding = if let Some(managed) = managed.get(&cgroup.0) {
            managed.binding
        } else {
            let mut used: Vec<u32> = managed.values().map(|managed| managed.binding).collect();
            used.sort_unstable();
            let free = (0..MAX_BINDINGS).find(|index| used.binary_search(index).is_err());
            free.ok_or(EnforcerError::Full {
                what: "container",
                limit: MAX_BINDINGS,
            })?
        };
        // The binding first: a task must never find a label whose binding says nothing.
        self.tables.set_binding(
            binding,
            Binding {
                cgroup: cgroup.0,
                slot,
                _pad: 0,
            },
        )?;
        let adopt_before = match (adoption, managed.get(&cgroup.0)) {
            (_, Some(managed)) if managed.adopt_before != 0 => managed.adopt_before,
            (Adoption::Running, _) => raw::boot_time(),
            (Adoption::AtExec, _) => 0,
        };
        self.tables.set_managed(
            cgroup.0,
            Managed {
                binding,
                _pad: 0,
                adopt_before,
            },
        )
    }

    fn release(&mut self, cgroup: CgroupId) -> Result<(), EnforcerError> {
        let _held = self.locked()?;
        let Some(managed) = self.tables.managed()?.get(&cgroup.0).copied() else {
            return Ok(());
        };
        if self.cgroup_exists(cgroup.0) {
            return self.tables.set_binding(
                managed.binding,
                Binding {
                    cgroup: cgroup.0,
                    slot: SLOT_NONE,
                    _pad: 0,
                },
            );
        }
        // Tasks that left the cgroup before it was removed keep a label whose binding is nobody's: denied.
        self.tables.remove_managed(cgroup.0)?;
        self.tables.set_binding(managed.binding, Binding::default())
    }

    fn bindings(&self) -> Result<Vec<(CgroupId, Option<String>)>, EnforcerError> {
        let names: HashMap<u32, String> = self
            .names
            .all()?
            .into_iter()
            .map(|named| (named.slot, named.name))
            .collect();
        let mut bindings = Vec::new();
        for (cgroup, managed) in self.tables.managed()? {
            let slot = self.tables.binding(managed.binding)?.slot;
            bindings.push((CgroupId(cgroup), names.get(&slot).cloned()));
        }
        Ok(bindings)
    }

    fn profiles(&self) -> Result<Vec<LoadedProfile>, EnforcerError> {
        let loaded = |named: Named| {
            let unsupported = self
                .compiled
                .get(&named.slot)
                .and_then(|versions| versions.first())
                .map(|compiled| unsupported(&compiled.profile, &compiled.artefact))
                .unwrap_or_default();
            LoadedProfile {
                name: named.name,
                slot: named.slot,
                generation: named.generation,
                rules: named.rules as usize,
                unsupported,
            }
        };
        Ok(self.names.all()?.into_iter().map(loaded).collect())
    }

    fn drain(&mut self, sink: &mut dyn FnMut(&RawEvent)) -> Result<(), EnforcerError> {
        // A container may write events faster than they are read: a round ends after a ring's worth of them.
        for _ in 0..EVENTS_PER_ROUND {
            let Some(item) = self.events.next() else { break };
            match raw::event(&item) {
                Some(event) => sink(&event),
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

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.events.as_raw_fd() >= 0).then(|| self.events.as_fd())
    }

    fn resolve(&self, event: &RawEvent) -> Resolution {
        let profile = self
            .names
            .all()
            .ok()
            .and_then(|all| all.into_iter().find(|named| named.slot == event.slot))
            .map(|named| named.name);
        let compiled = self.compiled.get(&event.slot).and_then(|versions| {
            versions
                .iter()
                .find(|compiled| compiled.generation == event.generation)
        });
        let Some(compiled) = compiled else {
            return Resolution {
                profile,
                ..Resolution::default()
            };
        };
        let rule = compiled
            .artefact
            .rule_at(&compiled.profile, event.site, event.requested);
        Resolution {
            profile: Some(compiled.profile.name.clone()),
            rule: rule.map(|rule| rule.id.clone()),
            origin: rule.map(|rule| rule.origin.clone()),
        }
    }

    fn counters(&self) -> Result<Counters, EnforcerError> {
        self.tables.counters()
    }
}

fn unsupported(profile: &Profile, artefact: &Artefact) -> Vec<(String, String)> {
    artefact
        .unsupported
        .iter()
        .map(|missing| {
            let id = profile
                .rules
                .get(missing.rule as usize)
                .map_or_else(String::new, |rule| rule.id.clone());
            (id, missing.reason.clone())
        })
        .collect()
}
