//! The calls to the API server that reconciling makes.

use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::desired::{FINALIZER, ROLLED};
use crate::MANAGER;
use crate::object::{PolicyKey, Profile, ProfileKey, model_resource};

/// The `ArmorProfile`s of a namespace.
pub(super) fn profiles(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &Profile::resource())
}

/// The uid of the policy as the API server has it now.
pub(super) async fn live_uid(client: &Client, key: &PolicyKey) -> Result<Option<String>, kube::Error> {
    let api: Api<DynamicObject> = match &key.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &key.resource()),
        None => Api::all_with(client.clone(), &key.resource()),
    };
    let found = api.get_opt(&key.name).await?;
    Ok(found.and_then(|object| object.uid()))
}

/// Writes an `ArmorProfile` as a whole.
pub(super) async fn apply(
    client: &Client,
    key: &ProfileKey,
    object: &Value,
) -> Result<Option<Profile>, kube::Error> {
    let params = PatchParams::apply(MANAGER).force();
    let written = profiles(client, &key.namespace)
        .patch(&key.name, &params, &Patch::Apply(object))
        .await?;
    Ok(Profile::read(written))
}

/// Whether an object of this name exists.
pub(super) async fn exists(client: &Client, key: &ProfileKey) -> Result<bool, kube::Error> {
    Ok(profiles(client, &key.namespace)
        .get_metadata_opt(&key.name)
        .await?
        .is_some())
}

/// Deletes exactly this object. One that is gone is no error.
pub(super) async fn delete(client: &Client, profile: &Profile) -> Result<(), kube::Error> {
    let params = DeleteParams::background().preconditions(Preconditions {
        uid: Some(profile.uid.clone()),
        resource_version: None,
    });
    let deleted = profiles(client, &profile.key.namespace)
        .delete(&profile.key.name, &params)
        .await;
    deleted.map(|_| ()).or_else(not_found_is_fine)
}

/// Takes our finalizer from exactly this object.
pub(super) async fn release(client: &Client, profile: &Profile) -> Result<(), kube::Error> {
    let rest: Vec<&String> = profile
        .finalizers
        .iter()
        .filter(|one| *one != FINALIZER)
        .collect();
    if rest.len() == profile.finalizers.len() {
        return Ok(());
    }
    let api = profiles(client, &profile.key.namespace);
    // The version guards the finalizers of others, which a merge replaces.
    let Some(live) = api.get_metadata_opt(&profile.key.name).await? else {
        return Ok(());
    };
    let rest: Vec<&String> = live.finalizers().iter().filter(|one| *one != FINALIZER).collect();
    let metadata =
        json!({"uid": profile.uid, "resourceVersion": live.resource_version(), "finalizers": rest});
    let patched = api
        .patch(
            &profile.key.name,
            &PatchParams::default(),
            &Patch::Merge(json!({"metadata": metadata})),
        )
        .await;
    patched.map(|_| ()).or_else(not_found_is_fine)
}

/// Remembers that the existing workloads have been rolled.
pub(super) async fn mark_rolled(
    client: &Client,
    key: &ProfileKey,
    uid: &str,
) -> Result<Option<Profile>, kube::Error> {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {ROLLED: uid}}}));
    let written = profiles(client, &key.namespace)
        .patch(&key.name, &PatchParams::default(), &patch)
        .await?;
    Ok(Profile::read(written))
}

/// The `ArmorProfileModel` of this name, without what changes on its own.
pub(super) async fn model(client: &Client, key: &ProfileKey) -> Result<Option<Value>, kube::Error> {
    let resource = model_resource();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &key.namespace, &resource);
    let Some(object) = api.get_opt(&key.name).await? else {
        return Ok(None);
    };
    let mut model = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": key.name, "namespace": key.namespace},
    });
    for field in ["storageType", "data"] {
        if let Some(value) = object.data.get(field) {
            model[field] = value.clone();
        }
    }
    Ok(Some(model))
}

fn not_found_is_fine(error: kube::Error) -> Result<(), kube::Error> {
    match error {
        kube::Error::Api(status) if status.is_not_found() => Ok(()),
        error => Err(error),
    }
}
