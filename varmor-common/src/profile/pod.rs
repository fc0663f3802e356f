//! Rules about the pod's own addresses (`pod-self`): a policy is for many pods, so each pod gets the profile with its own.

use std::fmt::Write;
use std::net::IpAddr;

use super::destination::single;
use super::{EgressRule, Object, Profile, Rule};
use crate::fingerprint::fnv1a;

impl Profile {
    /// Has rules that need the addresses of the pod; without them they match nothing.
    #[must_use]
    pub fn is_about_pod(&self) -> bool {
        let groups = self.targets.iter().flat_map(|group| &group.rules);
        self.rules
            .iter()
            .chain(groups)
            .any(|rule| matches!(rule.object, Object::PodEgress(_)))
    }

    /// The profile for a pod with these addresses. Pods with the same addresses (those in the node's network) share it,
    /// so its name has the addresses in it.
    #[must_use]
    pub fn for_pod(mut self, addresses: &[IpAddr]) -> Self {
        let mut addresses = addresses.to_vec();
        addresses.sort_unstable();
        addresses.dedup();
        self.name.push('@');
        self.name.push_str(&label(&addresses));
        self.rules = filled_in(self.rules, &addresses);
        for group in &mut self.targets {
            group.rules = filled_in(std::mem::take(&mut group.rules), &addresses);
        }
        self
    }
}

/// The first address, and what tells sets with the same first one apart.
fn label(addresses: &[IpAddr]) -> String {
    let [first, others @ ..] = addresses else {
        return "none".to_owned();
    };
    let mut label = first.to_string();
    if !others.is_empty() {
        let text = others
            .iter()
            .flat_map(|address| address.to_string().into_bytes().into_iter().chain([b' ']));
        let _ = write!(label, "~{:016x}", fnv1a(text));
    }
    label
}

fn filled_in(rules: Vec<Rule>, addresses: &[IpAddr]) -> Vec<Rule> {
    let mut filled = Vec::with_capacity(rules.len());
    for rule in rules {
        let Object::PodEgress(ports) = &rule.object else {
            filled.push(rule);
            continue;
        };
        filled.extend(addresses.iter().map(|address| Rule {
            object: Object::Egress(EgressRule {
                network: Some(single(*address)),
                ports: ports.clone(),
            }),
            ..rule.clone()
        }));
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Enforcers;
    use crate::profile::{Origin, PortRange, Verdict};

    fn profile() -> Profile {
        let rule = Rule {
            id: "r".to_owned(),
            origin: Origin::default(),
            verdict: Verdict::Deny,
            object: Object::PodEgress(vec![PortRange { first: 80, last: 81 }]),
            enforcers: Enforcers::BPF,
        };
        Profile {
            name: "varmor-demo-web".to_owned(),
            rules: vec![rule],
            ..Profile::default()
        }
    }

    fn at(addresses: &[&str]) -> Profile {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        profile().for_pod(&addresses)
    }

    #[test]
    fn every_address_of_the_pod_gets_the_rule() {
        assert!(profile().is_about_pod());
        let pod = at(&["fd00::5", "10.0.0.5"]);
        assert!(!pod.is_about_pod());
        let networks: Vec<String> = pod
            .rules
            .iter()
            .map(|rule| match &rule.object {
                Object::Egress(egress) => egress.network.unwrap().to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(networks, ["10.0.0.5/32", "fd00::5/128"]);
        assert!(pod.rules.iter().all(|rule| rule.id == "r"));
        assert!(at(&[]).rules.is_empty());
    }

    #[test]
    fn names_tell_the_addresses_apart_and_not_their_order() {
        assert_eq!(at(&["10.0.0.5"]).name, "varmor-demo-web@10.0.0.5");
        assert_eq!(at(&[]).name, "varmor-demo-web@none");
        assert_eq!(
            at(&["fd00::5", "10.0.0.5"]),
            at(&["10.0.0.5", "fd00::5", "10.0.0.5"])
        );
        let both = at(&["10.0.0.5", "fd00::5"]).name;
        assert!(both.starts_with("varmor-demo-web@10.0.0.5~"), "{both}");
        assert_ne!(both, at(&["10.0.0.5", "fd00::6"]).name);
    }
}
