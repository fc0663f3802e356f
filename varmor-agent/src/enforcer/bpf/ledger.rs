//! What the pinned maps hold, in memory: so that a container more costs a few writes, however many there are.
//!
//! The maps are the truth. Each writer counts up `SETTING_WRITES`; a ledger with another number is read anew.

use std::collections::{BTreeMap, BTreeSet};

use varmor_common::abi::{MANAGED_CONTAINER, MAX_BINDINGS, MAX_SLOTS, Managed, SLOT_NONE};
use varmor_common::compile::bpf::HookGroups;

use super::super::EnforcerError;
use super::names::{Named, Names};
use super::tables::Tables;
use crate::kernel::IDENTITY;

#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// `SETTING_WRITES` when this was true.
    pub(super) writes: u32,
    profiles: BTreeMap<u32, Named>,
    slots: BTreeMap<String, u32>,
    managed: BTreeMap<u64, Bound>,
    used_bindings: BTreeSet<u32>,
    /// Cgroups without a binding: gates, and containers without a policy.
    marked: BTreeMap<u64, u32>,
}

/// A managed cgroup and the profile slot that its binding names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) managed: Managed,
    pub(super) slot: u32,
}

impl Ledger {
    pub(super) fn read(tables: &Tables, names: &Names) -> Result<Self, EnforcerError> {
        let mut ledger = Self {
            writes: tables.writes()?,
            ..Self::default()
        };
        for named in names.all()? {
            ledger.set_profile(named);
        }
        for (cgroup, managed) in tables.managed()? {
            if managed.kind != MANAGED_CONTAINER {
                ledger.marked.insert(cgroup, managed.kind);
                continue;
            }
            let slot = tables.binding(managed.binding)?.slot;
            ledger.set_bound(cgroup, Bound { managed, slot });
        }
        Ok(ledger)
    }

    pub(super) fn profiles(&self) -> impl Iterator<Item = &Named> {
        self.profiles.values()
    }

    pub(super) fn profile(&self, name: &str) -> Option<&Named> {
        self.profiles.get(self.slots.get(name)?)
    }

    pub(super) fn profile_in(&self, slot: u32) -> Option<&Named> {
        self.profiles.get(&slot)
    }

    pub(super) fn set_profile(&mut self, named: Named) {
        self.slots.insert(named.name.clone(), named.slot);
        self.profiles.insert(named.slot, named);
    }

    pub(super) fn remove_profile(&mut self, slot: u32) {
        if let Some(named) = self.profiles.remove(&slot) {
            self.slots.remove(&named.name);
        }
    }

    pub(super) fn free_slot(&self) -> Option<u32> {
        (SLOT_NONE + 1..MAX_SLOTS).find(|slot| !self.profiles.contains_key(slot))
    }

    /// The hooks that the loaded profiles need: none without profiles.
    pub(super) fn groups(&self) -> HookGroups {
        self.profiles().fold(HookGroups::default(), |groups, named| {
            groups.union(named.groups).union(IDENTITY)
        })
    }

    pub(super) fn managed(&self) -> impl Iterator<Item = (u64, Bound)> {
        self.managed.iter().map(|(cgroup, bound)| (*cgroup, *bound))
    }

    pub(super) fn bound(&self, cgroup: u64) -> Option<Bound> {
        self.managed.get(&cgroup).copied()
    }

    pub(super) fn users(&self, slot: u32) -> usize {
        self.managed.values().filter(|bound| bound.slot == slot).count()
    }

    /// Cgroups without a binding, and `MANAGED_*` of each.
    pub(super) fn marked(&self) -> &BTreeMap<u64, u32> {
        &self.marked
    }

    pub(super) fn mark(&mut self, cgroup: u64, kind: u32) {
        self.marked.insert(cgroup, kind);
    }

    pub(super) fn unmark(&mut self, cgroup: u64) {
        self.marked.remove(&cgroup);
    }

    pub(super) fn set_bound(&mut self, cgroup: u64, bound: Bound) {
        self.marked.remove(&cgroup);
        self.used_bindings.insert(bound.managed.binding);
        self.managed.insert(cgroup, bound);
    }

    pub(super) fn remove_bound(&mut self, cgroup: u64) {
        if let Some(bound) = self.managed.remove(&cgroup) {
            self.used_bindings.remove(&bound.managed.binding);
        }
    }

    /// The first index that no managed cgroup has.
    pub(super) fn free_binding(&self) -> Option<u32> {
        let free = match self.used_bindings.last() {
            // Mostly there is no gap, and the search is short where there is one.
            Some(last) if *last as usize + 1 == self.used_bindings.len() => *last + 1,
            _ => (0..MAX_BINDINGS).find(|index| !self.used_bindings.contains(index))?,
        };
        (free < MAX_BINDINGS).then_some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(binding: u32, slot: u32) -> Bound {
        Bound {
            managed: Managed {
                binding,
                ..Managed::default()
            },
            slot,
        }
    }

    fn named(slot: u32, name: &str, groups: HookGroups) -> Named {
        Named {
            slot,
            generation: 1,
            rules: 0,
            groups,
            targets: Default::default(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn bindings_are_reused_and_bounded() {
        let mut ledger = Ledger::default();
        for cgroup in 0..u64::from(MAX_BINDINGS) {
            let free = ledger.free_binding().unwrap();
            assert_eq!(u64::from(free), cgroup);
            ledger.set_bound(cgroup, bound(free, 1));
        }
        assert_eq!(ledger.free_binding(), None);
        ledger.remove_bound(77);
        assert_eq!(ledger.free_binding(), Some(77));
    }

    #[test]
    fn hooks_are_needed_by_loaded_profiles_only() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.groups(), HookGroups::default());
        ledger.set_profile(named(1, "a", HookGroups::FILE));
        ledger.set_profile(named(2, "b", HookGroups::EXEC));
        assert!(
            ledger
                .groups()
                .contains(HookGroups::FILE.union(HookGroups::EXEC).union(IDENTITY))
        );
        ledger.remove_profile(1);
        assert_eq!(ledger.groups(), HookGroups::EXEC.union(IDENTITY));
        assert_eq!(ledger.free_slot(), Some(1));
        ledger.remove_profile(2);
        assert_eq!(ledger.groups(), HookGroups::default());
    }

    #[test]
    fn profile_is_found_by_name_and_by_slot() {
        let mut ledger = Ledger::default();
        ledger.set_profile(named(3, "a", HookGroups::FILE));
        assert_eq!(ledger.profile("a").map(|named| named.slot), Some(3));
        assert_eq!(ledger.profile_in(3).map(|named| named.name.as_str()), Some("a"));
        ledger.set_bound(9, bound(0, 3));
        assert_eq!((ledger.users(3), ledger.users(4)), (1, 0));
    }
}
