//! Does a policy select a container?
//!
//! Without a cluster there are no workload objects, so a workload's name is recognised in the names that its
//! pods get, and a selector is compared with the labels of the pod (or of the container, outside of a pod). In a
//! cluster the controller says which workloads are meant.

use varmor_common::policy::{TargetKind, selector_matches};

use crate::containers::Container;
use crate::source::PolicyObject;

#[must_use]
pub fn selects(policy: &PolicyObject, container: &Container) -> bool {
    in_namespace(policy, container)
        && is_target(policy, container)
        && names_container(policy, container)
        && !is_unconfined(container)
}

/// The owner of a workload may take containers out, as in vArmor; so does the webhook with init containers that no
/// policy names.
fn is_unconfined(container: &Container) -> bool {
    container
        .pod
        .as_ref()
        .is_some_and(|pod| pod.unconfined.contains(&container.name))
}

/// A container outside of any pod belongs to no Kubernetes namespace: every policy may mean it.
fn in_namespace(policy: &PolicyObject, container: &Container) -> bool {
    match (&policy.namespace, &container.pod) {
        (Some(namespace), Some(pod)) => *namespace == pod.namespace,
        _ => true,
    }
}

fn is_target(policy: &PolicyObject, container: &Container) -> bool {
    let target = &policy.target;
    if let (Some(workloads), Some(pod)) = (&policy.workloads, &container.pod) {
        return workloads.iter().any(|workload| {
            workload.namespace == pod.namespace
                && is_pod_of(target.kind, &workload.name, &pod.name)
                && selector_matches(&workload.selector, &pod.labels)
        });
    }
    if let Some(name) = &target.name {
        return match &container.pod {
            Some(pod) => is_pod_of(target.kind, name, &pod.name),
            None => *name == container.id || *name == container.name,
        };
    }
    target.selector_matches(
        container
            .pod
            .as_ref()
            .map_or(&container.labels, |pod| &pod.labels),
    )
}

fn names_container(policy: &PolicyObject, container: &Container) -> bool {
    policy.target.selects_container(&container.name)
        || (container.pod.is_none() && policy.target.selects_container(&container.id))
}

/// Is this the name of a pod of the workload?
fn is_pod_of(kind: TargetKind, workload: &str, pod: &str) -> bool {
    if matches!(kind, TargetKind::Pod) {
        return pod == workload;
    }
    let Some(suffix) = pod.strip_prefix(workload).and_then(|rest| rest.strip_prefix('-')) else {
        return false;
    };
    match kind {
        TargetKind::Pod => false,
        TargetKind::StatefulSet => !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_digit()),
        TargetKind::DaemonSet => is_random(suffix, 5..=5),
        TargetKind::Deployment => suffix
            .split_once('-')
            .is_some_and(|(template, random)| is_random(template, 1..=10) && is_random(random, 5..=5)),
    }
}

/// Characters of the suffixes that Kubernetes makes up: no vowels and nothing that looks like one.
fn is_random(text: &str, length: std::ops::RangeInclusive<usize>) -> bool {
    length.contains(&text.len())
        && text
            .bytes()
            .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
}

#[cfg(test)]
pub(super) mod tests {
    use varmor_common::policy::{self, WorkloadPods};
    use varmor_common::profile::{self, NodeFacts};

    use super::*;
    use crate::containers::Pod;

    /// A policy from its `metadata` and `target` in YAML flow style.
    pub(crate) fn policy(kind: &str, metadata: &str, target: &str) -> PolicyObject {
        let text = format!(
            "apiVersion: crd.varmor.org/v1beta1\nkind: {kind}\nmetadata: {metadata}\nspec:\n  target: {target}\n  \
             policy: {{enforcer: BPF, mode: AlwaysAllow}}\n"
        );
        let loaded = policy::load("test.yaml", text.as_bytes());
        let document = loaded
            .documents
            .first()
            .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
        let profile = profile::build(document, &NodeFacts::default()).profile.unwrap();
        PolicyObject::of(document, document.spec().unwrap().target.clone(), profile)
    }

    pub(crate) fn plain(id: &str, labels: &[(&str, &str)]) -> Container {
        Container {
            id: id.to_owned(),
            name: id.to_owned(),
            runtime_namespace: "k8s.io".to_owned(),
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..Container::default()
        }
    }

    fn in_pod(namespace: &str, pod: &str, name: &str, labels: &[(&str, &str)]) -> Container {
        let labels = plain("", labels).labels;
        let pod = Pod {
            namespace: namespace.to_owned(),
            name: pod.to_owned(),
            uid: "u".to_owned(),
            labels,
            ..Pod::default()
        };
        Container {
            id: "c0ffee".to_owned(),
            name: name.to_owned(),
            pod: Some(pod),
            ..Container::default()
        }
    }

    #[test]
    fn plain_container_is_selected_by_id_or_label_in_any_namespace() {
        let by_name = policy(
            "VarmorPolicy",
            "{name: p, namespace: demo}",
            "{kind: Pod, name: web}",
        );
        assert!(selects(&by_name, &plain("web", &[])));
        assert!(!selects(&by_name, &plain("web2", &[])));
        let by_label = policy(
            "VarmorPolicy",
            "{name: p, namespace: demo}",
            "{kind: Pod, selector: {matchLabels: {app: web}}}",
        );
        assert!(selects(&by_label, &plain("x", &[("app", "web")])));
        assert!(!selects(&by_label, &plain("x", &[("app", "other")])));
        assert!(!selects(&by_label, &plain("web", &[])));
    }

    #[test]
    fn namespaced_policy_selects_pods_of_its_namespace_only() {
        let target = "{kind: Pod, selector: {matchLabels: {app: web}}}";
        let namespaced = policy("VarmorPolicy", "{name: p, namespace: demo}", target);
        let cluster = policy("VarmorClusterPolicy", "{name: p}", target);
        let here = in_pod("demo", "w", "main", &[("app", "web")]);
        let there = in_pod("other", "w", "main", &[("app", "web")]);
        assert!(selects(&namespaced, &here) && !selects(&namespaced, &there));
        assert!(selects(&cluster, &here) && selects(&cluster, &there));
    }

    #[test]
    fn pod_labels_count_and_image_labels_do_not() {
        let policy = policy(
            "VarmorPolicy",
            "{name: p, namespace: demo}",
            "{kind: Pod, selector: {matchLabels: {app: web}}}",
        );
        let mut container = in_pod("demo", "w", "main", &[]);
        container.labels.insert("app".to_owned(), "web".to_owned());
        assert!(!selects(&policy, &container));
    }

    #[test]
    fn container_list_narrows_the_target() {
        let policy = policy(
            "VarmorPolicy",
            "{name: p, namespace: demo}",
            "{kind: Pod, selector: {matchLabels: {app: web}}, containers: [main]}",
        );
        assert!(selects(&policy, &in_pod("demo", "w", "main", &[("app", "web")])));
        assert!(!selects(
            &policy,
            &in_pod("demo", "w", "sidecar", &[("app", "web")])
        ));
    }

    #[test]
    fn in_a_cluster_the_controller_says_which_workloads_are_meant() {
        let mut policy = policy(
            "VarmorPolicy",
            "{name: p, namespace: demo}",
            "{kind: Deployment, selector: {matchLabels: {team: a}}}",
        );
        let labelled = in_pod(
            "demo",
            "web-7d4b9c8f5d-x2k4z",
            "main",
            &[("team", "a"), ("app", "web")],
        );
        assert!(
            selects(&policy, &labelled),
            "without a cluster, labels of the pod count"
        );
        let workload = |namespace: &str, name: &str| WorkloadPods {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            selector: serde_json::from_str(r#"{"matchLabels": {"app": "web"}}"#).unwrap(),
        };
        policy.workloads = Some(Vec::new());
        assert!(!selects(&policy, &labelled));
        policy.workloads = Some(vec![workload("demo", "web")]);
        assert!(selects(
            &policy,
            &in_pod("demo", "web-7d4b9c8f5d-x2k4z", "main", &[("app", "web")])
        ));
        assert!(!selects(
            &policy,
            &in_pod("demo", "web-7d4b9c8f5d-x2k4z", "main", &[("app", "db")])
        ));
        assert!(!selects(
            &policy,
            &in_pod("demo", "lone", "main", &[("app", "web")])
        ));
        policy.workloads = Some(vec![workload("other", "web")]);
        assert!(!selects(&policy, &labelled));
    }

    #[test]
    fn owner_of_a_pod_can_take_a_container_out() {
        let policy = policy(
            "VarmorPolicy",
            "{name: p, namespace: demo}",
            "{kind: Pod, selector: {matchLabels: {app: web}}}",
        );
        let mut container = in_pod("demo", "w", "main", &[("app", "web")]);
        let pod = container.pod.as_mut().unwrap();
        pod.unconfined.insert("other".to_owned());
        assert!(selects(&policy, &container));
        container
            .pod
            .as_mut()
            .unwrap()
            .unconfined
            .insert("main".to_owned());
        assert!(!selects(&policy, &container));
    }

    #[test]
    fn workload_names_are_recognised_in_pod_names() {
        let check = |kind: TargetKind, pod: &str, expected: bool| {
            assert_eq!(is_pod_of(kind, "web", pod), expected, "{kind} {pod}");
        };
        check(TargetKind::Pod, "web", true);
        check(TargetKind::Pod, "web-1", false);
        check(TargetKind::Deployment, "web-7d4b9c8f5d-x2k4z", true);
        check(TargetKind::Deployment, "web-api-7d4b9c8f5d-x2k4z", false);
        check(TargetKind::Deployment, "web-x2k4z", false);
        check(TargetKind::StatefulSet, "web-0", true);
        check(TargetKind::StatefulSet, "web-", false);
        check(TargetKind::StatefulSet, "web-a", false);
        check(TargetKind::DaemonSet, "web-x2k4z", true);
        check(TargetKind::DaemonSet, "webx-x2k4z", false);
    }
}
