//! The list of the enforcer's own kernel objects, which the programs keep protected tasks away from.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use aya::maps::{HashMap, Map, MapData, MapInfo};
use aya::programs::ProgramInfo;
use aya::programs::links::PinnedLink;
use varmor_common::abi::{OWN_FOLDER, OWN_LINK, OWN_MAP, OWN_PROGRAM, own_key};

use super::super::EnforcerError;
use super::pins::Pins;
use super::raw::{freeze, inner_map_id};

/// `AlreadyThere` is no error: the list says what is ours, not how often.
const ANY: u64 = 0;

pub(super) struct Own {
    list: HashMap<MapData, u64, u32>,
}

impl Own {
    pub(super) fn open(pins: &Pins) -> Result<Self, EnforcerError> {
        let list = MapData::from_pin(pins.map("OWN"))
            .and_then(|data| Map::HashMap(data).try_into())
            .map_err(|error| EnforcerError::kernel("open the list of own objects", error))?;
        Ok(Self { list })
    }

    /// Lists everything that is pinned, and the constants that the programs hold. Ids are not used twice, so what is
    /// gone may stay in the list.
    pub(super) fn list_pinned(&mut self, pins: &Pins) -> Result<(), EnforcerError> {
        let failed = |error: io::Error| EnforcerError::kernel("list the pins", error);
        for folder in pins.own_folders() {
            // The numbers of the BPF filesystem have 32 bits (`get_next_ino`).
            let number = std::fs::metadata(folder).map_err(failed)?.ino() & u64::from(u32::MAX);
            self.add(OWN_FOLDER, u32::try_from(number).unwrap_or_default())?;
        }
        for name in pins.map_names().map_err(failed)? {
            let info = MapInfo::from_pin(pins.map(&name))
                .map_err(|error| EnforcerError::kernel(format!("ask for the id of map `{name}`"), error))?;
            self.add(OWN_MAP, info.id())?;
        }
        for name in pins.program_names().map_err(failed)? {
            let failed = |error| EnforcerError::kernel(format!("ask for the id of program `{name}`"), error);
            let info = ProgramInfo::from_pin(pins.program(&name)).map_err(failed)?;
            self.add(OWN_PROGRAM, info.id())?;
            // `.rodata` has no pin, and the secret of the name hash in it.
            for map in info.map_ids().map_err(failed)?.unwrap_or_default() {
                self.add(OWN_MAP, map)?;
            }
        }
        for name in pins.link_names().map_err(failed)? {
            let failed = |error| EnforcerError::kernel(format!("ask for the id of link `{name}`"), error);
            let id = PinnedLink::from_pin(pins.link(&name))
                .map(aya::programs::links::FdLink::from)
                .and_then(|link| link.info())
                .map_err(failed)?
                .id();
            self.add(OWN_LINK, id)?;
        }
        Ok(())
    }

    /// Lists the inner map at an index of an array of maps and makes it unwritable for user space: a published table
    /// never changes.
    pub(super) fn seal(&mut self, outer: &MapData, index: u32) -> Result<(), EnforcerError> {
        let id = inner_map_id(outer.fd().as_fd(), index)
            .map_err(|error| EnforcerError::kernel("ask for the id of a table", error))?;
        let Some(id) = id else { return Ok(()) };
        self.add(OWN_MAP, id)?;
        let table = MapData::from_id(id).map_err(|error| EnforcerError::kernel("open a table", error))?;
        freeze(table.fd().as_fd()).map_err(|error| EnforcerError::kernel("make a table unwritable", error))
    }

    /// Takes the inner map at an index off the list, which is about to go.
    pub(super) fn strike(&mut self, outer: &MapData, index: u32) {
        if let Ok(Some(id)) = inner_map_id(outer.fd().as_fd(), index) {
            // A table that was never listed is as good as struck off.
            let _ = self.list.remove(&own_key(OWN_MAP, id));
        }
    }

    fn add(&mut self, kind: u32, id: u32) -> Result<(), EnforcerError> {
        self.list
            .insert(own_key(kind, id), 1, ANY)
            .map_err(|error| EnforcerError::kernel("list an own object", error))
    }
}
