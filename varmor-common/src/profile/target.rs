//! Rules that hold for some executables only.

use super::{Profile, Rule};

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
