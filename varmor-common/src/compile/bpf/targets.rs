//! Target groups: which bit of a task's domain each group has, and what a task in several groups is judged by.

use super::{Artefact, CompileError, HookGroups, Kernel, Unsupported, one};
use crate::abi::MAX_TARGETS;
use crate::matcher::{Component, Pattern, name_hash};
use crate::profile::{Profile, TargetGroup};

/// Which group each bit stands for: a key of the group's executables, 0 = none. Running tasks carry the bits, so they
/// keep their meaning when a policy changes; the loader keeps the keys beside the profile.
pub type TargetKeys = [u64; MAX_TARGETS];

/// Only tells groups of one profile apart, so it needs no secret.
const KEY: u64 = 0x7661_726d_6f72;

/// The bits of a profile's groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    pub(super) keys: TargetKeys,
    /// By index of the group.
    pub(super) of_groups: Vec<u32>,
}

impl Bits {
    /// Gives every group its earlier bit, else a bit that no group had, else one of a group that is gone.
    pub(super) fn assign(groups: &[TargetGroup], earlier: &TargetKeys) -> Result<Self, CompileError> {
        if let Some(group) = groups.get(MAX_TARGETS) {
            return Err(CompileError::TooManyTargets {
                count: groups.len(),
                first: group.executables.first().cloned().unwrap_or_default(),
            });
        }
        let wanted: Vec<u64> = groups.iter().map(key).collect();
        let mut keys = *earlier;
        let mut of_groups = Vec::new();
        for &group in &wanted {
            let bit = keys
                .iter()
                .position(|key| *key == group)
                .or_else(|| keys.iter().position(|key| *key == 0))
                .or_else(|| keys.iter().position(|key| !wanted.contains(key)))
                .expect("there are at least as many bits as groups");
            keys[bit] = group;
            of_groups.push(u32::try_from(bit).expect("a bit number is small"));
        }
        Ok(Self { keys, of_groups })
    }

    /// The bits of all groups.
    pub(super) fn live(&self) -> u32 {
        self.of_groups.iter().fold(0, |mask, bit| mask | 1 << bit)
    }
}

/// For a new profile: its groups on the bits that they have in other profiles of the node, as far as these agree.
#[must_use]
pub fn inherited_keys<'k>(profile: &Profile, others: impl Iterator<Item = &'k TargetKeys>) -> TargetKeys {
    let wanted: Vec<u64> = profile.targets.iter().map(key).collect();
    let mut keys = TargetKeys::default();
    for other in others {
        for (bit, key) in other.iter().enumerate() {
            if keys[bit] == 0 && wanted.contains(key) && !keys.contains(key) {
                keys[bit] = *key;
            }
        }
    }
    keys
}

/// The key of a group: its executables, in order and each once.
fn key(group: &TargetGroup) -> u64 {
    let text = group.executables.join("\n");
    name_hash(KEY, text.as_bytes()).max(1)
}

/// The sequences of the automaton that tells the groups of an executable; `saying` of the first group is `first`.
pub(super) fn patterns(profile: &Profile) -> Result<Vec<(usize, Pattern)>, CompileError> {
    let mut parsed = Vec::new();
    for (index, group) in profile.targets.iter().enumerate() {
        for text in &group.executables {
            let pattern = Pattern::parse(text).map_err(|source| CompileError::Target {
                pattern: text.clone(),
                source: Box::new(source),
            })?;
            parsed.push((index, pattern));
        }
    }
    Ok(parsed)
}

/// All ways that lead to an executable of a group.
pub(super) fn components(patterns: &[(usize, Pattern)]) -> impl Iterator<Item = (usize, &Vec<Component>)> {
    patterns
        .iter()
        .flat_map(|(group, pattern)| pattern.alternatives().iter().map(|one| (*group, one)))
}

/// Compiles what holds for tasks in each set of groups.
pub(super) fn domains(
    profile: &Profile,
    key: u64,
    bits: &Bits,
    kernel: Kernel,
) -> Result<Vec<(u32, Artefact)>, CompileError> {
    let live = bits.live();
    (1..=live)
        .filter(|mask| mask & !live == 0)
        .map(|mask| {
            let member = |group: usize| mask & (1 << bits.of_groups[group]) != 0;
            let effective = Profile {
                rules: profile.rules_of(member).cloned().collect(),
                inert: Vec::new(),
                ..profile.clone()
            };
            Ok((mask, one(&effective, key, bits, kernel)?))
        })
        .collect()
}

impl Artefact {
    /// The tables that judge a task in these target groups.
    #[must_use]
    pub fn of_domain(&self, domain: u32) -> &Self {
        let mask = domain & self.target_mask();
        self.domains
            .iter()
            .find(|(groups, _)| *groups == mask)
            .map_or(self, |(_, artefact)| artefact)
    }

    /// The bits of the target groups that exist.
    #[must_use]
    pub fn target_mask(&self) -> u32 {
        self.target_bits.iter().fold(0, |mask, bit| mask | 1 << bit)
    }

    /// Whether a task with this domain is in the group with this index.
    pub(super) fn is_member(&self, domain: u32, group: usize) -> bool {
        self.target_bits
            .get(group)
            .is_some_and(|bit| domain & (1 << bit) != 0)
    }

    /// Notes the rules that have no effect and the hooks that tasks in target groups need.
    pub(super) fn complete(&mut self, profile: &Profile) {
        // Rules of the domain of all groups are numbered like those that are in force.
        if let Some((_, all)) = self.domains.last() {
            self.unsupported = all.unsupported.clone();
        }
        let in_force = profile.in_force().count();
        for (inert, index) in profile.inert.iter().zip(in_force..) {
            self.unsupported.push(Unsupported {
                rule: u32::try_from(index).unwrap_or(u32::MAX),
                reason: inert.reason.clone(),
            });
        }
        for (_, domain) in &self.domains {
            self.hooks = self.hooks.union(domain.hooks);
        }
        if !profile.targets.is_empty() {
            self.hooks = self.hooks.union(HookGroups::EXEC).union(HookGroups::TARGET);
        }
    }
}
