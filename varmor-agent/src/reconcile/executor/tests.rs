//! The reconciler drives an enforcer without a kernel through the lives of containers and policies.

use super::*;
use crate::enforcer::fake::FakeEnforcer;
use crate::reconcile::select::tests::{plain, policy};

const TARGET: &str = "{kind: Pod, selector: {matchLabels: {app: web}}}";
const PROFILE: &str = "varmor-demo-web";

fn web() -> PolicyObject {
    policy("VarmorPolicy", "{name: web, namespace: demo}", TARGET)
}

fn container(id: &str, cgroup: u64) -> Container {
    Container {
        cgroup: Some(CgroupId(cgroup)),
        started: true,
        ..plain(id, &[("app", "web")])
    }
}

#[derive(Default)]
struct Lab {
    reconciler: Reconciler,
    enforcer: FakeEnforcer,
}

impl Lab {
    /// One reconciliation; the cgroups in `existing` have a directory. Returns the calls that it led to.
    fn run(
        &mut self,
        policies: Option<&[PolicyObject]>,
        containers: Option<&[Container]>,
        existing: &[u64],
    ) -> Vec<String> {
        let existing: BTreeSet<CgroupId> = existing.iter().map(|id| CgroupId(*id)).collect();
        self.enforcer.existing.clone_from(&existing);
        let policies: Option<Arc<[PolicyObject]>> = policies.map(Into::into);
        let containers = containers.map(|list| list.iter().cloned().map(Arc::new).collect::<Vec<_>>());
        self.reconciler.reconcile(
            &mut self.enforcer,
            policies.as_ref(),
            containers.as_deref(),
            &|| Some(existing.clone()),
        );
        std::mem::take(&mut self.enforcer.calls)
    }
}

#[test]
fn container_is_protected_once_and_released_when_gone() {
    let mut lab = Lab::default();
    let (policies, containers) = ([web()], [container("a", 7)]);
    assert_eq!(
        lab.run(Some(&policies), Some(&containers), &[7]),
        [format!("apply {PROFILE}"), format!("protect 7 {PROFILE} Running")]
    );
    assert_eq!(lab.run(Some(&policies), Some(&containers), &[7]), [""; 0]);
    assert_eq!(
        lab.run(Some(&policies), Some(&[]), &[7]),
        [""; 0],
        "its directory still exists"
    );
    assert_eq!(lab.run(Some(&policies), Some(&[]), &[]), ["release 7"]);
    assert_eq!(
        lab.reconciler.known(CgroupId(7)).unwrap().container.id,
        "a",
        "late events still find it"
    );
}

#[test]
fn restarted_agent_adopts_what_the_kernel_holds() {
    let mut lab = Lab::default();
    let (policies, containers) = ([web()], [container("a", 7)]);
    lab.run(Some(&policies), Some(&containers), &[7]);
    lab.reconciler = Reconciler::default();
    assert_eq!(lab.run(None, None, &[7]), [""; 0]);
    assert_eq!(lab.run(Some(&[]), None, &[7]), [""; 0]);
    assert_eq!(lab.enforcer.bindings[&CgroupId(7)].as_deref(), Some(PROFILE));
    lab.run(Some(&policies), Some(&containers), &[7]);
    assert_eq!(lab.enforcer.bindings[&CgroupId(7)].as_deref(), Some(PROFILE));
}

#[test]
fn removed_policy_frees_the_container_and_a_new_one_takes_it_back() {
    let mut lab = Lab::default();
    let (policies, containers) = ([web()], [container("a", 7)]);
    lab.run(Some(&policies), Some(&containers), &[7]);
    assert_eq!(
        lab.run(Some(&[]), Some(&containers), &[7]),
        ["release 7".to_owned(), format!("remove {PROFILE}")]
    );
    assert_eq!(lab.enforcer.bindings[&CgroupId(7)], None);
    assert_eq!(lab.run(Some(&[]), Some(&containers), &[7]), [""; 0]);
    lab.run(Some(&policies), Some(&containers), &[7]);
    assert_eq!(lab.enforcer.bindings[&CgroupId(7)].as_deref(), Some(PROFILE));
}

#[test]
fn refused_profile_leaves_the_old_one_in_force() {
    let mut lab = Lab::default();
    let (policies, containers) = ([web()], [container("a", 7)]);
    lab.run(Some(&policies), Some(&containers), &[7]);
    let mut changed = web();
    changed.profile.mode = varmor_common::profile::ProfileMode::Complain;
    lab.enforcer.too_large.insert(PROFILE.to_owned());
    let calls = lab.run(Some(&[changed.clone()]), Some(&containers), &[7]);
    assert_eq!(calls, [format!("apply {PROFILE}")]);
    assert!(lab.reconciler.refusal(PROFILE).unwrap().contains("does not fit"));
    assert!(!lab.reconciler.is_applied(&changed.profile));
    assert_eq!(lab.enforcer.profiles[PROFILE], policies[0].profile);
    assert_eq!(lab.enforcer.bindings[&CgroupId(7)].as_deref(), Some(PROFILE));
    assert_eq!(
        lab.run(Some(&[changed]), Some(&containers), &[7]),
        [""; 0],
        "not again at once"
    );
}

#[test]
fn refused_union_keeps_the_single_profile() {
    let mut lab = Lab::default();
    let second = policy("VarmorPolicy", "{name: more, namespace: demo}", TARGET);
    let containers = [container("a", 7)];
    lab.run(Some(&[web()]), Some(&containers), &[7]);
    lab.enforcer
        .too_large
        .insert("varmor-demo-more+varmor-demo-web".to_owned());
    lab.run(Some(&[web(), second]), Some(&containers), &[7]);
    assert_eq!(lab.enforcer.bindings[&CgroupId(7)].as_deref(), Some(PROFILE));
}

#[test]
fn union_is_unloaded_when_nobody_needs_it() {
    let mut lab = Lab::default();
    let second = policy("VarmorPolicy", "{name: more, namespace: demo}", TARGET);
    let containers = [container("a", 7)];
    lab.run(Some(&[web(), second]), Some(&containers), &[7]);
    assert!(
        lab.enforcer
            .profiles
            .contains_key("varmor-demo-more+varmor-demo-web")
    );
    lab.run(Some(&[web()]), Some(&containers), &[7]);
    assert_eq!(lab.enforcer.profiles.keys().collect::<Vec<_>>(), [PROFILE]);
    assert_eq!(lab.enforcer.bindings[&CgroupId(7)].as_deref(), Some(PROFILE));
}

#[test]
fn reused_cgroup_number_is_a_new_container() {
    let mut lab = Lab::default();
    let policies = [web()];
    lab.run(Some(&policies), Some(&[container("old", 7)]), &[7]);
    lab.run(Some(&policies), Some(&[container("new", 7)]), &[7]);
    assert_eq!(lab.reconciler.known(CgroupId(7)).unwrap().container.id, "new");
}
