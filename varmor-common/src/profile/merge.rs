//! One profile for a container that several policies select.

use std::collections::BTreeSet;

use super::{AppArmorPart, InertRule, Kinds, Object, Profile, ProfileMode, Rule, Verdict};
use crate::abi::{MAX_TARGETS, PERM_EXEC};

impl Profile {
    /// The union of several profiles: what one of them refuses is refused.
    ///
    /// The union complains only if all of them do. Otherwise the denials of complaining profiles become audits, so
    /// that they go on logging without starting to refuse. The order of the profiles has no meaning.
    ///
    /// What several allow-lists allow in common cannot be computed for patterns: of each kind of operations one list
    /// holds, an enforcing one before a complaining one, else the first by name. The allowing rules of the others are
    /// inert.
    #[must_use]
    pub fn merge(profiles: &[Self]) -> Option<Self> {
        let mut sorted: Vec<&Self> = profiles.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        sorted.dedup_by(|a, b| a == b);
        if let [one] = sorted[..] {
            return Some(one.clone());
        }
        let names: BTreeSet<&str> = sorted
            .first()?
            .name
            .split('+')
            .chain(sorted.iter().flat_map(|one| one.name.split('+')))
            .collect();
        let complain = sorted.iter().all(|one| one.mode == ProfileMode::Complain);
        let mode = if complain {
            ProfileMode::Complain
        } else {
            ProfileMode::Enforce
        };
        let mut merged = Self {
            name: names.into_iter().collect::<Vec<_>>().join("+"),
            mode,
            ..Self::default()
        };
        let owners = Owners::of(&sorted, mode);
        for profile in sorted {
            merged.enforcers = merged.enforcers.union(profile.enforcers);
            merged.app_armor = AppArmorPart::merge(merged.app_armor, profile, mode);
            for filter in &profile.seccomp {
                if !merged.seccomp.contains(filter) {
                    merged.seccomp.push(filter.clone());
                }
            }
            merged.add(profile, &owners);
        }
        Some(merged)
    }

    /// Adds what `profile` contributes to a merge.
    fn add(&mut self, profile: &Self, owners: &Owners) {
        let complains = profile.mode != self.mode;
        for rule in &profile.rules {
            if let Some(rule) = self.contributed(profile, rule, complains, owners) {
                self.rules.push(rule);
            }
        }
        for group in &profile.targets {
            let known = self
                .targets
                .iter()
                .any(|other| other.executables == group.executables);
            if !known && self.targets.len() == MAX_TARGETS {
                let reason = format!(
                    "the policies for this container have more than {MAX_TARGETS} groups of `targets`: give their rules the same targets"
                );
                self.inert.extend(group.rules.iter().map(|rule| InertRule {
                    rule: rule.clone(),
                    reason: reason.clone(),
                }));
                continue;
            }
            let rules: Vec<Rule> = group
                .rules
                .iter()
                .filter_map(|rule| self.contributed(profile, rule, complains, owners))
                .collect();
            self.add_target(group.executables.clone(), rules);
        }
        self.inert.extend(profile.inert.iter().cloned());
        let owned = owners.kinds(&profile.name);
        let (denied, audited) = (profile.default.denied, profile.default.audited);
        if owned != Kinds::NONE && self.default.kinds() == Kinds::NONE {
            self.default.origin = profile.default.origin.clone();
        }
        let (denied, audited) = if complains {
            (Kinds::NONE, denied.with(audited))
        } else {
            (denied, audited)
        };
        self.default.denied = self.default.denied.with(denied.and(owned));
        self.default.audited = self.default.audited.with(audited.and(owned));
    }

    /// A rule as it stands in the merge; nothing if it is without effect there.
    fn contributed(&mut self, profile: &Self, rule: &Rule, complains: bool, owners: &Owners) -> Option<Rule> {
        let mut rule = rule.clone();
        if complains && rule.verdict == Verdict::Deny {
            rule.verdict = Verdict::Audit;
        }
        if rule.verdict != Verdict::Allow {
            return Some(rule);
        }
        let owned = owners.kinds(&profile.name);
        let lost = rule.object.kinds().without(owned);
        if lost == Kinds::NONE {
            return Some(rule);
        }
        self.inert.push(InertRule {
            rule: rule.clone(),
            reason: owners.reason(lost),
        });
        if let Object::Path { access, .. } = &mut rule.object {
            access.0 &= if owned.meets(Kinds::FILES) {
                u32::MAX
            } else {
                PERM_EXEC
            };
            access.0 &= if owned.meets(Kinds::EXEC) {
                u32::MAX
            } else {
                !PERM_EXEC
            };
            return (access.0 != 0).then_some(rule);
        }
        None
    }
}

/// Whose allow-list holds in a merge, kind by kind.
struct Owners(Vec<(Kinds, String)>);

impl Owners {
    fn of(profiles: &[&Profile], mode: ProfileMode) -> Self {
        let enforcing = |profile: &&&Profile| profile.mode == mode;
        let owner = |kind: Kinds| {
            let mut lists = profiles
                .iter()
                .filter(|profile| profile.default.kinds().meets(kind));
            let any = lists.clone().next();
            let owner = lists.find(enforcing).or(any)?;
            Some((kind, owner.name.clone()))
        };
        Self(Kinds::ALL.each().filter_map(owner).collect())
    }

    fn kinds(&self, profile: &str) -> Kinds {
        let own = self.0.iter().filter(|(_, owner)| owner == profile);
        own.fold(Kinds::NONE, |all, (kind, _)| all.with(*kind))
    }

    /// Why a rule that allows operations of these kinds has no effect.
    fn reason(&self, kinds: Kinds) -> String {
        match self.0.iter().find(|(kind, _)| kind.meets(kinds)) {
            Some((_, owner)) => format!(
                "`{owner}` has an allow-list for the same container, which holds alone; join the two policies"
            ),
            None => "nothing is denied by default: there is nothing to allow".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Object, Origin, Rule};
    use super::*;
    use crate::compile::seccomp::{Action, OciSeccomp, Syscalls};
    use crate::policy::Enforcers;

    fn profile(name: &str, mode: ProfileMode, pattern: &str) -> Profile {
        let object = Object::Path {
            pattern: pattern.into(),
            access: Access::READ,
        };
        let rule = Rule {
            id: name.into(),
            origin: Origin::default(),
            verdict: Verdict::Deny,
            object,
            enforcers: Enforcers::BPF,
        };
        Profile {
            name: name.into(),
            mode,
            rules: vec![rule],
            ..Profile::default()
        }
    }

    #[test]
    fn a_merge_is_the_union_whatever_the_order() {
        let a = profile("a", ProfileMode::Enforce, "/a");
        let b = profile("b", ProfileMode::Enforce, "/b");
        let merged = Profile::merge(&[b.clone(), a.clone()]).expect("two profiles");
        assert_eq!(Some(&merged), Profile::merge(&[a.clone(), b.clone()]).as_ref());
        assert_eq!(merged.name, "a+b");
        assert_eq!(merged.rules, [a.rules[0].clone(), b.rules[0].clone()]);
    }

    #[test]
    fn a_merge_complains_only_if_all_profiles_do() {
        let loud = profile("a", ProfileMode::Complain, "/a");
        let strict = profile("b", ProfileMode::Enforce, "/b");
        let merged = Profile::merge(&[loud.clone(), strict]).expect("two profiles");
        assert_eq!(merged.mode, ProfileMode::Enforce);
        let verdicts: Vec<Verdict> = merged.rules.iter().map(|rule| rule.verdict).collect();
        assert_eq!(
            verdicts,
            [Verdict::Audit, Verdict::Deny],
            "the complaining profile must not start to refuse"
        );
        let other = profile("c", ProfileMode::Complain, "/c");
        assert_eq!(
            Profile::merge(&[loud, other]).expect("two profiles").mode,
            ProfileMode::Complain
        );
    }

    #[test]
    fn one_profile_is_its_own_merge_and_none_is_none() {
        let a = profile("a", ProfileMode::Enforce, "/a");
        assert_eq!(Profile::merge(std::slice::from_ref(&a)), Some(a.clone()));
        assert_eq!(Profile::merge(&[a.clone(), a.clone()]), Some(a));
        assert_eq!(Profile::merge(&[]), None);
    }

    fn allow_list(name: &str, mode: ProfileMode, pattern: &str) -> Profile {
        let mut list = profile(name, mode, pattern);
        list.rules[0].verdict = Verdict::Allow;
        list.default.denied = Kinds::ALL;
        list
    }

    #[test]
    fn of_two_allow_lists_one_holds_and_the_rules_of_the_other_are_named() {
        let a = allow_list("a", ProfileMode::Enforce, "/a");
        let b = allow_list("b", ProfileMode::Enforce, "/b");
        let merged = Profile::merge(&[b.clone(), a.clone()]).expect("two profiles");
        assert_eq!(
            merged.rules, a.rules,
            "what `b` allows beyond `a` must not open `a`"
        );
        assert_eq!(merged.default.denied, Kinds::ALL);
        assert_eq!(merged.inert[0].rule, b.rules[0]);
        assert!(
            merged.inert[0].reason.contains("`a`"),
            "{}",
            merged.inert[0].reason
        );
    }

    #[test]
    fn an_enforcing_allow_list_holds_before_a_complaining_one() {
        let a = allow_list("a", ProfileMode::Complain, "/a");
        let b = allow_list("b", ProfileMode::Enforce, "/b");
        let merged = Profile::merge(&[a, b.clone()]).expect("two profiles");
        assert_eq!(merged.rules, b.rules);
        assert_eq!(
            (merged.default.denied, merged.default.audited),
            (Kinds::ALL, Kinds::NONE)
        );
    }

    #[test]
    fn a_complaining_allow_list_goes_on_logging_beside_a_profile_that_refuses() {
        let loud = allow_list("a", ProfileMode::Complain, "/a");
        let strict = profile("b", ProfileMode::Enforce, "/b");
        let merged = Profile::merge(&[loud.clone(), strict]).expect("two profiles");
        assert_eq!(
            (merged.default.denied, merged.default.audited),
            (Kinds::NONE, Kinds::ALL)
        );
        assert_eq!(merged.rules[0], loud.rules[0]);
        assert_eq!(merged.inert, []);
    }

    #[test]
    fn an_allowing_rule_outside_of_an_allow_list_opens_no_other_list() {
        let list = allow_list("a", ProfileMode::Enforce, "/a");
        let mut other = profile("b", ProfileMode::Enforce, "/b");
        other.rules[0].verdict = Verdict::Allow;
        let merged = Profile::merge(&[list.clone(), other]).expect("two profiles");
        assert_eq!(merged.rules, list.rules);
        assert_eq!(merged.inert.len(), 1);
    }

    #[test]
    fn every_filter_holds_in_a_merge_and_equal_ones_once() {
        let with = |name: &str, refused: &[&str]| {
            let mut made = profile(name, ProfileMode::Enforce, "/x");
            made.seccomp = refused.iter().map(|call| filter(call)).collect();
            made
        };
        let merged = Profile::merge(&[
            with("c", &["ptrace"]),
            with("a", &["splice"]),
            with("b", &["ptrace"]),
            with("d", &[]),
        ]);
        assert_eq!(
            merged.expect("four profiles").seccomp,
            [filter("splice"), filter("ptrace")]
        );
    }

    fn filter(refused: &str) -> OciSeccomp {
        OciSeccomp {
            default_action: Action::Allow,
            default_errno_ret: None,
            architectures: Vec::new(),
            flags: Vec::new(),
            syscalls: vec![Syscalls {
                names: vec![refused.to_owned()],
                action: Action::Errno,
                errno_ret: Some(1),
                args: Vec::new(),
            }],
        }
    }

    #[test]
    fn target_groups_with_the_same_executables_become_one_and_too_many_are_named() {
        let with = |name: &str, executables: &[&str]| {
            let mut made = profile(name, ProfileMode::Enforce, "/x");
            for executable in executables {
                let rule = made.rules[0].clone();
                made.add_target(vec![(*executable).to_owned()], [rule]);
            }
            made
        };
        let a = with("a", &["/1", "/2", "/3", "/4"]);
        let b = with("b", &["/4", "/5", "/6", "/7"]);
        let merged = Profile::merge(&[a, b]).expect("two profiles");
        assert_eq!(merged.targets.len(), MAX_TARGETS);
        assert_eq!(merged.targets[3].rules.len(), 2);
        assert_eq!(merged.inert.len(), 1);
        assert!(
            merged.inert[0].reason.contains("targets"),
            "{}",
            merged.inert[0].reason
        );
    }
}
