//! Nodes: each has its own connections, as the agent of a real node has.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use varmor_agent::daemon::controller::{Peer, send_all};
use varmor_agent::source::cluster::{self, Access, Listing};
use varmor_common::report::NodeReport;

use super::{Options, cluster::Cluster};

/// Nodes that come at the same time.
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) struct Fleet {
    nodes: BTreeMap<usize, Node>,
    away: Vec<usize>,
}

struct Node {
    listing: watch::Receiver<Listing>,
    tasks: Vec<JoinHandle<()>>,
}

impl Fleet {
    pub(crate) async fn join(cluster: &Cluster, options: &Options) -> Result<Self> {
        let authority = cluster.authority().await?;
        std::fs::create_dir_all(&options.work).context("create the folder of the tokens")?;
        std::fs::write(ca(options), authority).context("write the controller's authority")?;
        let mut fleet = Self {
            nodes: BTreeMap::new(),
            away: Vec::new(),
        };
        fleet.add(cluster, options, (0..options.nodes).collect()).await?;
        Ok(fleet)
    }

    async fn add(&mut self, cluster: &Cluster, options: &Options, numbers: Vec<usize>) -> Result<()> {
        let joined: Vec<(usize, Node)> = stream::iter(numbers)
            .map(|number| async move {
                Node::join(cluster, options, number)
                    .await
                    .map(|node| (number, node))
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        self.nodes.extend(joined);
        Ok(())
    }

    /// One node in `share` dies without a word. How many these are.
    pub(crate) fn leave(&mut self, share: usize) -> usize {
        self.away = self
            .nodes
            .keys()
            .copied()
            .filter(|number| number % share == 0)
            .collect();
        for number in &self.away {
            self.nodes.remove(number);
        }
        self.away.len()
    }

    pub(crate) async fn come_back(&mut self, cluster: &Cluster, options: &Options) -> Result<()> {
        let away = std::mem::take(&mut self.away);
        self.add(cluster, options, away).await
    }

    /// Every node knows the cluster.
    pub(crate) async fn until_connected(&mut self) -> Result<()> {
        self.until("has no list", |listing| listing.objects.is_some())
            .await
    }

    /// Every node has these generations of these profiles, and no others.
    pub(crate) async fn until_all_have(&mut self, profiles: &BTreeMap<String, i64>) -> Result<()> {
        let has_all = |listing: &Listing| {
            listing.objects.as_ref().is_some_and(|objects| {
                objects.len() == profiles.len()
                    && objects
                        .iter()
                        .all(|(name, object)| profiles.get(name) == Some(&object.generation))
            })
        };
        self.until("has other profiles than the cluster", has_all).await
    }

    async fn until(&mut self, what: &str, is_so: impl Fn(&Listing) -> bool) -> Result<()> {
        let start = Instant::now();
        for (number, node) in &mut self.nodes {
            let left = PATIENCE.saturating_sub(start.elapsed());
            match tokio::time::timeout(left, node.listing.wait_for(&is_so)).await {
                Ok(listing) => drop(listing.context("the node's watch ended")?),
                Err(_) => bail!("node-{number} {what}, after {} s", PATIENCE.as_secs()),
            }
        }
        Ok(())
    }
}

impl Node {
    async fn join(cluster: &Cluster, options: &Options, number: usize) -> Result<Self> {
        let name = format!("node-{number}");
        let token = options.work.join(format!("{name}.token"));
        std::fs::write(&token, cluster.agent(&name).await?).context("write a token")?;
        let peer = Peer {
            url: options.controller.clone(),
            ca: Some(ca(options)),
            token,
        };
        let client = cluster::connect(&Access::Kubeconfig(options.kubeconfig.clone())).await?;
        let (sender, listing) = watch::channel(Listing::default());
        let (rescan, rescans) = mpsc::channel(1);
        let (reports, to_send) = watch::channel(NodeReport::default());
        let tasks = vec![
            tokio::spawn(cluster::watch(client, sender, rescan)),
            tokio::spawn(report_all(name, listing.clone(), rescans, reports)),
            tokio::spawn(async move { send_all(&peer, to_send).await }),
        ];
        Ok(Self { listing, tasks })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// What a node says that puts everything in force at once.
async fn report_all(
    node: String,
    listing: watch::Receiver<Listing>,
    mut rescans: mpsc::Receiver<()>,
    reports: watch::Sender<NodeReport>,
) {
    while rescans.recv().await.is_some() {
        let listing = listing.borrow().clone();
        if listing.objects.is_none() {
            continue;
        }
        reports.send_if_modified(|report| {
            let is_new = report.synced != listing.synced || report.node.is_empty();
            report.node.clone_from(&node);
            env!("CARGO_PKG_VERSION").clone_into(&mut report.version);
            report.synced = listing.synced;
            is_new
        });
    }
}

fn ca(options: &Options) -> PathBuf {
    options.work.join("controller-ca.pem")
}
