//! The Services and Pods that the rules of a policy name: what only a cluster knows the addresses of.

use crate::policy::{EgressPeer, EgressRules, Enforcers, PolicyMode, PolicySpec};
use crate::rules::{self, Bpf, Contribution};

/// Whom the rules of this policy mean, each once, in the order of the policy. Only BPF holds rules about addresses.
#[must_use]
pub fn egress_peers(spec: &PolicySpec) -> Vec<EgressPeer> {
    let policy = &spec.policy;
    let mut peers = Vec::new();
    if !policy.enforcer.contains(Enforcers::BPF) {
        return peers;
    }
    if let (PolicyMode::EnhanceProtect, Some(protect)) = (policy.mode, &policy.enhance_protect) {
        let ids = protect
            .hardening_rules
            .iter()
            .chain(
                protect
                    .attack_protection_rules
                    .iter()
                    .flat_map(|rules| &rules.rules),
            )
            .chain(&protect.vul_mitigation_rules);
        ids.for_each(|id| of_builtin(id, &mut peers));
        let network = protect
            .bpf_raw_rules
            .as_ref()
            .and_then(|rules| rules.network.as_ref());
        of_rules(network.and_then(|network| network.egress.as_ref()), &mut peers);
    }
    if let (PolicyMode::DefenseInDepth, Some(defense)) = (policy.mode, &policy.defense_in_depth) {
        let custom = defense.bpf.as_ref().and_then(|list| list.custom_profile.as_ref());
        let network = custom.and_then(|profile| profile.rules.network.as_ref());
        of_rules(network.and_then(|network| network.egress.as_ref()), &mut peers);
    }
    peers
}

fn of_builtin(id: &str, peers: &mut Vec<EgressPeer>) {
    let Some(Bpf::Contributes(parts)) = rules::find(id).map(|rule| rule.bpf) else {
        return;
    };
    for part in parts {
        if let Contribution::Service { namespace, name } = part {
            add(EgressPeer::service(namespace, name), peers);
        }
    }
}

fn of_rules(rules: Option<&EgressRules>, peers: &mut Vec<EgressPeer>) {
    let Some(rules) = rules else { return };
    for rule in &rules.to_services {
        add(EgressPeer::of_services(rule), peers);
    }
    for rule in &rules.to_pods {
        add(EgressPeer::of_pods(rule), peers);
    }
}

fn add(peer: EgressPeer, peers: &mut Vec<EgressPeer>) {
    if !peers.contains(&peer) {
        peers.push(peer);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn peers(enforcer: &str) -> Vec<EgressPeer> {
        let spec = json!({"target": {"kind": "Pod", "name": "a"}, "policy": {"enforcer": enforcer,
            "mode": "EnhanceProtect", "enhanceProtect": {
                "attackProtectionRules": [{"rules": ["block_access_to_kube_apiserver"]}],
                "bpfRawRules": {"network": {"egress": {
                    "toServices": [
                        {"qualifiers": ["deny"], "namespace": "default", "name": "kubernetes"},
                        {"qualifiers": ["deny"], "namespace": "x", "serviceSelector": {"matchLabels": {"a": "b"}}}],
                    "toPods": [{"qualifiers": ["deny"], "podSelector": {"matchLabels": {"a": "b"}}}]}}}}}});
        egress_peers(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn built_in_and_raw_rules_name_each_peer_once() {
        let found = peers("AppArmorBPF");
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], EgressPeer::service("default", "kubernetes"));
        assert!(found[1].services.is_some() && found[2].pods.is_some());
    }

    #[test]
    fn other_enforcers_need_no_addresses() {
        assert!(peers("AppArmorSeccomp").is_empty());
    }
}
