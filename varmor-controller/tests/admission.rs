//! Admission and its certificate against a real API server: the one of the configuration file in `VARMOR_TEST_KUBECONFIG`,
//! which must be able to connect to this machine's loopback address. Nothing else may use that cluster: all of its
//! policies are deleted.

use std::fmt::Debug;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, CustomResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use varmor_common::policy::{VarmorClusterPolicy, VarmorPolicy};
use varmor_controller::admission::{self, Hooks, Options, Place, UninstallOptions};
use varmor_controller::certificate::{authority_secret, pair_secret};

/// The controller's own namespace.
const SYSTEM: &str = "varmor";
const MUTATING: &str = "varmor-resource-mutating-webhook-cfg";

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_and_policies_are_admitted_by_a_real_api_server() -> Result<()> {
    let Some(file) = std::env::var_os("VARMOR_TEST_KUBECONFIG") else {
        eprintln!("skipped: VARMOR_TEST_KUBECONFIG names no cluster");
        return Ok(());
    };
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(&file)?, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let namespace = format!("admission-{}", std::process::id());
    install(&client, &[SYSTEM, &namespace]).await?;
    let running = start(&client)?;
    let policies: Api<VarmorPolicy> = Api::namespaced(client.clone(), &namespace);
    policies_are_checked(&policies).await.context("policies")?;
    Box::pin(workloads_are_mutated_and_restored(&client, &policies, &namespace))
        .await
        .context("workloads")?;
    registrations_come_back(&client).await.context("registrations")?;
    a_damaged_certificate_is_replaced(&client, &policies)
        .await
        .context("certificate")?;
    running.abort();
    nothing_is_left(&client, &policies).await.context("uninstall")?;
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete(&namespace, &DeleteParams::default()).await?;
    Ok(())
}

async fn install(client: &Client, namespaces: &[&str]) -> Result<()> {
    let params = PatchParams::apply("test").force();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in [VarmorPolicy::crd(), VarmorClusterPolicy::crd()] {
        let name = definition.metadata.name.clone().context("a name")?;
        definitions
            .patch(&name, &params, &Patch::Apply(&definition))
            .await?;
    }
    let all: Api<Namespace> = Api::all(client.clone());
    for name in namespaces {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        all.patch(name, &params, &Patch::Apply(&namespace)).await?;
    }
    Ok(())
}

/// Starts what a replica runs.
fn start(client: &Client) -> Result<JoinHandle<Result<()>>> {
    let address: SocketAddr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let url = format!("https://{address}");
    let options = Command::parse_from(["test", "--webhook-url", &url, "--failure-policy", "Fail"]).options;
    let place = Place {
        namespace: SYSTEM.to_owned(),
        address: Some(address),
        match_label: "protect=yes".to_owned(),
    };
    let (running, _) = admission::start(client.clone(), place, options, Hooks::default())?;
    Ok(tokio::spawn(running))
}

/// Repeats until `done` or, after a minute, fails with what was seen last.
async fn until<T: Debug>(attempt: impl AsyncFn() -> Result<T>, done: impl Fn(&T) -> bool) -> Result<T> {
    let start = Instant::now();
    loop {
        let seen = attempt().await;
        match seen {
            Ok(value) if done(&value) => return Ok(value),
            other => ensure!(start.elapsed() < Duration::from_mins(1), "in vain: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

fn policy(name: &str, enforcer: &str, more: &Value) -> Result<VarmorPolicy> {
    let mut policy = json!({"enforcer": enforcer, "mode": "RuntimeDefault"});
    for (key, value) in more.as_object().into_iter().flatten() {
        policy[key] = value.clone();
    }
    Ok(serde_json::from_value(json!({
        "apiVersion": "crd.varmor.org/v1beta1", "kind": "VarmorPolicy", "metadata": {"name": name},
        "spec": {"target": {"kind": "Deployment", "name": "web"}, "policy": policy},
    }))?)
}

fn message<T: Debug>(result: Result<T, kube::Error>) -> Result<String> {
    match result {
        Err(kube::Error::Api(status)) => Ok(status.message.clone()),
        other => anyhow::bail!("not refused: {other:?}"),
    }
}

async fn policies_are_checked(policies: &Api<VarmorPolicy>) -> Result<()> {
    let wrong = policy(
        "wrong",
        "BPF",
        &json!({"mode": "EnhanceProtect", "enhanceProtect": {"hardeningRules": ["disallow-umont"]}}),
    )?;
    let refused = |text: &String| {
        text.contains("there is no built-in rule `disallow-umont`; did you mean `disallow-umount`?")
    };
    until(
        async || message(policies.create(&PostParams::default(), &wrong).await),
        refused,
    )
    .await?;
    let good = policy("web", "AppArmorBPFSeccomp", &json!({}))?;
    policies.create(&PostParams::default(), &good).await?;
    let less = json!({"spec": {"policy": {"enforcer": "BPF"}}});
    let text = message(
        policies
            .patch("web", &PatchParams::default(), &Patch::Merge(&less))
            .await,
    )?;
    ensure!(text.contains("AppArmor and Seccomp cannot be removed"), "{text}");
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    policies
        .patch("web", &PatchParams::default(), &Patch::Merge(&labels))
        .await?;
    Ok(())
}

fn deployment(labels: &Value) -> Result<Deployment> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": labels},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}, {"name": "side", "image": "side", "securityContext": {
                "privileged": true, "seccompProfile": {"type": "Unconfined"}}}]},
        }},
    }))?)
}

fn template(deployment: &Deployment) -> Result<Value> {
    Ok(json!(deployment.spec.as_ref().context("a spec")?.template))
}

async fn workloads_are_mutated_and_restored(
    client: &Client,
    policies: &Api<VarmorPolicy>,
    namespace: &str,
) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let labelled = deployment(&json!({"protect": "yes"}))?;
    let plain = deployments.create(&dry, &deployment(&json!({}))?).await?;
    // The policy reaches the webhook a moment after it was stored.
    until(
        async || template(&deployments.create(&dry, &labelled).await?),
        |seen| *seen != template(&plain).unwrap_or_default(),
    )
    .await?;
    let created = deployments.create(&PostParams::default(), &labelled).await?;
    let seen = template(&created)?;
    let profile = format!("varmor-{namespace}-web");
    let context = &seen["spec"]["containers"][0]["securityContext"];
    ensure!(
        context["appArmorProfile"] == json!({"type": "Localhost", "localhostProfile": profile}),
        "{seen}"
    );
    ensure!(
        context["seccompProfile"] == json!({"type": "RuntimeDefault"}),
        "{seen}"
    );
    let mark = "container.bpf.security.beta.varmor.org/side";
    ensure!(
        seen["metadata"]["annotations"][mark] == format!("localhost/{profile}"),
        "{seen}"
    );
    ensure!(
        seen["spec"]["containers"][1]["securityContext"]["seccompProfile"]["type"] == "Unconfined",
        "{seen}"
    );

    let touch = |value: &str| Patch::Merge(json!({"metadata": {"annotations": {"touched": value}}}));
    let touched = deployments
        .patch("web", &PatchParams::default(), &touch("1"))
        .await?;
    let stamp = |deployment: &Deployment| {
        let annotations = deployment.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get("webhook.varmor.org/mutatedAt").cloned())
    };
    ensure!(template(&touched)? == seen, "changed twice: {touched:?}");
    ensure!(
        stamp(&created).is_some() && stamp(&touched) == stamp(&created),
        "stamped twice: {touched:?}"
    );

    let pods: Api<Pod> = Api::namespaced(client.clone(), SYSTEM);
    let own: Pod = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own", "labels": {"protect": "yes"}}, "spec": seen["spec"],
    }))?;
    let own = pods.create(&dry, &own).await?;
    ensure!(
        own.metadata
            .annotations
            .is_none_or(|all| !all.keys().any(|key| key.contains("varmor.org"))),
        "the system's own"
    );

    policies.delete("web", &DeleteParams::default()).await?;
    let restored = until(
        async || {
            template(
                &deployments
                    .patch("web", &PatchParams::default(), &touch("2"))
                    .await?,
            )
        },
        |seen| seen["metadata"].get("annotations").is_none(),
    )
    .await?;
    ensure!(restored == template(&plain)?, "{restored}");
    Ok(())
}

async fn registrations_come_back(client: &Client) -> Result<()> {
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    registrations.delete(MUTATING, &DeleteParams::default()).await?;
    until(
        async || Ok(registrations.get_opt(MUTATING).await?),
        Option::is_some,
    )
    .await?;
    Ok(())
}

async fn a_damaged_certificate_is_replaced(client: &Client, policies: &Api<VarmorPolicy>) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM);
    let bundle = async || {
        let secret = secrets.get(&authority_secret(SYSTEM)).await?;
        Ok(secret
            .data
            .and_then(|mut data| data.remove("rootCA.crt"))
            .map(|bytes| bytes.0))
    };
    let before = bundle().await?;
    let damage = json!({"data": {"tls.crt": "eA==", "ca.crt": "eA=="}});
    secrets
        .patch(
            &pair_secret(SYSTEM),
            &PatchParams::default(),
            &Patch::Merge(&damage),
        )
        .await?;
    let after = until(bundle, |seen| seen.is_some() && *seen != before).await?;
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let registered = async || {
        let webhooks = registrations.get(MUTATING).await?.webhooks.unwrap_or_default();
        let bundles = webhooks
            .into_iter()
            .filter_map(|webhook| webhook.client_config.ca_bundle);
        Ok(bundles.map(|bundle| Some(bundle.0)).collect::<Vec<_>>())
    };
    until(registered, |seen| {
        seen.len() == 2 && seen.iter().all(|one| *one == after)
    })
    .await?;
    let good = policy("later", "BPF", &json!({}))?;
    until(
        async || Ok(policies.create(&PostParams::default(), &good).await?),
        |_| true,
    )
    .await?;
    Ok(())
}

async fn nothing_is_left(client: &Client, policies: &Api<VarmorPolicy>) -> Result<()> {
    let held = json!({"metadata": {"finalizers": ["varmor.org/ap-protection"]}});
    policies
        .patch("later", &PatchParams::default(), &Patch::Merge(&held))
        .await?;
    let options = UninstallOptions {
        keep_policies: false,
        deployment: "varmor-manager".to_owned(),
        lease: "varmor-manager".to_owned(),
        patience: 1,
    };
    // The second time there is nothing to do.
    for _ in 0..2 {
        admission::uninstall(client, SYSTEM, &options).await?;
    }
    ensure!(policies.get_opt("later").await?.is_none(), "a policy is left");
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    ensure!(
        registrations.get_opt(MUTATING).await?.is_none(),
        "a registration is left"
    );
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM);
    for name in [pair_secret(SYSTEM), authority_secret(SYSTEM)] {
        ensure!(
            secrets.get_opt(&name).await?.is_none(),
            "the Secret {name} is left"
        );
    }
    Ok(())
}
