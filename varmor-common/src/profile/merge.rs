//! One profile for a container that several policies select.

use std::collections::BTreeSet;

use super::{Profile, ProfileMode, Verdict};

impl Profile {
    /// The union of several profiles: what one of them refuses is refused.
    ///
    /// The union complains only if all of them do. Otherwise the denials of complaining profiles become audits, so
    /// that they go on logging without starting to refuse. The order of the profiles has no meaning.
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
            rules: Vec::new(),
        };
        for profile in sorted {
            for rule in &profile.rules {
                let mut rule = rule.clone();
                if profile.mode != mode && rule.verdict == Verdict::Deny {
                    rule.verdict = Verdict::Audit;
                }
                merged.rules.push(rule);
            }
        }
        Some(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Object, Origin, Rule};
    use super::*;

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
        };
        Profile {
            name: name.into(),
            mode,
            rules: vec![rule],
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
}
