//! One policy straight from the API server.

use kube::api::ApiResource;
use kube::core::DynamicObject;
use kube::{Api, Client};
use varmor_common::policy::{VarmorClusterPolicy, VarmorPolicy};
use varmor_common::profile::profile_name;

use super::Known;

/// The policy with this identity and the name of its profile; none if there is none, if it is being deleted, if it is not
/// about `namespace`, or if it cannot be read.
pub(crate) async fn lookup(
    client: &Client,
    namespace: &str,
    identity: &str,
) -> Result<Option<(Known, String)>, kube::Error> {
    let (api, name) = if let Some(name) = identity.strip_prefix("VarmorClusterPolicy ") {
        let resource = ApiResource::erase::<VarmorClusterPolicy>(&());
        (Api::<DynamicObject>::all_with(client.clone(), &resource), name)
    } else {
        let resource = ApiResource::erase::<VarmorPolicy>(&());
        let parts = identity
            .strip_prefix("VarmorPolicy ")
            .and_then(|rest| rest.split_once('/'));
        let Some((_, name)) = parts.filter(|(there, _)| *there == namespace) else {
            return Ok(None);
        };
        (Api::namespaced_with(client.clone(), namespace, &resource), name)
    };
    // The name comes from an annotation, and a name of an object never has these.
    if name.is_empty() || name.contains(['/', '?', '#', '%']) {
        return Ok(None);
    }
    let object = api.get_opt(name).await?;
    let living = object.filter(|object| object.metadata.deletion_timestamp.is_none());
    Ok(living.and_then(|object| {
        let policy = Known::read(&object).ok()?;
        let usual = || profile_name(policy.namespace.as_deref(), &policy.name);
        let profile = policy.profile.clone().unwrap_or_else(usual);
        Some((policy, profile))
    }))
}
