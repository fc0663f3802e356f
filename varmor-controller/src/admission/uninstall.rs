//! What has to go before the controller does: policies while somebody can still react to them, then the webhooks, whose
//! absence must not keep the API server waiting, then what would never go by itself.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::time::sleep;
use varmor_common::policy::{ArmorProfile, VarmorClusterPolicy, VarmorPolicy};

use super::configuration::{MUTATING, VALIDATING};
use crate::PAGE;
use crate::certificate::{authority_secret, pair_secret};

/// What has been away for so long does not come back.
const QUIET: Duration = Duration::from_secs(6);

const POLL: Duration = Duration::from_secs(1);

/// Options of the subcommand.
#[derive(Args, Clone, Debug)]
pub struct UninstallOptions {
    /// Keep the policies: they protect again when the product is installed again.
    #[arg(long)]
    pub keep_policies: bool,

    /// The Deployment of the controller, which is stopped so that it does not put back what is removed.
    #[arg(long, default_value = "varmor-manager", value_name = "NAME")]
    pub deployment: String,

    /// The Lease by which one replica leads.
    #[arg(long, default_value = "varmor-manager", value_name = "NAME")]
    pub lease: String,

    /// How long to wait for nodes and controller to react, in seconds.
    #[arg(long, default_value_t = 45, value_name = "SECONDS")]
    pub patience: u64,
}

/// Removes everything that the chart does not know of. It can be repeated.
pub async fn uninstall(client: &Client, namespace: &str, options: &UninstallOptions) -> Result<()> {
    let patience = Duration::from_secs(options.patience);
    if !options.keep_policies {
        let cluster = delete_all::<VarmorClusterPolicy>(client).await?;
        let namespaced = delete_all::<VarmorPolicy>(client).await?;
        tracing::info!(cluster, namespaced, "the policies are deleted");
        let left = wait_until_gone(client, patience).await?;
        if left > 0 {
            tracing::warn!(
                profiles = left,
                "nobody reacted to the deletion of these; they are released"
            );
        }
    }
    stop(client, namespace, &options.deployment, patience).await?;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    delete_for_good(&mutating, MUTATING, patience).await?;
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    delete_for_good(&validating, VALIDATING, patience).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    for name in [pair_secret(namespace), authority_secret(namespace)] {
        delete(&secrets, &name).await?;
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    delete(&leases, &options.lease).await?;
    if !options.keep_policies {
        release_namespaced::<ArmorProfile>(client).await?;
        release_namespaced::<VarmorPolicy>(client).await?;
        let resource = ApiResource::erase::<VarmorClusterPolicy>(&());
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for object in list::<VarmorClusterPolicy>(client).await? {
            release(&api, &object).await?;
        }
    }
    tracing::info!("the webhooks, their certificate and all finalizers are removed");
    Ok(())
}

/// Every object of a kind, page by page; none if the kind is not installed.
async fn list<K: Resource<DynamicType = ()>>(client: &Client) -> Result<Vec<DynamicObject>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let mut params = ListParams::default().limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Err(error) if is_absent(&error) => return Ok(objects),
            page => page.with_context(|| format!("list {}", K::plural(&())))?,
        };
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

async fn delete_all<K: Resource<DynamicType = ()>>(client: &Client) -> Result<usize> {
    let resource = ApiResource::erase::<K>(&());
    let objects = list::<K>(client).await?;
    for object in &objects {
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        delete(&api, &object.name_any()).await?;
    }
    Ok(objects.len())
}

/// Deletes until it stays away: a replica that is still ending, which no Deployment counts, may put it back.
async fn delete_for_good<K>(api: &Api<K>, name: &str, patience: Duration) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let start = Instant::now();
    let mut quiet_since = Instant::now();
    delete(api, name).await?;
    while quiet_since.elapsed() < QUIET {
        sleep(POLL).await;
        let found = api.get_opt(name).await;
        if found.with_context(|| format!("look for {name}"))?.is_none() {
            continue;
        }
        anyhow::ensure!(
            start.elapsed() < patience,
            "{name} comes back each time that it is deleted; stop the controller"
        );
        delete(api, name).await?;
        quiet_since = Instant::now();
    }
    Ok(())
}

/// Waits for the profiles to go, which is when the controller has let them go; how many are left.
async fn wait_until_gone(client: &Client, patience: Duration) -> Result<usize> {
    let start = Instant::now();
    loop {
        let left = list::<ArmorProfile>(client).await?.len();
        if left == 0 || start.elapsed() >= patience {
            return Ok(left);
        }
        sleep(POLL).await;
    }
}

/// Scales the controller to nothing and waits for that. Without it the webhooks come back within half a minute.
async fn stop(client: &Client, namespace: &str, name: &str, patience: Duration) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    match deployments.patch(name, &PatchParams::default(), &none).await {
        Err(error) if is_absent(&error) => {
            tracing::info!(
                namespace,
                name,
                "the controller is no Deployment of this name; stop it yourself"
            );
            return Ok(());
        }
        patched => patched.with_context(|| format!("stop the Deployment {namespace}/{name}"))?,
    };
    let start = Instant::now();
    while start.elapsed() < patience {
        let status = deployments.get_opt(name).await?.and_then(|one| one.status);
        if status.and_then(|status| status.replicas).unwrap_or(0) == 0 {
            return Ok(());
        }
        sleep(POLL).await;
    }
    tracing::warn!(namespace, name, "the controller has not stopped yet");
    Ok(())
}

async fn release_namespaced<K>(client: &Client) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let resource = ApiResource::erase::<K>(&());
    for object in list::<K>(client).await? {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
        release(&api, &object).await?;
    }
    Ok(())
}

/// Takes the finalizers of this product away, so that the object and its namespace can be deleted.
async fn release(api: &Api<DynamicObject>, object: &DynamicObject) -> Result<()> {
    let all = object.finalizers();
    let kept: Vec<&String> = all
        .iter()
        .filter(|name| !name.starts_with("varmor.org/"))
        .collect();
    if kept.len() == all.len() {
        return Ok(());
    }
    let name = object.name_any();
    // The version makes sure that no finalizer that came meanwhile is lost; then it is repeated with the next attempt.
    let patch = json!({"metadata": {"finalizers": kept, "resourceVersion": object.resource_version()}});
    match api
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await
    {
        Err(error) if is_absent(&error) => Ok(()),
        patched => patched.map(|_| ()).with_context(|| format!("release {name}")),
    }
}

async fn delete<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match api.delete(name, &DeleteParams::default()).await {
        Err(error) if is_absent(&error) => Ok(()),
        deleted => deleted.map(|_| ()).with_context(|| format!("delete {name}")),
    }
}

fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
