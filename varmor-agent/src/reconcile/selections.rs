//! What the policies mean for each container, kept as long as neither changes: a node has many of both, and nearly every
//! look at them finds them as they were.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use varmor_common::policy::Enforcers;
use varmor_common::profile::Profile;

use super::select::selects;
use crate::containers::Container;
use crate::enforcer::CgroupId;
use crate::source::PolicyObject;

/// The policies of the BPF enforcer and what they select. Equal profiles stay one object, so that comparing what should be
/// with what is costs next to nothing.
#[derive(Debug, Default)]
pub struct Selections {
    policies: Arc<[PolicyObject]>,
    /// What BPF is to hold of each policy.
    parts: Vec<Option<Arc<Profile>>>,
    /// Positions of policies by name of the profile.
    positions: BTreeMap<String, usize>,
    /// Of several policies, by their positions.
    unions: BTreeMap<Vec<usize>, Arc<Profile>>,
    containers: BTreeMap<CgroupId, Selected>,
    /// Before the policies changed, by name.
    before: BTreeMap<String, Arc<Profile>>,
}

#[derive(Debug)]
struct Selected {
    container: Arc<Container>,
    chosen: Option<Chosen>,
    /// The profile for the addresses of its pod.
    of_pod: Option<(Vec<IpAddr>, Arc<Profile>)>,
}

/// The profile of a container: of the one policy that selects it, or the union of several.
#[derive(Clone, Debug)]
pub struct Chosen {
    pub profile: Arc<Profile>,
    /// Rules in it are about the addresses of the pod.
    pub is_about_pod: bool,
}

impl Selections {
    /// From now on these are the policies.
    pub fn follow(&mut self, policies: &Arc<[PolicyObject]>) {
        if Arc::ptr_eq(&self.policies, policies) {
            return;
        }
        let last = std::mem::take(self);
        let of_pods = last
            .containers
            .into_values()
            .filter_map(|selected| selected.of_pod);
        self.before = (last.parts.into_iter().flatten())
            .chain(last.unions.into_values())
            .chain(of_pods.map(|(_, profile)| profile))
            .map(|profile| (profile.name.clone(), profile))
            .collect();
        for (position, policy) in policies.iter().enumerate() {
            // A policy without BPF has nothing in BPF's tables; the stores hold it.
            let part = policy.profile.part_for(Enforcers::BPF);
            self.parts.push(part.map(|part| same_or_new(&self.before, part)));
            self.positions.insert(policy.profile.name.clone(), position);
        }
        self.policies = Arc::clone(policies);
    }

    /// Of every policy, used or not.
    pub fn parts(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.parts.iter().flatten()
    }

    /// What BPF is to hold of a policy's profile.
    #[must_use]
    pub fn part_of(&self, profile: &Profile) -> Option<Arc<Profile>> {
        match self.positions.get(&profile.name) {
            Some(position) if self.policies[*position].profile == *profile => self.parts[*position].clone(),
            _ => profile.part_for(Enforcers::BPF).map(Arc::new),
        }
    }

    /// What the policies come to for the container with this cgroup; nothing if none selects it.
    pub fn of(&mut self, cgroup: CgroupId, container: &Arc<Container>) -> Option<Chosen> {
        if let Some(selected) = self.containers.get(&cgroup)
            && selected.container == *container
        {
            return selected.chosen.clone();
        }
        let chosen = self.union_for(container).map(|profile| Chosen {
            is_about_pod: profile.is_about_pod(),
            profile,
        });
        let selected = Selected {
            container: Arc::clone(container),
            chosen: chosen.clone(),
            of_pod: None,
        };
        self.containers.insert(cgroup, selected);
        chosen
    }

    /// That profile for a pod with these addresses.
    pub fn for_pod(
        &mut self,
        cgroup: CgroupId,
        profile: &Arc<Profile>,
        addresses: &[IpAddr],
    ) -> Arc<Profile> {
        let selected = self.containers.get_mut(&cgroup);
        if let Some(Selected {
            of_pod: Some((known, of_pod)),
            ..
        }) = &selected
            && known == addresses
        {
            return Arc::clone(of_pod);
        }
        let of_pod = same_or_new(&self.before, Profile::clone(profile).for_pod(addresses));
        if let Some(selected) = selected {
            selected.of_pod = Some((addresses.to_vec(), Arc::clone(&of_pod)));
        }
        of_pod
    }

    fn union_for(&mut self, container: &Container) -> Option<Arc<Profile>> {
        let parts = self.policies.iter().zip(&self.parts).enumerate();
        let selecting: Vec<(usize, &Arc<Profile>)> = parts
            .filter_map(|(position, (policy, part))| Some((position, policy, part.as_ref()?)))
            .filter(|(_, policy, _)| selects(policy, container))
            .map(|(position, _, part)| (position, part))
            .collect();
        if let [(_, one)] = selecting[..] {
            return Some(Arc::clone(one));
        }
        let (positions, parts): (Vec<usize>, Vec<&Arc<Profile>>) = selecting.into_iter().unzip();
        if let Some(union) = self.unions.get(&positions) {
            return Some(Arc::clone(union));
        }
        let parts: Vec<Profile> = parts.into_iter().map(|part| Profile::clone(part)).collect();
        let union = same_or_new(&self.before, Profile::merge(&parts)?);
        self.unions.insert(positions, Arc::clone(&union));
        Some(union)
    }

    /// Forgets containers that are gone, unions that nobody needs any more, and what was before the policies changed.
    pub fn forget(&mut self, is_there: impl Fn(CgroupId) -> bool) {
        self.containers.retain(|cgroup, _| is_there(*cgroup));
        self.unions.retain(|_, union| Arc::strong_count(union) > 1);
        self.before.clear();
    }
}

fn same_or_new(before: &BTreeMap<String, Arc<Profile>>, new: Profile) -> Arc<Profile> {
    match before.get(&new.name) {
        Some(same) if **same == new => Arc::clone(same),
        _ => Arc::new(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::select::tests::{plain, policy};

    fn of_app(name: &str, app: &str) -> PolicyObject {
        policy(
            "VarmorPolicy",
            &format!("{{name: {name}, namespace: demo}}"),
            &format!("{{kind: Pod, selector: {{matchLabels: {{app: {app}}}}}}}"),
        )
    }

    fn container(cgroup: u64, app: &str) -> Arc<Container> {
        Arc::new(Container {
            cgroup: Some(CgroupId(cgroup)),
            ..plain("c", &[("app", app)])
        })
    }

    fn of(selections: &mut Selections, container: &Arc<Container>) -> Option<Arc<Profile>> {
        let chosen = selections.of(container.cgroup.unwrap(), container)?;
        Some(chosen.profile)
    }

    #[test]
    fn containers_of_the_same_policies_share_one_profile() {
        let mut selections = Selections::default();
        selections.follow(&[of_app("a", "web"), of_app("b", "web"), of_app("c", "db")].into());
        let first = of(&mut selections, &container(1, "web")).unwrap();
        let second = of(&mut selections, &container(2, "web")).unwrap();
        assert_eq!(first.name, "varmor-demo-a+varmor-demo-b");
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(
            of(&mut selections, &container(3, "db")).unwrap().name,
            "varmor-demo-c"
        );
        assert_eq!(of(&mut selections, &container(4, "other")), None);
    }

    #[test]
    fn what_a_change_of_policies_leaves_as_it_was_stays_the_same_object() {
        let mut selections = Selections::default();
        let (web, db) = (container(1, "web"), container(2, "db"));
        selections.follow(&[of_app("a", "web"), of_app("b", "web"), of_app("c", "db")].into());
        let (of_web, of_db) = (of(&mut selections, &web), of(&mut selections, &db));
        let same = |a: &Option<Arc<Profile>>, b: &Option<Arc<Profile>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        let mut changed = of_app("c", "db");
        changed.profile.mode = varmor_common::profile::ProfileMode::Complain;
        selections.follow(
            &[
                of_app("z", "new"),
                of_app("a", "web"),
                of_app("b", "web"),
                changed,
            ]
            .into(),
        );
        assert!(same(&of(&mut selections, &web), &of_web));
        let new = of(&mut selections, &db);
        assert!(!same(&new, &of_db) && new != of_db);
    }

    #[test]
    fn whatever_changes_it_says_what_selecting_anew_says() {
        let apps = ["web", "db", "none"];
        let policies: Vec<PolicyObject> = (0..4)
            .map(|number| of_app(&format!("p{number}"), apps[number % 2]))
            .collect();
        let mut selections = Selections::default();
        let mut seed = 7_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut present: Arc<[PolicyObject]> = Vec::new().into();
        for _ in 0..500 {
            if next(3) == 0 {
                let chosen = next(16);
                let of_bits = policies
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| chosen >> bit & 1 == 1);
                present = of_bits.map(|(_, policy)| policy.clone()).collect();
                selections.follow(&present);
            }
            let container = container(next(3), apps[usize::try_from(next(3)).unwrap()]);
            let parts: Vec<Profile> = present
                .iter()
                .filter(|policy| selects(policy, &container))
                .filter_map(|policy| policy.profile.part_for(Enforcers::BPF))
                .collect();
            let found = of(&mut selections, &container);
            assert_eq!(found.as_deref(), Profile::merge(&parts).as_ref());
            if next(5) == 0 {
                let kept = next(3);
                selections.forget(|cgroup| cgroup.0 == kept);
            }
        }
    }

    #[test]
    fn another_container_in_the_same_cgroup_is_selected_anew() {
        let mut selections = Selections::default();
        selections.follow(&[of_app("a", "web")].into());
        assert!(of(&mut selections, &container(1, "web")).is_some());
        assert!(of(&mut selections, &container(1, "other")).is_none());
        selections.follow(&[of_app("a", "other")].into());
        assert!(of(&mut selections, &container(1, "other")).is_some());
        selections.follow(&Vec::new().into());
        assert!(of(&mut selections, &container(1, "other")).is_none());
    }

    #[test]
    fn unions_go_with_their_last_container() {
        let mut selections = Selections::default();
        selections.follow(&[of_app("a", "web"), of_app("b", "web")].into());
        drop(of(&mut selections, &container(1, "web")));
        selections.forget(|_| true);
        assert_eq!((selections.containers.len(), selections.unions.len()), (1, 1));
        selections.forget(|_| false);
        assert_eq!((selections.containers.len(), selections.unions.len()), (0, 0));
    }

    #[test]
    fn a_part_is_told_of_the_very_profile_that_was_asked_for() {
        let mut selections = Selections::default();
        let known = of_app("a", "web");
        selections.follow(&[known.clone()].into());
        let part = selections.part_of(&known.profile).unwrap();
        assert!(selections.parts().any(|known| Arc::ptr_eq(known, &part)));
        let other = known.profile.without_rules();
        assert_eq!(
            selections.part_of(&other).map(|part| (*part).clone()),
            other.part_for(Enforcers::BPF)
        );
    }
}
