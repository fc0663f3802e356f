//! What the policies say about themselves, by a watch.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures_util::StreamExt as _;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use varmor_common::policy::VarmorPolicy;

/// The generation of each policy, and whether this one is in force everywhere.
type States = BTreeMap<String, (i64, bool)>;

pub(crate) struct Policies {
    states: watch::Receiver<States>,
}

impl Policies {
    pub(crate) fn watch(client: Client) -> Self {
        let (sender, states) = watch::channel(States::new());
        tokio::spawn(follow(client, sender));
        Self { states }
    }

    /// So many policies exist, were changed so often in all, and are in force as they are now.
    pub(crate) async fn until_all_ready(
        &mut self,
        number: usize,
        changes: usize,
        limit: Duration,
    ) -> Result<()> {
        let are_ready = |states: &States| {
            let generations: i64 = states.values().map(|(generation, _)| generation).sum();
            states.len() == number
                && usize::try_from(generations).is_ok_and(|sum| sum >= number + changes)
                && states.values().all(|(_, is_ready)| *is_ready)
        };
        let waited = tokio::time::timeout(limit, self.states.wait_for(are_ready)).await;
        if let Ok(states) = waited {
            return states.map(drop).context("the watch of the policies ended");
        }
        drop(waited);
        bail!(
            "{} of {number} policies are not ready after {} s",
            self.not_ready(),
            limit.as_secs()
        )
    }

    /// At least so many are in force.
    pub(crate) async fn until_ready(&self, number: usize) -> Result<()> {
        let are_ready = |states: &States| states.values().filter(|(_, is_ready)| *is_ready).count() >= number;
        self.until(are_ready).await
    }

    /// No more than so many are left.
    pub(crate) async fn until_at_most(&self, number: usize) -> Result<()> {
        self.until(|states| states.len() <= number).await
    }

    async fn until(&self, is_so: impl Fn(&States) -> bool) -> Result<()> {
        let mut states = self.states.clone();
        let found = states.wait_for(is_so).await;
        found.map(drop).context("the watch of the policies ended")
    }

    pub(crate) fn not_ready(&self) -> usize {
        self.states
            .borrow()
            .values()
            .filter(|(_, is_ready)| !is_ready)
            .count()
    }
}

async fn follow(client: Client, states: watch::Sender<States>) {
    let kind = ApiResource::erase::<VarmorPolicy>(&());
    let api: Api<DynamicObject> = Api::all_with(client, &kind);
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => drop(states.send_replace(States::new())),
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let (name, state) = state(&object);
                states.send_modify(|states| {
                    states.insert(name, state);
                });
            }
            Ok(Event::Delete(object)) => states.send_modify(|states| {
                states.remove(&state(&object).0);
            }),
            Ok(Event::InitDone) | Err(_) => {}
        }
    }
}

fn state(object: &DynamicObject) -> (String, (i64, bool)) {
    let metadata = &object.metadata;
    let name = format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    );
    let status = &object.data["status"];
    let is_current = status["observedGeneration"].as_i64() == metadata.generation;
    let generation = metadata.generation.unwrap_or_default();
    (name, (generation, is_current && status["ready"] == true))
}
