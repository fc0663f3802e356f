//! What an agent that ends leaves in the kernel: its enforcement, and as little else as possible.

use std::collections::BTreeSet;

use tracing::{info, warn};

use super::Worker;

impl Worker {
    /// A service of the machine leaves everything as it is. A pod comes back as another pod, or never.
    pub(super) fn leave(&mut self) {
        if self.own_pod().is_none() {
            return;
        }
        // An uninstalled chart deletes policies and ends agents within seconds: what is known of that is done first.
        if self.source.cluster().is_some() {
            self.scan();
            self.reconcile();
        }
        match self.still_needed_for() {
            None => self.take_down(),
            Some(reason) => {
                info!(%reason, "the programs stay in the kernel");
                self.open_gates();
            }
        }
    }

    /// An agent that is itself a container would wait at its own gate when it comes back as another pod, and so would
    /// everybody: the gate opens while it is away.
    fn open_gates(&mut self) {
        match self.enforcer.set_gates(&BTreeSet::new()) {
            Ok(()) => info!("the start gate is open until an agent is back"),
            Err(error) => warn!(%error, "the start gate stays closed"),
        }
    }

    /// What the programs are there for; nothing if the cluster has no policy and the kernel holds none: so it is after
    /// the chart was uninstalled, which deletes all policies first.
    fn still_needed_for(&self) -> Option<String> {
        let Some(cluster) = self.source.cluster() else {
            return Some("a folder of policies".to_owned());
        };
        if cluster.synced().is_none() {
            return Some("the policies of the cluster are not known".to_owned());
        }
        if let Some(name) = cluster.catalog().written().next() {
            return Some(format!("the ArmorProfile {name}"));
        }
        let (profiles, bindings) = match (self.enforcer.profiles(), self.enforcer.bindings()) {
            (Ok(profiles), Ok(bindings)) => (profiles, bindings),
            (Err(error), _) | (_, Err(error)) => {
                return Some(format!("what they hold cannot be read: {error}"));
            }
        };
        if let Some(profile) = profiles.first() {
            return Some(format!("the profile {}", profile.name));
        }
        // The binding of a container that a policy was about stays as long as the container, and allows everything.
        let held = bindings.into_iter().find(|(_, profile)| profile.is_some());
        held.map(|(cgroup, _)| format!("the container in the cgroup {cgroup}"))
    }

    /// Nobody may come after this agent to remove what it has loaded.
    fn take_down(&mut self) {
        match self.enforcer.take_down() {
            Ok(true) => info!("there is no policy: the programs were taken out of the kernel"),
            Ok(false) => {}
            Err(error) => {
                warn!(%error, "the programs stay in the kernel");
                self.open_gates();
            }
        }
    }
}
