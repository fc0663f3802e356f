//! What is proven in the cluster: the cases in their order.

mod cluster;
mod session;

use anyhow::Result;
pub(super) use session::Session;

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
];
