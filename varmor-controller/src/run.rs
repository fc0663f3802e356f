//! The running controller: which parts there are, and when each is started.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures_util::future::join_all;
use kube::{Client, Config};
use tokio::sync::watch;

use crate::context::{Context, Settings};
use crate::https::{self, TlsWatch};
use crate::leader::Election;
use crate::metrics::{self, Gauges, Metrics};
use crate::options::{RunOptions, UninstallArguments};
use crate::{admission, policy, report, status, watches};

/// Runs until a signal comes or this replica must not go on.
pub async fn run(options: RunOptions) -> Result<()> {
    let client = connect(options.kubeconfig.as_deref()).await?;
    let metrics = Arc::new(Metrics::default());
    let context = Context::new(client.clone(), settings(&options), Arc::clone(&metrics));
    let told = context.clone();
    let health = metrics::router(Arc::clone(&metrics), move || gauges(&told));
    // These run on every replica, whether it leads or not.
    let place = admission::Place {
        namespace: options.namespace.clone(),
        address: (!options.no_webhook).then_some(options.webhook_address),
        match_label: options.webhook_match_label.clone(),
    };
    let hooks = admission::Hooks {
        served: Arc::new(move |served| metrics.admission(served)),
    };
    let (admission, tls) = admission::start(client.clone(), place, options.admission.clone(), hooks)?;
    let duration = Duration::from_secs(options.lease_duration.into());
    let election =
        Election::new(&client, &options.namespace, &options.lease, &options.pod_name).with_duration(duration);
    tokio::select! {
        ended = https::serve_plain(options.metrics_address, health) => ended.context("serve metrics and health"),
        ended = admission => ended,
        ended = lead(&context, &election, &options, tls) => ended,
        ended = signal() => {
            ended?;
            tracing::info!("the controller ends");
            election.give_up().await.context("give the Lease back")
        }
    }
}

/// Waits for the Lease and does the leader's work for as long as it is held.
async fn lead(context: &Context, election: &Election, options: &RunOptions, tls: TlsWatch) -> Result<()> {
    election.win().await;
    context.metrics.lead();
    tokio::select! {
        lost = election.hold() => Err(lost.into()),
        ended = work(context) => ended,
        ended = https::serve(options.report_address, tls, report::router(context.clone())) => ended.context("serve reports"),
        never = keep_label(election) => never,
    }
}

/// Everything that only one replica may do, but for serving reports. Never ends without an error.
pub async fn work(context: &Context) -> Result<()> {
    let (sender, mut synced) = watch::channel(0);
    let reconciling = async {
        // A table that is incomplete would show policies as gone and names as free.
        let complete = synced.wait_for(|count| *count >= watches::TABLES).await;
        complete.context("the watches ended")?;
        context.metrics.synced();
        tracing::info!("the cluster is read");
        context.queue.extend(context.world().every_key());
        let workers = (0..context.settings.workers).map(|_| worker(context));
        tokio::join!(join_all(workers), status::run(context));
        bail!("the workers ended")
    };
    tokio::select! {
        () = watches::run(context, sender) => bail!("the watches ended"),
        ended = reconciling => ended,
    }
}

/// Takes one policy after the other.
async fn worker(context: &Context) {
    loop {
        let key = context.queue.next().await;
        let started = Instant::now();
        let result = policy::reconcile(context, &key).await;
        context.metrics.reconciled(started.elapsed(), result.is_ok());
        match result {
            Ok(again) => {
                context.queue.done(&key);
                if let Some(pause) = again {
                    context.queue.add_after(key, pause);
                }
            }
            Err(error) => {
                let pause = context.queue.failed(&key);
                tracing::warn!(policy = %key, error = crate::told(&error), ?pause, "a policy failed; it is tried again");
            }
        }
    }
}

/// The Service for reports finds the leader by a label, which somebody may take away.
async fn keep_label(election: &Election) -> Result<()> {
    loop {
        if let Err(error) = election.label().await {
            tracing::warn!(
                error = crate::told(&error),
                "cannot label the pod of the leader; agents may not find it"
            );
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
}

/// Takes an installation down.
pub async fn uninstall(arguments: UninstallArguments) -> Result<()> {
    let client = connect(arguments.kubeconfig.as_deref()).await?;
    admission::uninstall(&client, &arguments.namespace, &arguments.options).await
}

async fn connect(kubeconfig: Option<&Path>) -> Result<Client> {
    let config = match kubeconfig {
        Some(file) => {
            let read = kube::config::Kubeconfig::read_from(file)
                .with_context(|| format!("read the file {} of --kubeconfig", file.display()))?;
            Config::from_custom_kubeconfig(read, &kube::config::KubeConfigOptions::default())
                .await
                .with_context(|| format!("use the file {} of --kubeconfig", file.display()))?
        }
        None => Config::infer()
            .await
            .context("find the API server; give --kubeconfig outside of a cluster")?,
    };
    Client::try_from(config).context("connect to the API server")
}

fn settings(options: &RunOptions) -> Settings {
    Settings {
        namespace: options.namespace.clone(),
        pod_name: options.pod_name.clone(),
        agent_service_account: options.agent_service_account.clone(),
        agent_selector: options.agent_selector.clone(),
        match_label: options.webhook_match_label.clone(),
        workers: usize::from(options.workers),
    }
}

fn gauges(context: &Context) -> Gauges {
    let (policies, profiles) = {
        let world = context.world();
        (world.policies().count(), world.profiles().count())
    };
    let census = context.nodes().census(Instant::now());
    Gauges {
        policies,
        profiles,
        nodes: census.desired,
        lost: census.lost.len(),
        queue: context.queue.len(),
    }
}

async fn signal() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("listen for the signal to end")?;
    tokio::select! {
        _ = terminate.recv() => {}
        ended = tokio::signal::ctrl_c() => ended.context("listen for the signal to end")?,
    }
    Ok(())
}
