//! All policies by namespace and name, with the names of their profiles.

use std::collections::{BTreeMap, BTreeSet};

use varmor_common::profile::{profile_name, profile_name_apart};

use super::{Candidate, Known};

/// A namespace and a name; cluster policies have no namespace and so come first.
pub(super) type Key = (Option<String>, String);

/// All policies of both kinds.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<Key, Entry>,
    profiles: BTreeMap<String, BTreeSet<Key>>,
    /// The kinds that were listed completely: those of namespaces, and those of the cluster.
    listed: [bool; 2],
}

#[derive(Debug)]
struct Entry {
    policy: Known,
    profile: String,
}

/// One of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
}

impl Table {
    /// Whether both kinds were listed once.
    #[must_use]
    pub(crate) fn is_complete(&self) -> bool {
        self.listed == [true, true]
    }

    /// Policies in the table.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The policies that may be about objects of a namespace: cluster policies first, then by age and name.
    #[must_use]
    pub(crate) fn candidates(&self, namespace: &str) -> Vec<Candidate<'_>> {
        let of = |namespace: Option<String>| {
            let mut found: Vec<Candidate<'_>> = self
                .entries
                .range((namespace.clone(), String::new())..)
                .take_while(|((here, _), _)| *here == namespace)
                .map(|(_, entry)| Candidate {
                    policy: &entry.policy,
                    profile: &entry.profile,
                })
                .collect();
            found.sort_by(|a, b| (a.policy.created, &a.policy.name).cmp(&(b.policy.created, &b.policy.name)));
            found
        };
        let mut all = of(None);
        all.extend(of(Some(namespace.to_owned())));
        all
    }

    /// Adds a policy, or replaces what was known of it.
    pub(crate) fn insert(&mut self, policy: Known) {
        let key = (policy.namespace.clone(), policy.name.clone());
        self.remove(key.0.as_deref(), &key.1);
        let profile = self.profile(&policy);
        self.profiles
            .entry(profile.clone())
            .or_default()
            .insert(key.clone());
        self.entries.insert(key, Entry { policy, profile });
    }

    /// Forgets a policy.
    pub(crate) fn remove(&mut self, namespace: Option<&str>, name: &str) {
        let key = (namespace.map(str::to_owned), name.to_owned());
        if let Some(entry) = self.entries.remove(&key)
            && let Some(holders) = self.profiles.get_mut(&entry.profile)
        {
            holders.remove(&key);
            if holders.is_empty() {
                self.profiles.remove(&entry.profile);
            }
        }
    }

    /// Replaces all policies of one kind by a complete list. A policy that cannot be read any more keeps what was known:
    /// `unreadable` are the keys of those.
    pub(crate) fn replace(&mut self, scope: Scope, policies: Vec<Known>, unreadable: &BTreeSet<Key>) {
        let listed: BTreeSet<Key> = policies
            .iter()
            .map(|policy| (policy.namespace.clone(), policy.name.clone()))
            .collect();
        let gone: Vec<Key> = self
            .entries
            .keys()
            .filter(|key| key.0.is_none() == (scope == Scope::Cluster))
            .filter(|key| !listed.contains(*key) && !unreadable.contains(*key))
            .cloned()
            .collect();
        for (namespace, name) in gone {
            self.remove(namespace.as_deref(), &name);
        }
        for policy in policies {
            self.insert(policy);
        }
        self.listed[usize::from(scope == Scope::Cluster)] = true;
    }

    /// The name of the profile: the one in the status. Until the controller has given one it is the usual name, unless an
    /// older policy has that: two policies never share a profile.
    fn profile(&self, policy: &Known) -> String {
        if let Some(given) = &policy.profile {
            return given.clone();
        }
        let namespace = policy.namespace.as_deref();
        let usual = profile_name(namespace, &policy.name);
        let is_older = |key: &Key| {
            self.entries.get(key).is_some_and(|entry| {
                let other = &entry.policy;
                other.profile.is_some()
                    || (other.created, &other.namespace) < (policy.created, &policy.namespace)
            })
        };
        match self.profiles.get(&usual) {
            Some(holders) if holders.iter().any(is_older) => profile_name_apart(namespace, &policy.name),
            _ => usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use varmor_common::policy::{Enforcers, PolicyMode};

    use super::*;

    fn policy(namespace: Option<&str>, name: &str, created: i64) -> Known {
        Known {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            created,
            target: serde_json::from_value(json!({"kind": "Pod", "name": "x"})).expect("a target"),
            enforcers: Enforcers::BPF,
            mode: PolicyMode::AlwaysAllow,
            profile: None,
        }
    }

    #[test]
    fn cluster_policies_come_first_then_age_and_name_decide() {
        let mut table = Table::default();
        for (namespace, name, created) in [
            (Some("demo"), "b", 1),
            (Some("demo"), "a", 1),
            (Some("demo"), "z", 0),
            (Some("other"), "o", 0),
            (None, "late", 9),
            (None, "early", 3),
        ] {
            table.insert(policy(namespace, name, created));
        }
        let names: Vec<&str> = table
            .candidates("demo")
            .iter()
            .map(|one| one.policy.name.as_str())
            .collect();
        assert_eq!(names, ["early", "late", "z", "a", "b"]);
    }

    #[test]
    fn nothing_is_complete_before_both_kinds_were_listed() {
        let mut table = Table::default();
        table.replace(
            Scope::Namespaced,
            vec![policy(Some("demo"), "a", 0)],
            &BTreeSet::new(),
        );
        assert!(!table.is_complete());
        table.replace(Scope::Cluster, Vec::new(), &BTreeSet::new());
        assert!(table.is_complete());
        assert_eq!(table.len(), 1, "the list of one kind does not clear the other");
        table.replace(Scope::Namespaced, Vec::new(), &BTreeSet::new());
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_policy_that_became_unreadable_keeps_what_was_known() {
        let mut table = Table::default();
        table.replace(
            Scope::Namespaced,
            vec![policy(Some("demo"), "a", 0)],
            &BTreeSet::new(),
        );
        let unreadable = BTreeSet::from([(Some("demo".to_owned()), "a".to_owned())]);
        table.replace(Scope::Namespaced, Vec::new(), &unreadable);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn policies_whose_names_collide_have_profiles_of_their_own() {
        let mut table = Table::default();
        table.insert(policy(Some("a"), "b-c", 1));
        table.insert(policy(Some("a-b"), "c", 2));
        let profile = |table: &Table, namespace: &str| table.candidates(namespace)[0].profile.to_owned();
        assert_eq!(profile(&table, "a"), "varmor-a-b-c");
        assert_eq!(profile(&table, "a-b"), profile_name_apart(Some("a-b"), "c"));
        let mut given = policy(Some("a-b"), "c", 2);
        given.profile = Some("varmor-given".to_owned());
        table.insert(given);
        assert_eq!(profile(&table, "a-b"), "varmor-given");
    }
}
