//! `varmor-agent`: reads policies, finds containers, keeps the kernel as it should be, writes what happened.
//!
//! One task owns the enforcer and everything that it is told comes to it as a message; nothing else holds it.

pub mod controller;
mod gatekeeper;
mod http;
mod lock;
mod metrics;
mod node;
mod notify;
mod options;
mod privileges;
mod services;
mod socket;
pub mod state;
mod view;
mod worker;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};
use varmor_common::policy::Enforcers;
use varmor_common::profile::Disk;

pub use options::Options;

use self::lock::InstanceLock;
use self::view::View;
use self::worker::{Outlets, Worker};
use crate::enforcer::seccomp::SeccompStore;
use crate::enforcer::{Absent, EnforcerError, ProfileStore, Resident, apparmor, bpf};
use crate::events::{LogFile, Outbox, Recorder, Rotation, otlp, standard_output};
use crate::logging::LogLevel;
use crate::reconcile::Stores;
use crate::source::cluster::{self, Cluster};
use crate::source::{Catalog, Source, folder};
use crate::{containers, kernel, logging};

/// Runs until SIGTERM or SIGINT; enforcement stays in place then.
pub fn run(options: Options) -> anyhow::Result<()> {
    let log_level = logging::install(options.log_format, &options.log_level)?;
    if options.gatekeeper {
        return gatekeeper::run(&options);
    }
    privileges::drop_others()?;
    create_state_dir(&options.state_dir)?;
    let _lock = InstanceLock::take(&options.state_dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(serve(options, log_level))
}

async fn serve(options: Options, log_level: LogLevel) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;

    let enforcer = enforcer(&options)?;
    let (rescan_sender, rescan) = mpsc::channel(1);
    let (source, source_watch) = source(&options, rescan_sender).await?;

    let (listing_sender, listing) = watch::channel(containers::Listing::default());
    let requests = Arc::new(containers::Requests::default());
    let container_watch = tokio::spawn(containers::watch(
        options.containerd_socket.clone(),
        listing_sender,
        Arc::clone(&requests),
    ));

    let recorder = recorder(&options)?;
    let mut stores = Stores::default();
    let app_armor = apparmor::open(&options.state_dir);
    stores.add(
        Enforcers::APPARMOR,
        app_armor.map(|store| Box::new(store) as Box<dyn ProfileStore>),
    );
    let seccomp = SeccompStore::open(&options.seccomp_dir, options.seccomp_flags)
        .map(|store| Box::new(store) as Box<dyn ProfileStore>)
        .map_err(|error| EnforcerError::kernel("open the folder of seccomp profiles", error));
    stores.add(Enforcers::SECCOMP, seccomp);
    let view = View::new(recorder.node_name());
    if let Some(address) = options.metrics_address {
        http::start(address, Arc::clone(&view))?;
    }
    socket::start(&options.state_dir, Arc::clone(&view), log_level)?;
    let outlets = Outlets {
        controller: controller::start(&options, recorder.node_name())?,
        recorder,
        view,
    };
    let mut worker = Worker::new(&options, enforcer, stores, source, outlets, requests)?;

    tokio::select! {
        outcome = worker.run(rescan, listing) => outcome?,
        end = source_watch => end.context("the watch of the policies ended")?,
        end = container_watch => end.context("the watch of the containers ended")?,
        _ = terminate.recv() => info!("terminated; protection stays in place"),
        _ = interrupt.recv() => info!("interrupted; protection stays in place"),
    }
    worker.finish();
    Ok(())
}

/// Where the policies come from, and what says that they have changed.
async fn source(options: &Options, rescan: mpsc::Sender<()>) -> anyhow::Result<(Source, JoinHandle<()>)> {
    if let Some(path) = &options.policy_dir {
        let catalog = Catalog::new(node::facts());
        let folder = folder::Folder::new(path.clone(), &options.state_dir, catalog);
        let watch = tokio::spawn(folder.watch(rescan));
        return Ok((Source::Folder(folder), watch));
    }
    let access = options
        .kubeconfig
        .clone()
        .map_or(cluster::Access::Pod, cluster::Access::Kubeconfig);
    let client = cluster::connect(&access).await?;
    let (sender, listing) = watch::channel(cluster::Listing::default());
    let cluster = Cluster::new(listing, &options.state_dir, node::facts());
    // What was in force before the restart does not wait for an answer.
    rescan.try_send(()).context("ask for the first scan")?;
    let watch = tokio::spawn(cluster::watch(client, sender, rescan));
    Ok((Source::Cluster(cluster), watch))
}

/// The end of every violation's way: the log file, and what else was asked for.
fn recorder(options: &Options) -> anyhow::Result<Recorder> {
    let metadata = options.audit_event_metadata.clone().unwrap_or_default();
    let node = node::identity(options.node_name.as_deref(), metadata.0);
    let rotation = Rotation {
        max_size: options.violations_max_size << 20,
        backups: options.violations_backups,
    };
    let file = LogFile::with_rotation(options.violations_log.clone(), rotation);
    let mut recorder = Recorder::new(node, file);
    if options.violations_stdout {
        recorder.add(standard_output().context("start the thread for standard output")?);
    }
    if let Some(endpoint) = &options.otlp_endpoint {
        let (outbox, inbox) = Outbox::new("otlp");
        recorder.add(outbox);
        let endpoint = endpoint.clone();
        services::spawn("otlp", async move {
            otlp::export(inbox, endpoint).await;
            Ok(())
        })?;
    }
    Ok(recorder)
}

/// The BPF enforcer, or what stands for it where the kernel cannot run one.
fn enforcer(options: &Options) -> anyhow::Result<Box<dyn Resident>> {
    if let Err(reason) = kernel::probe().bpf_enforcer() {
        warn!(%reason, "this kernel cannot run the BPF enforcer: policies that name it are refused");
        return Ok(Box::new(Absent::new(reason)));
    }
    let enforcer = bpf::open(&bpf::Options {
        bpffs: options.bpffs.clone(),
        state_dir: options.state_dir.clone(),
    })
    .context("start the BPF enforcer")?;
    info!(version = env!("CARGO_PKG_VERSION"), start = ?enforcer.start(), "enforcer is ready");
    Ok(Box::new(enforcer))
}

/// Is an agent with this state folder alive?
#[must_use]
pub fn agent_is_running(state_dir: &Path) -> bool {
    InstanceLock::is_held(state_dir)
}

/// This machine's disks and partitions.
#[must_use]
pub fn disk_devices() -> Vec<Disk> {
    node::facts().disk_devices
}

fn create_state_dir(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| {
            format!(
                "create the state folder {}; is this running as root?",
                path.display()
            )
        })
}
