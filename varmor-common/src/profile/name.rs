//! Names of profiles.

use crate::fingerprint::fnv1a;

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

/// The name for a policy whose [`profile_name`] another policy has already, which is possible because `-` separates the
/// parts and is allowed within them: `a/b-c` and `a-b/c`. The same name and eight hexadecimal digits of a hash of the parts.
#[must_use]
pub fn profile_name_apart(namespace: Option<&str>, name: &str) -> String {
    // The separator is in neither part.
    let parts = [namespace.unwrap_or_default(), "/", name];
    let hash = fnv1a(parts.into_iter().flat_map(str::bytes));
    format!("{}-{:08x}", profile_name(namespace, name), hash >> 32)
}
