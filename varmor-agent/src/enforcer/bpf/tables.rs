//! The kernel's tables: typed handles on the pinned maps, and the swap of one compiled profile for another.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;

use aya::maps::{Array, ArrayOfMaps, HashMap, Map, MapData, PerCpuArray};
use varmor_common::abi::{
    Binding, COUNTER_AUDITED, COUNTER_DENIED, COUNTER_FAULTS, COUNTER_LOST, Descriptor, FAULTS, GlobRow,
    MAX_ARTEFACTS, MAX_SLOTS, Managed, NetRow, NetTest, Point, PointKey, SETTING_ABSENT, SETTING_ADOPT,
    SETTING_AGENT, SETTING_EVENT_BURST, SETTING_EVENT_INTERVAL, SETTING_WRITES, SLOT_NONE, State, Transition,
};
use varmor_common::compile::bpf::Artefact;

use super::super::{Counters, EnforcerError};
use super::own::Own;
use super::pins::Pins;
use super::raw::{Shared, delete_element};

/// `BPF_F_NO_PREALLOC`.
const NO_PREALLOC: u32 = 1;
/// `BPF_F_INNER_MAP`: arrays of different length may stand in one outer map (5.10).
const INNER_MAP: u32 = 1 << 12;

const FAULT_NAMES: [&str; FAULTS as usize] = [
    "none",
    "depth",
    "detached mount",
    "disconnected",
    "unreadable",
    "table",
    "orphan",
    "label",
    "length",
    "mounts",
    "no agent",
];

/// All maps that user space writes or reads.
pub(super) struct Tables {
    cgroups: HashMap<MapData, u64, Shared<Managed>>,
    bindings: Array<MapData, Shared<Binding>>,
    slots: Array<MapData, u32>,
    settings: Array<MapData, u32>,
    aliased: Array<MapData, u32>,
    counters: PerCpuArray<MapData, u64>,
    descriptors: ArrayOfMaps<MapData, Array<MapData, Shared<Descriptor>>>,
    states: ArrayOfMaps<MapData, Array<MapData, Shared<State>>>,
    transitions: ArrayOfMaps<MapData, HashMap<MapData, Shared<Transition>, u32>>,
    component_globs: ArrayOfMaps<MapData, Array<MapData, Shared<GlobRow>>>,
    mount_sources: ArrayOfMaps<MapData, Array<MapData, Shared<GlobRow>>>,
    points: ArrayOfMaps<MapData, HashMap<MapData, Shared<PointKey>, Shared<Point>>>,
    net_rows: ArrayOfMaps<MapData, Array<MapData, Shared<NetRow>>>,
    net_tests: ArrayOfMaps<MapData, Array<MapData, Shared<NetTest>>>,
    /// Outer maps again, by descriptor, for deletions.
    outer: Vec<MapData>,
    /// By slot: the indexes that it uses, as far as they are known.
    owned: BTreeMap<u32, Vec<u32>>,
    own: Own,
}

fn failed<E>(operation: &'static str) -> impl FnOnce(E) -> EnforcerError
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    move |error| EnforcerError::kernel(operation, error)
}

fn data(pins: &Pins, name: &str) -> Result<MapData, EnforcerError> {
    MapData::from_pin(pins.map(name))
        .map_err(|error| EnforcerError::kernel(format!("open map `{name}`"), error))
}

macro_rules! open {
    ($pins:expr, $variant:ident, $name:literal) => {
        Map::$variant(data($pins, $name)?)
            .try_into()
            .map_err(|error| EnforcerError::kernel(concat!("open map `", $name, "`"), error))?
    };
}

impl Tables {
    pub(super) fn open(pins: &Pins) -> Result<Self, EnforcerError> {
        let outer_names = [
            "DESCRIPTORS",
            "STATES",
            "TRANSITIONS",
            "COMPONENT_GLOBS",
            "MOUNT_SOURCES",
            "POINTS",
            "NET_ROWS",
            "NET_TESTS",
        ];
        Ok(Self {
            cgroups: open!(pins, HashMap, "CGROUPS"),
            bindings: open!(pins, Array, "BINDINGS"),
            slots: open!(pins, Array, "SLOTS"),
            settings: open!(pins, Array, "SETTINGS"),
            aliased: open!(pins, Array, "ALIASED"),
            counters: open!(pins, PerCpuArray, "COUNTERS"),
            descriptors: open!(pins, ArrayOfMaps, "DESCRIPTORS"),
            states: open!(pins, ArrayOfMaps, "STATES"),
            transitions: open!(pins, ArrayOfMaps, "TRANSITIONS"),
            component_globs: open!(pins, ArrayOfMaps, "COMPONENT_GLOBS"),
            mount_sources: open!(pins, ArrayOfMaps, "MOUNT_SOURCES"),
            points: open!(pins, ArrayOfMaps, "POINTS"),
            own: Own::open(pins)?,
            net_rows: open!(pins, ArrayOfMaps, "NET_ROWS"),
            net_tests: open!(pins, ArrayOfMaps, "NET_TESTS"),
            outer: outer_names
                .iter()
                .map(|name| data(pins, name))
                .collect::<Result<_, _>>()?,
            owned: BTreeMap::new(),
        })
    }

    /// Puts an artefact into the unused indexes, one for itself and one for each of its domains, and points the slot
    /// at it. From the one write of the slot on every task of the slot is judged by the new version; before it, by
    /// the old one, whole.
    pub(super) fn swap(
        &mut self,
        slot: u32,
        indexes: &[u32],
        artefact: &Artefact,
    ) -> Result<(), EnforcerError> {
        let previous = self.owned(slot)?;
        let descriptor = self
            .fill_all(indexes, artefact)
            .inspect_err(|_| self.drop_artefacts(indexes))?;
        self.slots
            .set(slot, indexes[0], 0)
            .map_err(failed("point the profile's slot at its tables"))?;
        // Programs that started before the write may still use the old tables. The kernel waits for all of them
        // in an update of a map of maps (`maybe_wait_bpf_programs`), so repeat one that changes nothing.
        self.descriptors
            .set(indexes[0], &descriptor, 0)
            .map_err(failed("wait for running programs"))?;
        self.drop_artefacts(&previous);
        self.owned.insert(slot, indexes.to_vec());
        Ok(())
    }

    /// Empties a slot: its tasks are free.
    pub(super) fn clear(&mut self, slot: u32) -> Result<(), EnforcerError> {
        let previous = self.owned(slot)?;
        self.slots
            .set(slot, 0, 0)
            .map_err(failed("empty the profile's slot"))?;
        if let Some(&index) = previous.first() {
            if let Ok(descriptor) = self.descriptors.get(&index, 0) {
                self.descriptors
                    .set(index, &descriptor, 0)
                    .map_err(failed("wait for running programs"))?;
            }
            self.drop_artefacts(&previous);
        }
        self.owned.remove(&slot);
        Ok(())
    }

    /// Indexes that no slot uses, as many as the artefact and its domains need.
    pub(super) fn free_indexes(
        &mut self,
        slots: impl Iterator<Item = u32>,
        artefact: &Artefact,
    ) -> Result<Vec<u32>, EnforcerError> {
        let mut used = Vec::new();
        for slot in slots {
            used.extend(self.owned(slot)?);
        }
        used.sort_unstable();
        let count = 1 + artefact.domains.len();
        let free = (1..MAX_ARTEFACTS).filter(|index| used.binary_search(index).is_err());
        let indexes: Vec<u32> = free.take(count).collect();
        if indexes.len() < count {
            return Err(EnforcerError::Full {
                what: "compiled profile",
                limit: MAX_ARTEFACTS,
            });
        }
        Ok(indexes)
    }

    /// The indexes that a slot uses: that of its profile first, then those of the domains. What is in the kernel is the
    /// truth; it is read again when the slot is not as this process left it.
    pub(super) fn owned(&mut self, slot: u32) -> Result<Vec<u32>, EnforcerError> {
        let index = self.artefact_of(slot)?;
        if index == 0 {
            return Ok(Vec::new());
        }
        if let Some(owned) = self.owned.get(&slot)
            && owned.first() == Some(&index)
        {
            return Ok(owned.clone());
        }
        let descriptor = self
            .descriptors
            .get(&index, 0)
            .and_then(|table| table.get(&0, 0))
            .map_err(failed("read the descriptor of a profile"))?;
        let domains: BTreeSet<u32> = descriptor
            .0
            .domains
            .into_iter()
            .filter(|index| *index != 0)
            .collect();
        let owned: Vec<u32> = std::iter::once(index).chain(domains).collect();
        self.owned.insert(slot, owned.clone());
        Ok(owned)
    }

    fn artefact_of(&self, slot: u32) -> Result<u32, EnforcerError> {
        self.slots
            .get(&slot, 0)
            .map_err(failed("read the profile's slot"))
    }

    /// Fills the domains' tables and then the profile's own, whose descriptor names the others.
    fn fill_all(
        &mut self,
        indexes: &[u32],
        artefact: &Artefact,
    ) -> Result<Array<MapData, Shared<Descriptor>>, EnforcerError> {
        let mut base = artefact.descriptor.clone();
        for ((_, domain), &index) in artefact.domains.iter().zip(&indexes[1..]) {
            let descriptor = Descriptor {
                slot: base.slot,
                generation: base.generation,
                ..*domain.descriptor
            };
            self.fill(index, domain, &descriptor)?;
        }
        let live = artefact.target_mask();
        for (place, set) in base.domains.iter_mut().zip(0..) {
            let domains = artefact.domains.iter().zip(&indexes[1..]);
            let mut found = domains.filter(|((mask, _), _)| *mask == set & live);
            *place = found.next().map_or(0, |(_, index)| *index);
        }
        self.fill(indexes[0], artefact, &base)
    }

    fn fill(
        &mut self,
        index: u32,
        artefact: &Artefact,
        descriptor: &Descriptor,
    ) -> Result<Array<MapData, Shared<Descriptor>>, EnforcerError> {
        let states = rows(&artefact.states, "states")?;
        let component_globs = rows(&artefact.component_globs, "name globs")?;
        let mount_sources = rows(&artefact.mount_sources, "mount sources")?;
        let transitions = pairs(
            artefact
                .transitions
                .iter()
                .map(|(key, next)| (Shared(*key), *next)),
            "transitions",
        )?;
        let points = pairs(
            artefact
                .points
                .iter()
                .map(|(key, point)| (Shared(*key), Shared(*point))),
            "points",
        )?;
        let net_rows = rows(&artefact.net_rows, "network rows")?;
        let net_tests = rows(&artefact.net_tests, "network tests")?;
        let descriptor = rows(std::slice::from_ref(descriptor), "descriptor")?;
        // Each of these waits for all running programs; together they wait once.
        std::thread::scope(|scope| {
            let published = [
                scope.spawn(|| self.states.set(index, &states, 0)),
                scope.spawn(|| self.transitions.set(index, &transitions, 0)),
                scope.spawn(|| self.component_globs.set(index, &component_globs, 0)),
                scope.spawn(|| self.mount_sources.set(index, &mount_sources, 0)),
                scope.spawn(|| self.points.set(index, &points, 0)),
                scope.spawn(|| self.net_rows.set(index, &net_rows, 0)),
                scope.spawn(|| self.net_tests.set(index, &net_tests, 0)),
                scope.spawn(|| self.descriptors.set(index, &descriptor, 0)),
            ];
            for thread in published {
                thread
                    .join()
                    .map_err(|_| EnforcerError::kernel("publish the profile's tables", "a thread panicked"))?
                    .map_err(failed("publish the profile's tables"))?;
            }
            Ok::<_, EnforcerError>(())
        })?;
        for outer in &self.outer {
            self.own.seal(outer, index)?;
        }
        Ok(descriptor)
    }

    /// Forgets the tables of indexes that no slot points at any more.
    fn drop_artefacts(&mut self, indexes: &[u32]) {
        for &index in indexes {
            for map in &self.outer {
                self.own.strike(map, index);
            }
        }
        // As in `fill`: each deletion waits.
        std::thread::scope(|scope| {
            for &index in indexes {
                for map in &self.outer {
                    // An index that is empty already is what was wanted.
                    scope.spawn(move || delete_element(map.fd().as_fd(), index));
                }
            }
        });
    }

    /// Puts right what a writer left that was killed between two writes: slots that nobody can name, tables that no
    /// slot points at. `names` are the slots of the named profiles, `unfinished` the indexes that the writer noted; the
    /// result are those of the names that are empty.
    pub(super) fn repair(&mut self, names: &[u32], unfinished: &[u32]) -> Result<Vec<u32>, EnforcerError> {
        let mut used = Vec::new();
        let mut empty = Vec::new();
        for slot in SLOT_NONE + 1..MAX_SLOTS {
            let index = self.artefact_of(slot)?;
            if index == 0 && names.contains(&slot) {
                empty.push(slot);
            } else if index != 0 && !names.contains(&slot) {
                self.clear(slot)?;
            } else if index != 0 {
                used.extend(self.owned(slot)?);
            }
        }
        let forgotten: Vec<u32> = unfinished
            .iter()
            .copied()
            .filter(|index| (1..MAX_ARTEFACTS).contains(index) && !used.contains(index))
            .collect();
        self.drop_artefacts(&forgotten);
        Ok(empty)
    }

    /// The generation that is in force in a slot.
    pub(super) fn generation_of(&self, slot: u32) -> Result<u32, EnforcerError> {
        let index = self.artefact_of(slot)?;
        let descriptor = self
            .descriptors
            .get(&index, 0)
            .map_err(failed("read a descriptor"))?;
        descriptor
            .get(&0, 0)
            .map(|descriptor| descriptor.0.generation)
            .map_err(failed("read a descriptor"))
    }

    /// Sets how many events each profile may write in a second and at once.
    pub(super) fn limit_events(&mut self, per_second: u32, burst: u32) -> Result<(), EnforcerError> {
        let interval = 1_000_000_000_u32.checked_div(per_second).unwrap_or(0);
        self.settings
            .set(SETTING_EVENT_INTERVAL, interval, 0)
            .and_then(|()| self.settings.set(SETTING_EVENT_BURST, burst, 0))
            .map_err(failed("write the settings"))
    }

    /// How often user space has changed the maps.
    pub(super) fn writes(&self) -> Result<u32, EnforcerError> {
        self.settings
            .get(&SETTING_WRITES, 0)
            .map_err(failed("read the settings"))
    }

    pub(super) fn set_writes(&mut self, writes: u32) -> Result<(), EnforcerError> {
        self.settings
            .set(SETTING_WRITES, writes, 0)
            .map_err(failed("write the settings"))
    }

    /// Lists all pinned objects as the enforcer's own.
    pub(super) fn list_own(&mut self, pins: &Pins) -> Result<(), EnforcerError> {
        self.own.list_pinned(pins)
    }

    /// Says which process protected tasks may not touch.
    pub(super) fn set_agent(&mut self, process: u32) -> Result<(), EnforcerError> {
        self.settings
            .set(SETTING_AGENT, process, 0)
            .map_err(failed("write the settings"))
    }

    /// Says what happens to a start without an agent.
    pub(super) fn set_absent(&mut self, goes_on: bool) -> Result<(), EnforcerError> {
        self.settings
            .set(SETTING_ABSENT, u32::from(goes_on), 0)
            .map_err(failed("write the settings"))
    }

    /// The objects of the binding's next container have one name each.
    pub(super) fn clear_aliases(&mut self, binding: u32) -> Result<(), EnforcerError> {
        self.aliased
            .set(binding, 0, 0)
            .map_err(failed("clear the note of aliases"))
    }

    pub(super) fn managed(&self) -> Result<BTreeMap<u64, Managed>, EnforcerError> {
        self.cgroups
            .iter()
            .map(|entry| entry.map(|(cgroup, managed)| (cgroup, managed.0)))
            .collect::<Result<_, _>>()
            .map_err(failed("list managed cgroups"))
    }

    pub(super) fn set_managed(&mut self, cgroup: u64, managed: Managed) -> Result<(), EnforcerError> {
        if managed.adopt_before != 0 {
            self.settings
                .set(SETTING_ADOPT, 1, 0)
                .map_err(failed("turn on adoption"))?;
        }
        self.cgroups
            .insert(cgroup, Shared(managed), 0)
            .map_err(failed("write a managed cgroup"))
    }

    pub(super) fn remove_managed(&mut self, cgroup: u64) -> Result<(), EnforcerError> {
        self.cgroups
            .remove(&cgroup)
            .map_err(failed("remove a managed cgroup"))
    }

    pub(super) fn binding(&self, index: u32) -> Result<Binding, EnforcerError> {
        self.bindings
            .get(&index, 0)
            .map(|binding| binding.0)
            .map_err(failed("read a binding"))
    }

    pub(super) fn set_binding(&mut self, index: u32, binding: Binding) -> Result<(), EnforcerError> {
        self.bindings
            .set(index, Shared(binding), 0)
            .map_err(failed("write a binding"))
    }

    pub(super) fn counters(&self) -> Result<Counters, EnforcerError> {
        let sum = |index: u32| -> Result<u64, EnforcerError> {
            let values = self.counters.get(&index, 0).map_err(failed("read counters"))?;
            Ok(values.iter().sum())
        };
        let mut faults = Vec::new();
        for (reason, name) in (0..FAULTS).zip(FAULT_NAMES) {
            let count = sum(COUNTER_FAULTS + reason)?;
            if count != 0 {
                faults.push((name.to_owned(), count));
            }
        }
        Ok(Counters {
            denied: sum(COUNTER_DENIED)?,
            audited: sum(COUNTER_AUDITED)?,
            lost: sum(COUNTER_LOST)?,
            faults,
            labelled_tasks: None,
        })
    }
}

fn length(of: usize, what: &'static str) -> Result<u32, EnforcerError> {
    u32::try_from(of.max(1)).map_err(|_| EnforcerError::Full {
        what,
        limit: u32::MAX,
    })
}

/// An array map with these elements; the kernel has no empty arrays, so an empty one gets a zero row.
fn rows<T: Copy>(elements: &[T], what: &'static str) -> Result<Array<MapData, Shared<T>>, EnforcerError>
where
    Shared<T>: aya::Pod,
{
    let mut map = Array::create(length(elements.len(), what)?, INNER_MAP)
        .map_err(|error| EnforcerError::kernel(format!("create the table of {what}"), error))?;
    for (index, element) in (0..).zip(elements) {
        map.set(index, Shared(*element), 0)
            .map_err(|error| EnforcerError::kernel(format!("fill the table of {what}"), error))?;
    }
    Ok(map)
}

fn pairs<K: aya::Pod, V: aya::Pod>(
    elements: impl ExactSizeIterator<Item = (K, V)>,
    what: &'static str,
) -> Result<HashMap<MapData, K, V>, EnforcerError> {
    let mut map = HashMap::create(length(elements.len(), what)?, NO_PREALLOC)
        .map_err(|error| EnforcerError::kernel(format!("create the table of {what}"), error))?;
    for (key, value) in elements {
        map.insert(key, value, 0)
            .map_err(|error| EnforcerError::kernel(format!("fill the table of {what}"), error))?;
    }
    Ok(map)
}
