//! Who has which profile name. Nodes know a profile by its name alone, so a name has one holder in the whole cluster.

use std::collections::HashMap;

use varmor_common::profile::{profile_name, profile_name_apart};

use crate::object::PolicyKey;

/// The longest name of a profile, as in vArmor.
const LONGEST: usize = 63;

/// The names that are given. A name is given before anything is written with it, so two policies that come at the same
/// time cannot both take it.
#[derive(Debug, Default)]
pub struct Names {
    holders: HashMap<String, PolicyKey>,
    names: HashMap<PolicyKey, String>,
}

/// There is no name left for a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoName {
    #[error(
        "the profile names `{first}` and `{second}` both belong to others (the first to {holder}); rename the policy"
    )]
    Taken {
        first: String,
        second: String,
        holder: String,
    },
    #[error(
        "the profile name `{first}` belongs to {holder}, and `{second}` has more than {LONGEST} bytes; rename the policy"
    )]
    TooLong {
        first: String,
        second: String,
        holder: String,
    },
}

/// What is known of a policy that needs a name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claim<'c> {
    /// The name of the `ArmorProfile` that it has already.
    pub owned: Option<&'c str>,
    /// `status.profileName`, which counts after a restart of the controller.
    pub promised: Option<&'c str>,
    /// Whether an older policy that has no name yet has the first name by right.
    pub is_younger: bool,
}

impl Names {
    #[must_use]
    pub fn of(&self, key: &PolicyKey) -> Option<&str> {
        self.names.get(key).map(String::as_str)
    }

    /// Gives a name, or tells the one that was given. `stranger` says which object that is no policy's has a name.
    pub fn give(
        &mut self,
        key: &PolicyKey,
        claim: Claim<'_>,
        stranger: impl Fn(&str) -> Option<String>,
    ) -> Result<String, NoName> {
        if let Some(name) = self.names.get(key) {
            return Ok(name.clone());
        }
        let first = profile_name(key.namespace.as_deref(), &key.name);
        let second = profile_name_apart(key.namespace.as_deref(), &key.name);
        let holder = |name: &str| {
            self.holders
                .get(name)
                .map(ToString::to_string)
                .or_else(|| stranger(name))
        };
        let known = [claim.owned, claim.promised]
            .into_iter()
            .flatten()
            .find(|name| [&first, &second].contains(&&(*name).to_owned()) && holder(name).is_none());
        let name = match (known, holder(&first)) {
            (Some(known), _) => known.to_owned(),
            (None, None) if !claim.is_younger => first,
            (None, other) => {
                let other = other.unwrap_or_else(|| "an older policy".to_owned());
                if second.len() > LONGEST {
                    return Err(NoName::TooLong {
                        first,
                        second,
                        holder: other,
                    });
                }
                if holder(&second).is_some() {
                    return Err(NoName::Taken {
                        first,
                        second,
                        holder: other,
                    });
                }
                second
            }
        };
        self.holders.insert(name.clone(), key.clone());
        self.names.insert(key.clone(), name.clone());
        Ok(name)
    }

    /// The policy and its profile are gone.
    pub fn release(&mut self, key: &PolicyKey) {
        if let Some(name) = self.names.remove(key) {
            self.holders.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: Option<&str>, name: &str) -> PolicyKey {
        PolicyKey {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    fn nobody(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn the_second_of_two_that_collide_gets_a_name_of_its_own() {
        let mut names = Names::default();
        let (one, other) = (key(Some("a"), "b-c"), key(Some("a-b"), "c"));
        let first = names.give(&one, Claim::default(), nobody).unwrap();
        assert_eq!(first, "varmor-a-b-c");
        let second = names.give(&other, Claim::default(), nobody).unwrap();
        assert!(
            second.starts_with("varmor-a-b-c-") && second.len() == first.len() + 9,
            "{second}"
        );
        assert_eq!(names.give(&other, Claim::default(), nobody).unwrap(), second);
        names.release(&one);
        assert_eq!(
            names.give(&other, Claim::default(), nobody).unwrap(),
            second,
            "a name is kept"
        );
        assert_ne!(names.give(&one, Claim::default(), nobody).unwrap(), second);
    }

    #[test]
    fn a_cluster_policy_collides_with_a_namespace_that_is_named_like_it() {
        let mut names = Names::default();
        let cluster = names.give(&key(None, "web"), Claim::default(), nobody).unwrap();
        let tenant = names
            .give(&key(Some("cluster-varmor"), "web"), Claim::default(), nobody)
            .unwrap();
        assert_ne!(cluster, tenant);
    }

    #[test]
    fn the_older_one_has_the_first_name_by_right() {
        let mut names = Names::default();
        let claim = Claim {
            is_younger: true,
            ..Claim::default()
        };
        assert_ne!(
            names.give(&key(Some("a-b"), "c"), claim, nobody).unwrap(),
            "varmor-a-b-c"
        );
        assert_eq!(
            names
                .give(&key(Some("a"), "b-c"), Claim::default(), nobody)
                .unwrap(),
            "varmor-a-b-c"
        );
    }

    #[test]
    fn what_was_promised_is_kept_unless_it_is_not_the_policys_to_have() {
        let mut names = Names::default();
        let apart = profile_name_apart(Some("a-b"), "c");
        let claim = Claim {
            promised: Some(&apart),
            ..Claim::default()
        };
        assert_eq!(names.give(&key(Some("a-b"), "c"), claim, nobody).unwrap(), apart);
        let forged = Claim {
            promised: Some("varmor-kube-system-x"),
            ..Claim::default()
        };
        assert_eq!(
            names.give(&key(Some("e"), "vil"), forged, nobody).unwrap(),
            "varmor-e-vil"
        );
    }

    #[test]
    fn when_no_name_is_left_the_error_says_who_has_it() {
        let mut names = Names::default();
        let error = names
            .give(&key(Some("a"), "b"), Claim::default(), |_| {
                Some("ArmorProfile x/y".to_owned())
            })
            .unwrap_err();
        assert!(error.to_string().contains("ArmorProfile x/y"), "{error}");
        let long = "n".repeat(50);
        let claim = Claim {
            is_younger: true,
            ..Claim::default()
        };
        assert!(matches!(
            names.give(&key(Some("abc"), &long), claim, nobody),
            Err(NoName::TooLong { .. })
        ));
    }
}
