//! Which profile is in which slot: a pinned map of our own, so that another agent process knows it too.

use aya::maps::{HashMap, MapData};
use varmor_common::abi::MAX_SLOTS;
use varmor_common::compile::bpf::HookGroups;

use super::super::EnforcerError;
use super::pins::Pins;

const PIN: &str = "PROFILE_NAMES";
/// Longest profile name, in bytes; merged names of several policies are long.
const NAME_BYTES: usize = 1012;

/// Numbers before the name: generation, rules, hook groups.
const HEAD: usize = 12;
/// Value layout: the numbers, then the name padded with zeros.
type Record = [u8; NAME_BYTES + HEAD];

pub(super) struct Names {
    map: HashMap<MapData, u32, Record>,
}

/// What is in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) slot: u32,
    pub(super) generation: u32,
    pub(super) rules: u32,
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
        let mut record = [0; NAME_BYTES + HEAD];
        record[..4].copy_from_slice(&named.generation.to_ne_bytes());
        record[4..8].copy_from_slice(&named.rules.to_ne_bytes());
        record[8..HEAD].copy_from_slice(&named.groups.0.to_ne_bytes());
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

fn decode(slot: u32, record: &Record) -> Named {
    let number = |at: usize| u32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
    let name = &record[HEAD..];
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Named {
        slot,
        generation: number(0),
        rules: number(4),
        groups: HookGroups(number(8)),
        name: String::from_utf8_lossy(&name[..end]).into_owned(),
    }
}
