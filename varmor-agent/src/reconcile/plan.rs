//! The pure half of the reconciler: from what should be and what is to a list of steps.
//!
//! Fail closed: what the kernel holds is only taken away when it is known that it should not be there. A policy
//! list or a container list that never succeeded takes nothing away.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use varmor_common::profile::Profile;

use super::selections::Selections;
use crate::containers::Container;
use crate::enforcer::{Adoption, CgroupId};
use crate::source::PolicyObject;

/// What should be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// Of every policy, used or not (a bad one is noticed before the first container comes), the unions that
    /// containers with several policies need, and those that hold the addresses of a pod.
    pub profiles: BTreeMap<String, Arc<Profile>>,
    pub bindings: BTreeMap<CgroupId, (String, Adoption)>,
    /// Listed containers' cgroups, selected or not.
    pub containers: BTreeSet<CgroupId>,
    /// Both lists have succeeded at least once: what is missing in them does not exist.
    pub complete: bool,
}

/// What is.
#[derive(Clone, Debug, Default)]
pub struct Actual {
    /// Loaded profiles; the contents where this process loaded them, `None` where an earlier one did.
    pub profiles: BTreeMap<String, Option<Arc<Profile>>>,
    pub bindings: BTreeMap<CgroupId, Option<String>>,
    /// Bindings that this process has made or confirmed, and how.
    pub confirmed: BTreeMap<CgroupId, Adoption>,
    /// cgroup directories; `None` = not known, so nothing counts as gone.
    pub existing: Option<BTreeSet<CgroupId>>,
    /// Profiles that were refused; the same contents would be refused again.
    pub refused: BTreeMap<String, Arc<Profile>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Apply(Arc<Profile>),
    Protect {
        cgroup: CgroupId,
        profile: String,
        adoption: Adoption,
    },
    /// The container lives on, without a policy.
    Unbind(CgroupId),
    /// The container is gone.
    Forget(CgroupId),
    Remove(String),
}

/// What should be; `None` for a list that has not succeeded yet. `addresses` tells those of a container's pod and is
/// asked where rules are about them; `None` = they cannot be told, and the container stays as it is: at the start gate,
/// if it has not started.
#[must_use]
pub fn desired(
    selections: &mut Selections,
    policies: Option<&Arc<[PolicyObject]>>,
    containers: Option<&[Arc<Container>]>,
    addresses: &dyn Fn(&Container) -> Option<Vec<IpAddr>>,
) -> Desired {
    let mut desired = Desired {
        complete: policies.is_some() && containers.is_some(),
        ..Desired::default()
    };
    if let Some(policies) = policies {
        selections.follow(policies);
    }
    for part in selections.parts() {
        desired.profiles.insert(part.name.clone(), Arc::clone(part));
    }
    for container in containers.unwrap_or_default() {
        let Some(cgroup) = container.cgroup else { continue };
        let profile = match selections.of(cgroup, container) {
            Some(chosen) if chosen.is_about_pod => match addresses(container) {
                Some(addresses) => Some(selections.for_pod(cgroup, &chosen.profile, &addresses)),
                None => continue,
            },
            chosen => chosen.map(|chosen| chosen.profile),
        };
        desired.containers.insert(cgroup);
        let Some(profile) = profile else { continue };
        let adoption = if container.started {
            Adoption::Running
        } else {
            Adoption::AtExec
        };
        desired.bindings.insert(cgroup, (profile.name.clone(), adoption));
        if !desired.profiles.contains_key(&profile.name) {
            desired.profiles.insert(profile.name.clone(), profile);
        }
    }
    selections.forget(|cgroup| desired.containers.contains(&cgroup));
    desired
}

/// The steps, in an order in which no container is ever without the rules that it has or should get: load, bind,
/// release, unload.
#[must_use]
pub fn plan(desired: &Desired, actual: &Actual) -> Vec<Action> {
    let mut actions = Vec::new();
    for (name, profile) in &desired.profiles {
        let is_loaded = actual
            .profiles
            .get(name)
            .is_some_and(|loaded| loaded.as_ref() == Some(profile));
        if !is_loaded && actual.refused.get(name) != Some(profile) {
            actions.push(Action::Apply(Arc::clone(profile)));
        }
    }

    let mut used: BTreeSet<&str> = desired.bindings.values().map(|(name, _)| name.as_str()).collect();
    for (cgroup, (profile, adoption)) in &desired.bindings {
        let bound = actual.bindings.get(cgroup).and_then(Option::as_deref);
        // A container that was bound before its start is bound again after it: should the entry point have been
        // quicker than the first binding, it is adopted now.
        let is_confirmed = match actual.confirmed.get(cgroup) {
            Some(Adoption::Running) => true,
            Some(Adoption::AtExec) => *adoption == Adoption::AtExec,
            None => false,
        };
        if bound != Some(profile) || !is_confirmed {
            actions.push(Action::Protect {
                cgroup: *cgroup,
                profile: profile.clone(),
                adoption: *adoption,
            });
        }
    }

    for (cgroup, bound) in &actual.bindings {
        if desired.bindings.contains_key(cgroup) {
            // Should the new profile be refused, the old one must still be there.
            used.extend(bound.as_deref());
            continue;
        }
        let is_gone = actual
            .existing
            .as_ref()
            .is_some_and(|existing| !existing.contains(cgroup));
        if is_gone {
            actions.push(Action::Forget(*cgroup));
        } else if bound.is_some() && desired.complete && desired.containers.contains(cgroup) {
            actions.push(Action::Unbind(*cgroup));
        } else {
            used.extend(bound.as_deref());
        }
    }

    if desired.complete {
        let unused = |name: &&String| !desired.profiles.contains_key(*name) && !used.contains(name.as_str());
        actions.extend(actual.profiles.keys().filter(unused).cloned().map(Action::Remove));
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::select::tests::{plain, policy};
    use varmor_common::policy::Enforcers;
    use varmor_common::profile::{Object, Origin, Rule, Verdict};

    /// What should be, of pods at `10.0.0.5`.
    fn desired(policies: Option<&[PolicyObject]>, containers: Option<&[Container]>) -> Desired {
        wanted(policies, containers, Some(&[IpAddr::from([10, 0, 0, 5])]))
    }

    fn wanted(
        policies: Option<&[PolicyObject]>,
        containers: Option<&[Container]>,
        addresses: Option<&[IpAddr]>,
    ) -> Desired {
        let policies: Option<Arc<[PolicyObject]>> = policies.map(Into::into);
        let containers = containers.map(|list| list.iter().cloned().map(Arc::new).collect::<Vec<_>>());
        super::desired(
            &mut Selections::default(),
            policies.as_ref(),
            containers.as_deref(),
            &|_| addresses.map(<[IpAddr]>::to_vec),
        )
    }

    fn web() -> PolicyObject {
        policy(
            "VarmorPolicy",
            "{name: web, namespace: demo}",
            "{kind: Pod, selector: {matchLabels: {app: web}}}",
        )
    }

    fn container(id: &str, cgroup: u64, app: &str) -> Container {
        Container {
            cgroup: Some(CgroupId(cgroup)),
            started: true,
            ..plain(id, &[("app", app)])
        }
    }

    /// Everything as it should be for these policies and containers.
    fn settled(policies: &[PolicyObject], containers: &[Container]) -> Actual {
        let desired = desired(Some(policies), Some(containers));
        Actual {
            bindings: desired
                .bindings
                .iter()
                .map(|(cgroup, (name, _))| (*cgroup, Some(name.clone())))
                .collect(),
            confirmed: desired
                .bindings
                .iter()
                .map(|(cgroup, (_, adoption))| (*cgroup, *adoption))
                .collect(),
            existing: Some(desired.containers.clone()),
            profiles: desired
                .profiles
                .into_iter()
                .map(|(name, profile)| (name, Some(profile)))
                .collect(),
            refused: BTreeMap::new(),
        }
    }

    fn protect(profile: &str) -> Action {
        Action::Protect {
            cgroup: CgroupId(7),
            profile: profile.to_owned(),
            adoption: Adoption::Running,
        }
    }

    #[test]
    fn container_bound_before_its_start_is_adopted_after_it() {
        let policies = [web()];
        let created = [Container {
            started: false,
            ..container("a", 7, "web")
        }];
        let actual = settled(&policies, &created);
        assert_eq!(plan(&desired(Some(&policies), Some(&created)), &actual), []);
        let started = [container("a", 7, "web")];
        assert_eq!(
            plan(&desired(Some(&policies), Some(&started)), &actual),
            [protect("varmor-demo-web")]
        );
    }

    #[test]
    fn running_container_is_protected_after_its_profile_is_loaded() {
        let (policies, containers) = ([web()], [container("a", 7, "web"), container("b", 8, "other")]);
        let actions = plan(&desired(Some(&policies), Some(&containers)), &Actual::default());
        assert_eq!(
            actions,
            [
                Action::Apply(Arc::new(policies[0].profile.clone())),
                protect("varmor-demo-web")
            ]
        );
    }

    #[test]
    fn settled_state_needs_no_step() {
        let (policies, containers) = ([web()], [container("a", 7, "web")]);
        assert_eq!(
            plan(
                &desired(Some(&policies), Some(&containers)),
                &settled(&policies, &containers)
            ),
            []
        );
    }

    #[test]
    fn restart_confirms_bindings_and_drops_none() {
        let (policies, containers) = ([web()], [container("a", 7, "web")]);
        let mut actual = settled(&policies, &containers);
        actual.confirmed.clear();
        actual.profiles.insert("varmor-demo-web".to_owned(), None);
        let kinds = plan(&desired(Some(&policies), Some(&containers)), &actual);
        assert_eq!(
            kinds,
            [
                Action::Apply(Arc::new(policies[0].profile.clone())),
                protect("varmor-demo-web")
            ]
        );
    }

    #[test]
    fn nothing_is_taken_away_before_both_lists_succeeded() {
        let (policies, containers) = ([web()], [container("a", 7, "web")]);
        let actual = settled(&policies, &containers);
        assert_eq!(plan(&desired(None, None), &actual), []);
        assert_eq!(plan(&desired(Some(&[]), None), &actual), []);
        assert_eq!(plan(&desired(None, Some(&containers)), &actual), []);
    }

    #[test]
    fn removed_policy_unbinds_living_containers_and_unloads() {
        let (policies, containers) = ([web()], [container("a", 7, "web")]);
        let actual = settled(&policies, &containers);
        assert_eq!(
            plan(&desired(Some(&[]), Some(&containers)), &actual),
            [
                Action::Unbind(CgroupId(7)),
                Action::Remove("varmor-demo-web".to_owned())
            ]
        );
    }

    #[test]
    fn unlisted_container_stays_protected_while_its_directory_exists() {
        let (policies, containers) = ([web()], [container("a", 7, "web")]);
        let mut actual = settled(&policies, &containers);
        assert_eq!(plan(&desired(Some(&policies), Some(&[])), &actual), []);
        assert_eq!(
            plan(&desired(Some(&[]), Some(&[])), &actual),
            [],
            "its profile stays as well"
        );
        actual.existing = None;
        assert_eq!(
            plan(&desired(Some(&[]), Some(&[])), &actual),
            [],
            "an unknown hierarchy says nothing"
        );
        actual.existing = Some(BTreeSet::new());
        assert_eq!(
            plan(&desired(Some(&policies), Some(&[])), &actual),
            [Action::Forget(CgroupId(7))]
        );
    }

    #[test]
    fn several_policies_make_one_union() {
        let other = policy(
            "VarmorClusterPolicy",
            "{name: all}",
            "{kind: Pod, selector: {matchLabels: {app: web}}}",
        );
        let (policies, containers) = ([web(), other], [container("a", 7, "web")]);
        let desired = desired(Some(&policies), Some(&containers));
        let bound = &desired.bindings[&CgroupId(7)].0;
        assert!(bound.contains('+'), "{bound}");
        assert!(desired.profiles.contains_key(bound));

        let before = settled(&policies[..1], &containers);
        let actions = plan(&desired, &before);
        assert_eq!(actions.last(), Some(&protect(bound)));
        let after = settled(&policies, &containers);
        let back = plan(&self::desired(Some(&policies[..1]), Some(&containers)), &after);
        assert!(matches!(back.first(), Some(Action::Protect { .. })), "{back:?}");
    }

    #[test]
    fn refused_profile_is_not_tried_again_until_it_changes() {
        let (policies, containers) = ([web()], [container("a", 7, "other")]);
        let profile = Arc::new(policies[0].profile.clone());
        let mut actual = Actual::default();
        actual.refused.insert(profile.name.clone(), Arc::clone(&profile));
        assert_eq!(plan(&desired(Some(&policies), Some(&containers)), &actual), []);
        actual.refused.insert(
            profile.name.clone(),
            Arc::new(Profile {
                rules: Vec::new(),
                mode: varmor_common::profile::ProfileMode::Complain,
                ..Profile::clone(&profile)
            }),
        );
        assert!(matches!(
            plan(&desired(Some(&policies), Some(&containers)), &actual)[..],
            [Action::Apply(_)]
        ));
    }

    #[test]
    fn container_without_policy_and_without_profile_is_left_alone() {
        let containers = [container("a", 7, "web")];
        let mut actual = settled(&[], &containers);
        actual.bindings.insert(CgroupId(7), None);
        assert_eq!(plan(&desired(Some(&[]), Some(&containers)), &actual), []);
    }

    #[test]
    fn a_rule_about_the_pod_gets_the_addresses_of_the_pod() {
        let about_pod = PolicyObject {
            profile: Profile {
                rules: vec![Rule {
                    id: "self".to_owned(),
                    origin: Origin::default(),
                    verdict: Verdict::Deny,
                    object: Object::PodEgress(Vec::new()),
                    enforcers: Enforcers::BPF,
                }],
                ..web().profile
            },
            ..web()
        };
        let (policies, containers) = ([about_pod], [container("a", 7, "web")]);
        let known = desired(Some(&policies), Some(&containers));
        assert_eq!(known.bindings[&CgroupId(7)].0, "varmor-demo-web@10.0.0.5");
        let names: Vec<&str> = known.profiles.keys().map(String::as_str).collect();
        assert_eq!(names, ["varmor-demo-web", "varmor-demo-web@10.0.0.5"]);

        let unknown = wanted(Some(&policies), Some(&containers), None);
        assert!(unknown.bindings.is_empty());
        let settled = settled(&policies, &containers);
        let actions = plan(&unknown, &settled);
        assert_eq!(actions, [], "what it has stays");
    }
}
