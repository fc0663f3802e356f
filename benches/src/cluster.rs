//! A cluster of 400 nodes with 32 targets each, as the controller sees it. Each target has a policy of its own, which
//! is the most that its status can ask for.

use std::time::Instant;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use varmor_common::policy::{ArmorProfileStatus, PolicyStatus};
use varmor_common::report::{EnforcerReport, NodeReport, ProfileReport, ProfileState};
use varmor_controller::object::{API_VERSION, Policy, Profile, VARMOR_POLICY};
use varmor_controller::status::{AgentPod, Census, Nodes, policy_status, profile_status};
use varmor_controller::world::Outcome;

pub const NODES: usize = 400;
pub const TARGETS_PER_NODE: usize = 32;
pub const TARGETS: usize = NODES * TARGETS_PER_NODE;

/// The generation of every profile.
const GENERATION: i64 = 1;
/// The version at which every profile was written.
const WRITTEN: u64 = 100;

/// How the targets of a node are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Everything is in force.
    Sound,
    /// The node has refused the profile of each of its targets.
    Failing,
}

/// A policy and what came of it.
#[derive(Clone, Debug)]
pub struct Governed {
    policy: Policy,
    profile: Profile,
    outcome: Outcome,
}

/// What statuses say, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub ready: usize,
    /// Nodes that have the profile, over all profiles.
    pub loaded: usize,
    /// Nodes that a profile names, over all profiles.
    pub named: usize,
}

/// The policies of the first `count` targets.
///
/// # Panics
/// Never: the objects are valid.
#[must_use]
pub fn governed(count: usize) -> Vec<Governed> {
    (0..count)
        .map(|number| {
            let spec = json!({"target": {"kind": "Deployment", "name": format!("web-{number}")},
                "policy": {"enforcer": "BPF", "mode": "EnhanceProtect",
                    "enhanceProtect": {"hardeningRules": ["disallow-mount"]}}});
            let policy = json!({"apiVersion": API_VERSION, "kind": VARMOR_POLICY, "spec": spec,
                "metadata": {"name": format!("web-{number}"), "namespace": "demo", "generation": 1,
                    "uid": format!("policy-{number}")}});
            let profile = json!({"apiVersion": API_VERSION, "kind": "ArmorProfile",
                "metadata": {"name": name(number), "namespace": "demo", "uid": uid(number),
                    "generation": GENERATION, "resourceVersion": WRITTEN.to_string()}});
            let read = |object| serde_json::from_value(object).expect("the object has a kind and a name");
            let policy = Policy::read(read(policy)).expect("the policy has a name");
            let profile = Profile::read(read(profile)).expect("the profile has a name");
            let outcome = Outcome {
                uid: policy.uid.clone(),
                generation: policy.generation,
                profile: Some(profile.key.clone()),
                problem: None,
            };
            Governed {
                policy,
                profile,
                outcome,
            }
        })
        .collect()
}

/// The table of nodes: an agent on each of them, none of which has spoken.
#[must_use]
pub fn nodes(now: Instant) -> Nodes {
    let mut nodes = Nodes::default();
    for number in 0..NODES {
        let pod = AgentPod {
            uid: format!("pod-{number}"),
            node: node(number),
        };
        nodes.set_pod(&format!("agent-{number}"), Some(pod), now);
    }
    nodes
}

/// What every node says, in the order of their numbers.
#[must_use]
pub fn reports(health: Health) -> Vec<NodeReport> {
    (0..NODES).map(|number| report(number, health)).collect()
}

/// The statuses of the policies and of their profiles, as the controller's writer works them out.
#[must_use]
pub fn judge(governed: &[Governed], nodes: &Nodes, census: &Census, now: Timestamp) -> Sums {
    let mut sums = Sums::default();
    for one in governed {
        let (of_policy, of_profile) = statuses(one, nodes, census, now);
        sums.ready += usize::from(of_policy.is_some_and(|status| status.ready));
        sums.loaded += usize::try_from(of_profile.current_number_loaded).unwrap_or_default();
        sums.named += of_profile.conditions.len();
    }
    sums
}

fn statuses(
    one: &Governed,
    nodes: &Nodes,
    census: &Census,
    now: Timestamp,
) -> (Option<PolicyStatus>, ArmorProfileStatus) {
    let profile = &one.profile;
    let tally = nodes.tally(census, &profile.uid, profile.generation, profile.spec_version);
    let known = Some((profile, &tally));
    (
        policy_status(&one.policy, &one.outcome, known, census, now),
        profile_status(profile, &tally, census, now),
    )
}

fn report(number: usize, health: Health) -> NodeReport {
    let targets = number * TARGETS_PER_NODE..(number + 1) * TARGETS_PER_NODE;
    let exceptions = targets.map(|target| ProfileReport {
        namespace: "demo".to_owned(),
        name: name(target),
        uid: uid(target),
        generation: GENERATION,
        state: ProfileState::Failed,
        message: "the BPF enforcer cannot be used on this node: the kernel has no BPF LSM".to_owned(),
    });
    NodeReport {
        node: node(number),
        version: "0.1.0".to_owned(),
        enforcers: ["BPF", "AppArmor", "Seccomp"]
            .map(|name| EnforcerReport {
                name: name.to_owned(),
                unavailable: None,
            })
            .to_vec(),
        synced: WRITTEN,
        exceptions: if health == Health::Failing {
            exceptions.collect()
        } else {
            Vec::new()
        },
        protected: u64::try_from(TARGETS_PER_NODE).unwrap_or_default(),
    }
}

fn node(number: usize) -> String {
    format!("node-{number:03}")
}

fn name(target: usize) -> String {
    format!("varmor-demo-web-{target}")
}

fn uid(target: usize) -> String {
    format!("profile-{target}")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use k8s_openapi::jiff::Timestamp;

    use super::{Health, NODES, Sums, governed, judge, nodes, reports};

    fn sums(health: Health) -> Sums {
        let now = Instant::now();
        let mut nodes = nodes(now);
        for report in reports(health) {
            assert!(nodes.hear(report, now), "the first report is news");
        }
        judge(&governed(10), &nodes, &nodes.census(now), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn sound_nodes_have_every_profile() {
        let expected = Sums {
            ready: 10,
            loaded: 10 * NODES,
            named: 0,
        };
        assert_eq!(sums(Health::Sound), expected);
    }

    #[test]
    fn a_failing_node_is_named_by_each_of_its_targets() {
        let expected = Sums {
            ready: 0,
            loaded: 10 * (NODES - 1),
            named: 10,
        };
        assert_eq!(sums(Health::Failing), expected);
    }
}
