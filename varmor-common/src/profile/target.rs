//! Rules that hold for some executables only, or for some enforcers.

use super::{Profile, Rule};
use crate::policy::Enforcers;

/// Executables with rules of their own. A task enters the group when it executes one of them, keeps it, and hands it
/// on to its children; the rules hold beside those of the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetGroup {
    /// Path patterns, ascending and each once: they are what makes two groups the same.
    pub executables: Vec<String>,
    pub rules: Vec<Rule>,
}

/// A rule that has no effect, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InertRule {
    pub rule: Rule,
    pub reason: String,
}

impl Profile {
    /// What one enforcer is to hold of the profile; nothing if the policy does not name it.
    #[must_use]
    pub fn part_for(&self, enforcer: Enforcers) -> Option<Self> {
        if !self.enforcers.contains(enforcer) {
            return None;
        }
        let mut part = self.clone();
        part.enforcers = enforcer;
        part.rules.retain(|rule| rule.enforcers.contains(enforcer));
        for group in &mut part.targets {
            group.rules.retain(|rule| rule.enforcers.contains(enforcer));
        }
        let app_armor = enforcer.contains(Enforcers::APPARMOR);
        if !app_armor {
            part.app_armor = None;
        }
        if !enforcer.contains(Enforcers::SECCOMP) {
            part.seccomp.clear();
        }
        let has_statements = |executables: &[String]| {
            let mut raw = part.app_armor.iter().flat_map(|own| &own.raw);
            raw.any(|statement| statement.executables == executables)
        };
        // A group that says nothing here needs no transition.
        let groups = std::mem::take(&mut part.targets);
        let kept = |group: &super::TargetGroup| !group.rules.is_empty() || has_statements(&group.executables);
        part.targets = groups.into_iter().filter(kept).collect();
        part.inert.retain(|inert| inert.rule.enforcers.contains(enforcer));
        Some(part)
    }

    /// Adds rules for these executables.
    pub fn add_target(&mut self, mut executables: Vec<String>, rules: impl IntoIterator<Item = Rule>) {
        executables.sort_unstable();
        executables.dedup();
        match self
            .targets
            .iter_mut()
            .find(|group| group.executables == executables)
        {
            Some(group) => group.rules.extend(rules),
            None => self.targets.push(TargetGroup {
                executables,
                rules: rules.into_iter().collect(),
            }),
        }
    }

    /// All rules: those of the profile, those of the target groups, those without effect. `Unsupported::rule` counts
    /// in this order.
    pub fn every_rule(&self) -> impl Iterator<Item = &Rule> {
        self.in_force().chain(self.inert.iter().map(|inert| &inert.rule))
    }

    /// The rules that a task in every target group has.
    pub fn in_force(&self) -> impl Iterator<Item = &Rule> {
        self.rules
            .iter()
            .chain(self.targets.iter().flat_map(|group| &group.rules))
    }

    /// The rules of a task that is in the groups for which `member` (of the group's index) holds.
    pub fn rules_of(&self, member: impl Fn(usize) -> bool) -> impl Iterator<Item = &Rule> {
        let groups = self.targets.iter().enumerate();
        let own = groups
            .filter(move |(index, _)| member(*index))
            .flat_map(|(_, group)| &group.rules);
        self.rules.iter().chain(own)
    }
}
