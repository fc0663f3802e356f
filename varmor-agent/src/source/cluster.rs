//! The `ArmorProfile`s of a cluster as the source of policies.
//!
//! What was in force before a restart is in force again at once: an API server that cannot be reached then must not
//! leave containers without a policy.

mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch::Receiver;
use varmor_common::profile::NodeFacts;

use self::watch::Object;
pub use self::watch::{Access, Listing, connect, watch};
use super::Scan;
use super::catalog::Catalog;
use super::last_good::LastGood;
use super::reading;

/// The objects and what was read of them.
#[derive(Debug)]
pub struct Cluster {
    listing: Receiver<Listing>,
    catalog: Catalog,
    last_good: LastGood,
    /// Those that the catalog has.
    objects: Arc<BTreeMap<String, Object>>,
    synced: Option<u64>,
    was_restored: bool,
}

impl Cluster {
    #[must_use]
    pub fn new(listing: Receiver<Listing>, state_dir: &Path, facts: NodeFacts) -> Self {
        Self {
            listing,
            catalog: Catalog::with(reading::of_armor_profile, facts),
            last_good: LastGood::new(state_dir.join("last-good-profiles")),
            objects: Arc::default(),
            synced: None,
            was_restored: false,
        }
    }

    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The state of the cluster that the catalog has; `None` before the first list.
    #[must_use]
    pub fn synced(&self) -> Option<u64> {
        self.synced
    }

    /// Why there is no connection now.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.listing.borrow().problem.clone()
    }

    /// Uid and generation of the object that the catalog calls so.
    #[must_use]
    pub fn identity(&self, name: &str) -> Option<(&str, i64)> {
        let object = self.objects.get(name)?;
        Some((object.uid.as_str(), object.generation))
    }

    pub(super) fn scan(&mut self) -> Scan {
        let mut changed = Vec::new();
        if !self.was_restored {
            self.was_restored = true;
            let kept = self.last_good.all();
            changed = self
                .catalog
                .update(kept.map(|(file, text)| (name_of(&file), Ok(text))).collect());
            self.catalog.take_unsaved();
        }
        let listing = self.listing.borrow_and_update().clone();
        if listing.objects.is_none() && changed.is_empty() {
            return Scan {
                unread: self.synced.is_none() && self.catalog.objects().next().is_none(),
                ..Scan::default()
            };
        }
        if let Some(objects) = listing.objects {
            // Their removal was told after the last scan.
            self.catalog.forget_removed();
            let texts = objects
                .iter()
                .map(|(name, object)| (name.clone(), Ok(object.json.to_vec())));
            for name in self.catalog.update(texts.collect()) {
                if !changed.contains(&name) {
                    changed.push(name);
                }
            }
            let unsaved = self.catalog.take_unsaved().into_iter();
            self.last_good
                .keep(unsaved.map(|(name, text)| (file_of(&name), text)).collect());
            for name in changed.iter().filter(|name| !objects.contains_key(*name)) {
                self.last_good.forget(&file_of(name));
            }
            self.objects = objects;
            self.synced = Some(listing.synced);
        }
        Scan {
            changed,
            ..Scan::default()
        }
    }
}

/// `namespace/name` as the name of a file: neither part has an underscore.
fn file_of(name: &str) -> String {
    format!("{}.json", name.replace('/', "_"))
}

fn name_of(file: &str) -> String {
    file.trim_end_matches(".json").replace('_', "/")
}

#[cfg(test)]
mod tests;
