//! What is proven in the cluster: the cases in their order.

pub(in crate::cluster) mod bench;
mod chart;
mod cluster;
mod combinations;
mod combined;
mod egress;
mod example;
mod life;
mod policies;
mod recording;
mod session;
mod workloads;

use anyhow::Result;
pub(crate) use session::Session;

/// One thing that is proven.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// A sentence for the report.
    pub(super) proves: &'static str,
    /// The case that must have passed before.
    pub(super) needs: Option<&'static str>,
    pub(super) run: fn(&Session) -> Result<()>,
}

const fn case(
    name: &'static str,
    needs: Option<&'static str>,
    proves: &'static str,
    run: fn(&Session) -> Result<()>,
) -> Case {
    Case {
        name,
        proves,
        needs,
        run,
    }
}

const READY: Option<&str> = Some("chart-ready");

pub(super) const ALL: &[Case] = &[
    case(
        "nodes-ready",
        None,
        "every node is Ready",
        cluster::nodes_are_ready,
    ),
    case(
        "pod-runs",
        Some("nodes-ready"),
        "a pod runs, `kubectl exec` and `kubectl logs` reach it",
        cluster::pod_runs,
    ),
    case(
        "service-by-name",
        Some("pod-runs"),
        "a pod reaches another by the name of its Service, and the API server by its own",
        cluster::service_is_reached,
    ),
    case(
        "chart-lint",
        None,
        "helm finds nothing wrong, and values that mean nothing are refused with a reason",
        chart::is_clean,
    ),
    case(
        "chart-install",
        Some("nodes-ready"),
        "the API server accepts every object of the chart, and every example",
        chart::installs,
    ),
    case(
        "least-rights",
        Some("chart-install"),
        "controller and agents may do what they must, and read no Secret of others",
        chart::has_few_rights,
    ),
    case(
        "chart-ready",
        Some("chart-install"),
        "controller and agents are Ready, one replica leads",
        chart::is_ready,
    ),
    case(
        "deployment",
        READY,
        "BPF protects a Deployment",
        workloads::deployment,
    ),
    case(
        "statefulset",
        READY,
        "BPF protects a StatefulSet",
        workloads::stateful_set,
    ),
    case(
        "daemonset",
        READY,
        "BPF protects a DaemonSet",
        workloads::daemon_set,
    ),
    case("pod", READY, "BPF protects a Pod", workloads::pod),
    case(
        "cluster-policy",
        READY,
        "one policy protects Pods of two namespaces",
        workloads::cluster_policy,
    ),
    case(
        "own-rules",
        READY,
        "rules about files, programs and connections hold",
        workloads::own_rules,
    ),
    case(
        "audit-only",
        READY,
        "what is only watched works, and is in the log of violations",
        workloads::audit_only,
    ),
    case(
        "ran-before",
        READY,
        "a pod that ran before its policy is protected without a restart",
        policies::ran_before,
    ),
    case(
        "policy-edited",
        Some("ran-before"),
        "rules are taken away, the mode is switched and switched back, all in the running pod",
        policies::edited,
    ),
    case(
        "policy-deleted",
        Some("ran-before"),
        "nothing is refused once the policy is gone, and no profile is left",
        policies::deleted,
    ),
    case(
        "strictest",
        READY,
        "`kubectl exec` works under a policy that allows almost nothing",
        policies::strictest,
    ),
    case(
        "debug-container",
        READY,
        "a container that `kubectl debug` adds is protected as the others are",
        policies::debug_container,
    ),
    case(
        "bad-policy",
        READY,
        "a policy with a mistake is refused with a sentence",
        policies::with_a_mistake,
    ),
    case(
        "apparmor",
        READY,
        "AppArmor protects a Deployment",
        combined::apparmor,
    ),
    case(
        "seccomp",
        READY,
        "Seccomp protects a Deployment",
        combined::seccomp,
    ),
    case(
        "apparmor-bpf-seccomp",
        READY,
        "each of three enforcers holds its rules in one pod",
        combined::all_three,
    ),
    case(
        "kinds-apparmor",
        READY,
        "AppArmor protects a Deployment, a StatefulSet, a DaemonSet and a Pod",
        |session| combinations::hold(session, "AppArmor"),
    ),
    case(
        "kinds-seccomp",
        READY,
        "Seccomp protects a Deployment, a StatefulSet, a DaemonSet and a Pod",
        |session| combinations::hold(session, "Seccomp"),
    ),
    case(
        "kinds-apparmorbpf",
        READY,
        "AppArmor and BPF protect a Deployment, a StatefulSet, a DaemonSet and a Pod",
        |session| combinations::hold(session, "AppArmorBPF"),
    ),
    case(
        "kinds-apparmorseccomp",
        READY,
        "AppArmor and Seccomp protect a Deployment, a StatefulSet, a DaemonSet and a Pod",
        |session| combinations::hold(session, "AppArmorSeccomp"),
    ),
    case(
        "kinds-bpfseccomp",
        READY,
        "BPF and Seccomp protect a Deployment, a StatefulSet, a DaemonSet and a Pod",
        |session| combinations::hold(session, "BPFSeccomp"),
    ),
    case(
        "kinds-apparmorbpfseccomp",
        READY,
        "all three enforcers protect a Deployment, a StatefulSet, a DaemonSet and a Pod",
        |session| combinations::hold(session, "AppArmorBPFSeccomp"),
    ),
    case(
        "update-existing",
        READY,
        "pods that ran before an AppArmor policy are replaced on request",
        combined::update_existing,
    ),
    case(
        "to-services",
        READY,
        "a rule about a Service follows its endpoints",
        egress::to_services,
    ),
    case(
        "pod-self",
        READY,
        "a rule about the pod's own address means another address in each pod",
        egress::pod_self,
    ),
    case(
        "recorded",
        READY,
        "what a workload does is recorded, becomes a model, and nothing else is allowed under it",
        recording::recorded_and_enforced,
    ),
    case(
        "agent-killed",
        READY,
        "protection holds while the agent is gone, and the agent comes back",
        life::agent_killed,
    ),
    case(
        "controller-killed",
        READY,
        "another replica leads, and policies become Ready as before",
        life::controller_killed,
    ),
    case(
        "node-rebooted",
        READY,
        "a node that was turned off and on protects as before",
        life::node_rebooted,
    ),
    case(
        "chart-upgrade",
        READY,
        "protection holds during an upgrade of the chart",
        life::upgraded,
    ),
    case(
        "chart-uninstall",
        Some("chart-install"),
        "nothing is left in the cluster and on the nodes",
        life::uninstalled,
    ),
];
