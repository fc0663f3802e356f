//! Which policy a container gets from each enforcer.

use std::collections::BTreeMap;

use varmor_common::policy::{Enforcers, PolicyMode};

use super::pod::Container;
use crate::admission::policies::Candidate;

/// The part of one policy that a container gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) profile: String,
    pub(super) mode: PolicyMode,
}

/// What one container gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) name: String,
    pub(super) init: bool,
    pub(super) app_armor: Option<Share>,
    pub(super) seccomp: Option<Share>,
    pub(super) bpf: Option<Share>,
    /// BPF protects other containers of the pod but not this one.
    pub(super) left_out: bool,
}

/// What all containers get.
#[derive(Clone, Debug, Default)]
pub(super) struct Assignment {
    pub(super) containers: Vec<Assigned>,
    /// For whoever sent the object.
    pub(super) notes: Vec<String>,
}

/// The enforcers of which a container can hold one profile only.
const SINGLE: [(&str, Enforcers); 2] = [("AppArmor", Enforcers::APPARMOR), ("Seccomp", Enforcers::SECCOMP)];

/// Shares the policies out; the first one wins where only one can. BPF merges all of them on the node, so that its
/// annotation, which has room for one, is only a mark.
pub(super) fn assign(policies: &[&Candidate<'_>], containers: &[Container]) -> Assignment {
    let share = |container: &Container, enforcer: Enforcers| {
        let mut all = policies
            .iter()
            .filter(|policy| policy.policy.enforcers.contains(enforcer) && selects(policy, container));
        let first = all.next().map(|policy| Share {
            profile: policy.profile.to_owned(),
            mode: policy.policy.mode,
        });
        (first, all.map(|policy| policy.identity()).collect::<Vec<_>>())
    };
    let bpf = policies
        .iter()
        .any(|policy| policy.policy.enforcers.contains(Enforcers::BPF));
    let mut losers: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    let mut assignment = Assignment::default();
    for container in containers {
        let [app_armor, seccomp] = SINGLE.map(|(enforcer, set)| {
            let (first, rest) = share(container, set);
            for policy in rest {
                losers
                    .entry((enforcer, policy))
                    .or_default()
                    .push(&container.name);
            }
            first
        });
        let (share, _) = share(container, Enforcers::BPF);
        assignment.containers.push(Assigned {
            name: container.name.clone(),
            init: container.init,
            app_armor,
            seccomp,
            left_out: bpf && container.init && share.is_none(),
            bpf: share,
        });
    }
    for ((enforcer, policy), names) in losers {
        assignment.notes.push(format!(
            "the {enforcer} part of {policy} has no effect on {}: another policy comes first, and a container has one {enforcer} profile",
            names.join(", ")
        ));
    }
    assignment.notes.extend(missing(policies, containers));
    assignment
}

/// Every regular container unless the policy names some; others only when it names them.
fn selects(policy: &Candidate<'_>, container: &Container) -> bool {
    let target = &policy.policy.target;
    target.selects_container(&container.name) && !(container.init && target.containers.is_empty())
}

/// Containers that policies name and that do not exist.
fn missing(policies: &[&Candidate<'_>], containers: &[Container]) -> Vec<String> {
    policies
        .iter()
        .flat_map(|policy| {
            policy
                .policy
                .target
                .containers
                .iter()
                .map(move |name| (policy, name))
        })
        .filter(|(_, name)| !containers.iter().any(|container| container.name == **name))
        .map(|(policy, name)| {
            format!(
                "{} names the container {name}, which is not in the pod",
                policy.identity()
            )
        })
        .collect()
}
