//! What the programs counted: per profile, per rule, and repetitions of events.

use std::collections::BTreeMap;

use aya::maps::{Array, HashMap, Map, MapData, MapError};
use varmor_common::abi::{HitKey, Hits, REPEAT_WINDOW, Recent, SlotCounts};

use super::super::{Activity, EnforcerError};
use super::explain::Explanations;
use super::ledger::Ledger;
use super::pins::Pins;
use super::raw::{Shared, monotonic_time};

/// The maps that programs count in.
pub(super) struct Counts {
    slots: Array<MapData, Shared<SlotCounts>>,
    hits: HashMap<MapData, Shared<HitKey>, Shared<Hits>>,
    recent: HashMap<MapData, u64, Shared<Recent>>,
}

fn failed(operation: &'static str) -> impl FnOnce(MapError) -> EnforcerError {
    move |error| EnforcerError::kernel(operation, error)
}

impl Counts {
    pub(super) fn open(pins: &Pins) -> Result<Self, EnforcerError> {
        let data = |name| MapData::from_pin(pins.map(name)).map_err(failed("open the counters"));
        Ok(Self {
            slots: Map::Array(data("SLOT_COUNTS")?)
                .try_into()
                .map_err(failed("open the counters of profiles"))?,
            hits: Map::HashMap(data("HITS")?)
                .try_into()
                .map_err(failed("open the counters of rules"))?,
            recent: Map::LruHashMap(data("RECENT")?)
                .try_into()
                .map_err(failed("open the memory of events"))?,
        })
    }

    /// The numbers of all loaded profiles.
    pub(super) fn read(
        &self,
        ledger: &Ledger,
        explanations: &Explanations,
    ) -> Result<Vec<Activity>, EnforcerError> {
        let mut by_slot: BTreeMap<u32, BTreeMap<String, u64>> = BTreeMap::new();
        for entry in &self.hits {
            let (key, hits) = entry.map_err(failed("read the counters of rules"))?;
            let Some(explanation) = explanations.get(key.0.slot, key.0.generation) else {
                continue;
            };
            let rule = explanation
                .decided_by(key.0.domain, key.0.site, key.0.requested)
                .map_or_else(|| "none".to_owned(), |(id, _)| id);
            *by_slot.entry(key.0.slot).or_default().entry(rule).or_default() += hits.0.count;
        }
        let mut all = Vec::new();
        for named in ledger.profiles() {
            let counts = self
                .slots
                .get(&named.slot, 0)
                .map_err(failed("read the counters of profiles"))?
                .0;
            let mut hits: Vec<(String, u64)> = by_slot
                .remove(&named.slot)
                .unwrap_or_default()
                .into_iter()
                .collect();
            hits.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            all.push(Activity {
                profile: named.name.clone(),
                denied: counts.denied,
                audited: counts.audited,
                lost: counts.lost,
                limited: counts.limited,
                repeated: counts.repeated,
                hits,
            });
        }
        Ok(all)
    }

    /// Forgets the rules of versions that nobody can explain any more.
    pub(super) fn forget_unexplained(&mut self, explanations: &Explanations) {
        let is_old = |key: &Shared<HitKey>| explanations.get(key.0.slot, key.0.generation).is_none();
        let old: Vec<_> = self.hits.keys().filter_map(Result::ok).filter(is_old).collect();
        self.remove(&old);
    }

    /// Forgets a profile that was removed: its slot will be another one's.
    pub(super) fn clear(&mut self, slot: u32) -> Result<(), EnforcerError> {
        let old: Vec<Shared<HitKey>> = self
            .hits
            .keys()
            .filter_map(Result::ok)
            .filter(|key| key.0.slot == slot)
            .collect();
        self.remove(&old);
        self.slots
            .set(slot, Shared(SlotCounts::default()), 0)
            .map_err(failed("clear the counters of a profile"))
    }

    /// Identities whose window is over, and how often each was repeated after its last event.
    pub(super) fn repetitions(&mut self, sink: &mut dyn FnMut(u64, u64)) -> Result<(), EnforcerError> {
        let now = monotonic_time();
        let mut over = Vec::new();
        for entry in &self.recent {
            let (identity, recent) = entry.map_err(failed("read the memory of events"))?;
            if now.saturating_sub(recent.0.since) >= REPEAT_WINDOW {
                over.push((identity, recent.0.repeated));
            }
        }
        for (identity, repeated) in over {
            // It may have made room for another one meanwhile.
            let _ = self.recent.remove(&identity);
            if repeated > 0 {
                sink(identity, repeated);
            }
        }
        Ok(())
    }

    fn remove(&mut self, keys: &[Shared<HitKey>]) {
        for key in keys {
            // Gone already is what was wanted.
            let _ = self.hits.remove(key);
        }
    }
}
