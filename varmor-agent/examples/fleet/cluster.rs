//! The objects of the cluster: pods, workloads, the agents' accounts, policies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use varmor_common::policy::{ArmorProfile, VarmorPolicy};
use varmor_common::report::TOKEN_AUDIENCE;

use super::{Options, policies::Policies};

/// The namespace of the controller.
const SYSTEM: &str = "varmor";
const ACCOUNT: &str = "varmor-agent";
/// Namespaces with workloads.
const NAMESPACES: usize = 10;
/// One policy in so many names pods that its containers may not reach.
const WITH_PODS: usize = 20;
/// Requests at the same time.
const AT_ONCE: usize = 16;
/// Policies that wait for nodes at the same time.
pub(crate) const AHEAD: usize = 100;

#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
}

impl Cluster {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Everything but policies and nodes. How many pods there are.
    pub(crate) async fn prepare(&self, options: &Options) -> Result<usize> {
        let namespaces = self.api("", "v1", "Namespace", "namespaces", None);
        for number in 0..NAMESPACES {
            create(&namespaces, &json!({"metadata": {"name": namespace(number)}})).await?;
        }
        let accounts = self.api("", "v1", "ServiceAccount", "serviceaccounts", Some(SYSTEM));
        create(&accounts, &json!({"metadata": {"name": ACCOUNT}})).await?;
        self.each(options.policies, |number| async move {
            let api = self.api(
                "apps",
                "v1",
                "Deployment",
                "deployments",
                Some(&namespace(number)),
            );
            create(&api, &workload(number)).await
        })
        .await?;
        self.each(options.pods, |number| async move {
            let workload = number % options.policies;
            let api = self.api("", "v1", "Pod", "pods", Some(&namespace(workload)));
            create(&api, &pod(number, workload, number % options.nodes)).await
        })
        .await?;
        Ok(options.pods)
    }

    /// A token of the agent on this node, which is bound to a pod there.
    pub(crate) async fn agent(&self, node: &str) -> Result<String> {
        let pods = self.api("", "v1", "Pod", "pods", Some(SYSTEM));
        let name = format!("agent-{node}");
        let known = asked(async || pods.get_opt(&name).await)
            .await
            .context("look for an agent's pod")?;
        let pod = if let Some(pod) = known {
            pod
        } else {
            let pod = json!({
                "metadata": {"name": name, "labels": {"app": ACCOUNT}},
                "spec": {"nodeName": node, "serviceAccountName": ACCOUNT, "containers": [{"name": "agent", "image": "agent"}]},
            });
            create(&pods, &pod).await?
        };
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.metadata.uid});
        let request: TokenRequest =
            serde_json::from_value(json!({"spec": {"audiences": [TOKEN_AUDIENCE], "boundObjectRef": bound}}))
                .context("a request for a token")?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), SYSTEM);
        let parameters = PostParams::default();
        let made = asked(async || {
            accounts
                .create_token_request(ACCOUNT, &parameters, &request)
                .await
        })
        .await
        .context("ask for a token")?;
        Ok(made.status.context("the answer has no token")?.token)
    }

    /// The authority of the controller's certificate.
    pub(crate) async fn authority(&self) -> Result<Vec<u8>> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), SYSTEM);
        let name = format!("varmor-webhook-svc.{SYSTEM}.varmor-tls-ca");
        let secret = asked(async || secrets.get(&name).await)
            .await
            .context("the controller's authority")?;
        let mut data = secret.data.unwrap_or_default();
        Ok(data
            .remove("rootCA.crt")
            .context("the Secret has no rootCA.crt")?
            .0)
    }

    /// At most `AHEAD` of them are not in force at any time: the nodes share the processors with the API server, and one that
    /// is asked for more than it can tell them closes their watches, which costs it all the more.
    pub(crate) async fn create_policies(&self, number: usize, policies: &Policies) -> Result<()> {
        self.each(number, |number| async move {
            policies.until_ready(number.saturating_sub(AHEAD)).await?;
            create(&self.policies(number), &policy(number)).await
        })
        .await
    }

    /// Changes the rules of the first policies.
    pub(crate) async fn change_policies(&self, number: usize) -> Result<()> {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)?
            .as_nanos();
        let change = json!({"spec": {"policy": {"enhanceProtect": {"bpfRawRules": {
            "files": [{"qualifiers": ["deny"], "pattern": format!("/srv/{now}/**"), "permissions": ["write"]}]}}}}});
        self.each(number, |number| {
            let change = Patch::Merge(change.clone());
            async move {
                let (api, name) = (self.policies(number), format!("policy-{number}"));
                let parameters = PatchParams::default();
                asked(async || api.patch(&name, &parameters, &change).await)
                    .await
                    .context("change a policy")
            }
        })
        .await
    }

    /// As they were created: no more than `AHEAD` are on their way out at any time.
    pub(crate) async fn delete_policies(&self, all: usize, policies: &Policies) -> Result<()> {
        self.each(all, |number| async move {
            policies.until_at_most(all - number + AHEAD).await?;
            let (api, name) = (self.policies(number), format!("policy-{number}"));
            match asked(async || api.delete(&name, &DeleteParams::default()).await).await {
                // It was deleted, and the connection closed before the answer came.
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
                other => other.map(drop).context("delete a policy"),
            }
        })
        .await
    }

    /// Generation of each profile, by namespace and name.
    pub(crate) async fn profiles(&self) -> Result<BTreeMap<String, i64>> {
        let api: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &ApiResource::erase::<ArmorProfile>(&()));
        let list = asked(async || api.list(&ListParams::default()).await)
            .await
            .context("list the profiles")?;
        let entry = |object: DynamicObject| {
            let metadata = object.metadata;
            let name = format!(
                "{}/{}",
                metadata.namespace.unwrap_or_default(),
                metadata.name.unwrap_or_default()
            );
            (name, metadata.generation.unwrap_or_default())
        };
        Ok(list.items.into_iter().map(entry).collect())
    }

    pub(crate) async fn until_no_profiles(&self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let left = self.profiles().await?.len();
            if left == 0 {
                return Ok(());
            }
            ensure!(start.elapsed() < limit, "{left} profiles are left");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    fn policies(&self, number: usize) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<VarmorPolicy>(&());
        Api::namespaced_with(self.client.clone(), &namespace(number), &kind)
    }

    fn api(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
            None => Api::all_with(self.client.clone(), &kind),
        }
    }

    /// Does this for every number, several at a time.
    async fn each<F, O>(&self, number: usize, work: impl Fn(usize) -> F) -> Result<()>
    where
        F: Future<Output = Result<O>>,
    {
        stream::iter((0..number).map(work))
            .buffer_unordered(AT_ONCE)
            .try_for_each(|_| async { Ok(()) })
            .await
    }
}

/// Asks again where no answer came: the API server may close a connection just as it is used again.
async fn asked<T>(ask: impl AsyncFn() -> kube::Result<T>) -> kube::Result<T> {
    let mut tries = 0;
    loop {
        match ask().await {
            Err(kube::Error::Service(_)) if tries < 3 => tries += 1,
            answer => return answer,
        }
    }
}

async fn create(api: &Api<DynamicObject>, object: &Value) -> Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object.clone()).context("an object")?;
    let name = object.metadata.name.clone().unwrap_or_default();
    let parameters = PostParams::default();
    match asked(async || api.create(&parameters, &object).await).await {
        // It was made by an answer that came too late.
        Err(kube::Error::Api(status)) if status.is_already_exists() => asked(async || api.get(&name).await)
            .await
            .with_context(|| format!("read {name}")),
        other => other.with_context(|| format!("create {name}")),
    }
}

fn namespace(number: usize) -> String {
    format!("scale-{}", number % NAMESPACES)
}

fn workload(number: usize) -> Value {
    let labels = json!({"app": format!("app-{number}"), "sandbox.varmor.org/enable": "true"});
    json!({
        "metadata": {"name": format!("app-{number}"), "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": format!("app-{number}")}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

fn pod(number: usize, workload: usize, node: usize) -> Value {
    json!({
        "metadata": {"name": format!("app-{workload}-{number}"), "labels": {"app": format!("app-{workload}")}},
        "spec": {"nodeName": format!("node-{node}"), "containers": [{"name": "c", "image": "i"}]},
    })
}

fn policy(number: usize) -> Value {
    let mut rules = json!({
        "hardeningRules": ["disallow-mount", "disallow-umount", "disable-cap-privileged"],
        "attackProtectionRules": [{"rules": ["mitigate-sa-leak", "disable-shell"]}],
        "bpfRawRules": {"files": [{"qualifiers": ["deny"], "pattern": "/etc/**", "permissions": ["write"]}]},
    });
    if number.is_multiple_of(WITH_PODS) {
        rules["bpfRawRules"]["network"] = json!({"egress": {"toPods": [{
            "qualifiers": ["deny"], "namespace": namespace(number),
            "podSelector": {"matchLabels": {"app": format!("app-{}", number + NAMESPACES)}}, "ports": [{"port": 80}]}]}});
    }
    json!({
        "apiVersion": "crd.varmor.org/v1beta1", "kind": "VarmorPolicy",
        "metadata": {"name": format!("policy-{number}")},
        "spec": {
            "target": {"kind": "Deployment", "name": format!("app-{number}")},
            "policy": {"enforcer": "BPF", "mode": "EnhanceProtect", "enhanceProtect": rules},
        },
    })
}
