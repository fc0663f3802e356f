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
        if self.is_idle() {
            self.take_down();
        } else {
            self.open_gates();
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

    /// Whether the cluster has no policy and the kernel holds none: so it is after the chart was uninstalled, which
    /// deletes all policies first.
    fn is_idle(&self) -> bool {
        let has_no_policy = self
            .source
            .cluster()
            .is_some_and(|cluster| cluster.synced().is_some() && cluster.catalog().is_empty());
        has_no_policy
            && self.enforcer.profiles().is_ok_and(|profiles| profiles.is_empty())
            && self.enforcer.bindings().is_ok_and(|bindings| bindings.is_empty())
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
