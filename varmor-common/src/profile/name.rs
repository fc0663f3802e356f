//! Names of profiles.

/// The namespace that the manager of a cluster runs in; part of the names of cluster policies' profiles.
pub const MANAGER_NAMESPACE: &str = "varmor";

/// The name of a policy's profile: `varmor-{namespace}-{name}`, for a cluster policy (no namespace)
/// `varmor-cluster-{manager's namespace}-{name}`.
#[must_use]
pub fn profile_name(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("varmor-{namespace}-{name}"),
        None => format!("varmor-cluster-{MANAGER_NAMESPACE}-{name}"),
    }
    .to_lowercase()
}
