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

/// The name for a policy whose [`profile_name`] another policy has already, which is possible because `-` separates the
/// parts and is allowed within them: `a/b-c` and `a-b/c`. The same name and eight hexadecimal digits of a hash of the parts.
#[must_use]
pub fn profile_name_apart(namespace: Option<&str>, name: &str) -> String {
    // FNV-1a over the parts with a separator that neither may contain.
    let parts = [namespace.unwrap_or_default(), "/", name];
    let hash = parts
        .iter()
        .flat_map(|part| part.bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    format!("{}-{:08x}", profile_name(namespace, name), hash >> 32)
}
