//! What every part of the running controller shares.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;
use tokio::sync::watch;
use varmor_common::policy::EgressPeer;

use crate::egress::Change;
use crate::metrics::Metrics;
use crate::object::{PolicyKey, Profile};
use crate::queue::Queue;
use crate::status::Nodes;
use crate::world::{Needs, World};

/// Handles to everything that is shared; cloning is cheap.
#[derive(Clone)]
pub struct Context {
    pub client: Client,
    pub settings: Arc<Settings>,
    pub queue: Arc<Queue<PolicyKey>>,
    pub metrics: Arc<Metrics>,
    world: Arc<Mutex<World>>,
    nodes: Arc<Mutex<Nodes>>,
    /// Which kinds of addresses are wanted, and which are known.
    pub wanted: Arc<watch::Sender<Needs>>,
    pub known: Arc<watch::Sender<Needs>>,
}

/// What the options say about the parts.
#[derive(Clone, Debug)]
pub struct Settings {
    pub namespace: String,
    pub pod_name: String,
    pub agent_service_account: String,
    pub agent_selector: String,
    pub match_label: String,
    pub workers: usize,
}

/// How long one policy waits for addresses before another has its turn.
const PATIENCE: Duration = Duration::from_secs(5);

impl Context {
    #[must_use]
    pub fn new(client: Client, settings: Settings, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            queue: Arc::default(),
            metrics,
            world: Arc::new(Mutex::new(World::new(&settings.namespace))),
            nodes: Arc::default(),
            wanted: Arc::new(watch::channel(Needs::default()).0),
            known: Arc::new(watch::channel(Needs::default()).0),
            settings: Arc::new(settings),
        }
    }

    /// The table of the cluster. Never held across an await.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table of the nodes. Never held across an await, nor taken before [`Context::world`].
    pub fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every node has this generation of the profile.
    #[must_use]
    pub fn is_everywhere(&self, profile: &Profile) -> bool {
        let nodes = self.nodes();
        let census = nodes.census(Instant::now());
        nodes
            .tally(&census, &profile.uid, profile.generation, profile.spec_version)
            .is_everywhere()
    }

    /// Has the watches for addresses start or stop as the policies need it.
    pub fn tell_needs(&self) {
        let needs = self.world().needs();
        self.wanted
            .send_if_modified(|wanted| std::mem::replace(wanted, needs) != needs);
    }

    /// Has the policies looked at again that these changes concern.
    pub fn address_changed(&self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            let concerned = self.world().concerned(&change);
            self.queue.extend(concerned);
        }
    }

    /// Waits until the addresses of such peers are known: a profile with some of them would be in force with holes.
    /// `false` if that takes long.
    pub async fn addresses_known(&self, peers: &[EgressPeer]) -> bool {
        let pods = peers.iter().any(|peer| peer.pods.is_some());
        let services = peers.iter().any(|peer| peer.pods.is_none());
        // What is needed may be what an `ArmorProfile` of a policy says that cannot be read any more.
        self.wanted.send_if_modified(|wanted| {
            let before = *wanted;
            wanted.pods |= pods;
            wanted.services |= services;
            *wanted != before
        });
        let mut known = self.known.subscribe();
        let is_known = |known: &Needs| (known.pods || !pods) && (known.services || !services);
        tokio::time::timeout(PATIENCE, known.wait_for(is_known))
            .await
            .is_ok_and(|known| known.is_ok())
    }
}

/// An error with its causes in one line.
#[must_use]
pub fn told(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = match error.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) => format!("the API server says: {}", status.message),
            _ => error.to_string(),
        };
        if !text.contains(&message) {
            write!(text, ": {message}").expect("writing to a String cannot fail");
        }
        cause = error.source();
    }
    text
}
