//! Which profile is in which slot: a pinned map of our own, so that another agent process knows it too.

use aya::maps::{HashMap, MapData};
use varmor_common::abi::MAX_SLOTS;
use varmor_common::compile::bpf::{self, HookGroups, TargetKeys};
use varmor_common::profile::Profile;

use super::super::EnforcerError;
use super::pins::Pins;

const PIN: &str = "PROFILE_NAMES";
/// Longest profile name, in bytes; merged names of several policies are long.
const NAME_BYTES: usize = 1008;

/// Bytes before the name: generation, rules, hook groups, padding, keys of the target groups.
const HEAD: usize = KEYS + size_of::<TargetKeys>();
const KEYS: usize = 16;

/// Value layout: the head, then the name padded with zeros.
type Record = [u8; HEAD + NAME_BYTES];

pub(super) struct Names {
    map: HashMap<MapData, u32, Record>,
}

/// What is in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) slot: u32,
    pub(super) generation: u32,
    pub(super) rules: u32,
    /// Which target group each bit of a running task's domain stands for.
    pub(super) targets: TargetKeys,
    /// Hooks that the profile needs.
    pub(super) groups: HookGroups,
    pub(super) name: String,
}

impl Names {
    pub(super) fn create(pins: &Pins) -> Result<(), EnforcerError> {
        let map: HashMap<MapData, u32, Record> = HashMap::create(MAX_SLOTS, 1)
            .map_err(|error| EnforcerError::kernel("create the table of profile names", error))?;
        map.pin(pins.map(PIN))
            .map_err(|error| EnforcerError::kernel("pin the table of profile names", error))
    }

    pub(super) fn open(pins: &Pins) -> Result<Self, EnforcerError> {
        let data = MapData::from_pin(pins.map(PIN))
            .map_err(|error| EnforcerError::kernel("open the table of profile names", error))?;
        let map = aya::maps::Map::HashMap(data)
            .try_into()
            .map_err(|error| EnforcerError::kernel("open the table of profile names", error))?;
        Ok(Self { map })
    }

    pub(super) fn all(&self) -> Result<Vec<Named>, EnforcerError> {
        let mut all = Vec::new();
        for entry in &self.map {
            let (slot, record) =
                entry.map_err(|error| EnforcerError::kernel("list the profile names", error))?;
            all.push(decode(slot, &record));
        }
        all.sort_unstable_by_key(|named| named.slot);
        Ok(all)
    }

    pub(super) fn set(&mut self, named: &Named) -> Result<(), EnforcerError> {
        let bytes = named.name.as_bytes();
        if bytes.len() > NAME_BYTES {
            return Err(EnforcerError::TooLarge {
                profile: named.name.clone(),
                reason: format!("its name has {} bytes, at most {NAME_BYTES} fit", bytes.len()),
            });
        }
        let mut record = [0; HEAD + NAME_BYTES];
        record[..4].copy_from_slice(&named.generation.to_ne_bytes());
        record[4..8].copy_from_slice(&named.rules.to_ne_bytes());
        record[8..12].copy_from_slice(&named.groups.0.to_ne_bytes());
        for (place, key) in record[KEYS..HEAD].chunks_exact_mut(8).zip(named.targets) {
            place.copy_from_slice(&key.to_ne_bytes());
        }
        record[HEAD..HEAD + bytes.len()].copy_from_slice(bytes);
        self.map
            .insert(named.slot, record, 0)
            .map_err(|error| EnforcerError::kernel("write a profile name", error))
    }

    pub(super) fn remove(&mut self, slot: u32) -> Result<(), EnforcerError> {
        self.map
            .remove(&slot)
            .map_err(|error| EnforcerError::kernel("remove a profile name", error))
    }
}

/// What the bits of target groups stood for before `profile` is applied: in its own last version; for a new profile,
/// where they stand in others that have the same groups, because a container whose policies are joined moves from one
/// profile to another with its tasks.
pub(super) fn target_keys(all: &[Named], profile: &Profile) -> TargetKeys {
    match all.iter().find(|named| named.name == profile.name) {
        Some(named) => named.targets,
        None => bpf::inherited_keys(profile, all.iter().map(|named| &named.targets)),
    }
}

fn decode(slot: u32, record: &Record) -> Named {
    let number = |at: usize| u32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
    let mut targets = TargetKeys::default();
    for (key, place) in targets.iter_mut().zip(record[KEYS..HEAD].as_chunks().0) {
        *key = u64::from_ne_bytes(*place);
    }
    let name = &record[HEAD..];
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Named {
        slot,
        generation: number(0),
        rules: number(4),
        targets,
        groups: HookGroups(number(8)),
        name: String::from_utf8_lossy(&name[..end]).into_owned(),
    }
}
