//! Holds the pinned objects open and puts back pins that somebody has removed.
//!
//! A pin that is removed takes no protection away while the agent lives, because the agent holds the object; it would
//! when the agent ends.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::pins::Pins;
use super::raw::{object_get, object_pin};

#[derive(Default)]
pub(super) struct Keeper {
    held: Vec<(PathBuf, OwnedFd)>,
    notes: Vec<PathBuf>,
}

impl Keeper {
    /// Opens everything that is pinned now.
    pub(super) fn open(pins: &Pins) -> io::Result<Self> {
        let mut keeper = Self {
            held: Vec::new(),
            notes: pins.notes()?,
        };
        let maps = pins.map_names()?.into_iter().map(|name| pins.map(&name));
        let programs = pins.program_names()?.into_iter().map(|name| pins.program(&name));
        let links = pins.link_names()?.into_iter().map(|name| pins.link(&name));
        for path in maps.chain(programs).chain(links) {
            let object = object_get(&path)?;
            keeper.held.push((path, object));
        }
        Ok(keeper)
    }

    /// Puts back what is not pinned any more; the number of pins that were missing.
    pub(super) fn restore(&self) -> io::Result<usize> {
        let mut missing = 0;
        for (path, object) in &self.held {
            if !path.exists() {
                make_folder(path.parent())?;
                object_pin(object.as_fd(), path)?;
                missing += 1;
            }
        }
        for note in &self.notes {
            make_folder(Some(note))?;
        }
        Ok(missing)
    }
}

fn make_folder(path: Option<&Path>) -> io::Result<()> {
    path.map_or(Ok(()), |path| {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
    })
}
