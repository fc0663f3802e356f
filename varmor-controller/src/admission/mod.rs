//! Admission: workloads and pods get the profiles of the policies that match them, and policies are checked before they are
//! stored.
//!
//! Every replica answers; nothing here depends on which one leads.

mod cluster;
mod configuration;
mod mutate;
mod options;
mod policies;
mod review;
mod server;
mod uninstall;
mod validate;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use kube::Client;
use tokio::sync::watch;

use crate::certificate::{Keeper, Names, Published};
use crate::https::{self, TlsWatch};
use policies::Policies;
use server::{State, router};

pub use options::{FailurePolicy, Options};
pub use server::{Hooks, Outcome, Served};
pub use uninstall::{UninstallOptions, uninstall};
pub(crate) use validate::transition::between;

/// Where and for whom admission answers.
#[derive(Clone, Debug)]
pub struct Place {
    /// The controller's own namespace, which is left alone.
    pub namespace: String,
    /// Absent = no webhook is served or registered.
    pub address: Option<SocketAddr>,
    /// Labels (`key=value`, separated by commas) that a workload or pod must carry to be protected; empty = every one.
    pub match_label: String,
}

/// Everything of this replica: the certificate, which the status service needs as well, and the webhooks unless they are
/// switched off. The future ends with an error only; dropping it ends the rest.
pub fn start(
    client: Client,
    place: Place,
    options: Options,
    hooks: Hooks,
) -> Result<(impl Future<Output = Result<()>> + use<>, TlsWatch)> {
    let names =
        Names::new(&place.namespace, &options.all_names()).context("the option --certificate-name")?;
    let (keeper, published) = Keeper::new(client.clone(), &place.namespace, names);
    let tls = published.tls.clone();
    let running = async move {
        if place.address.is_none() {
            keeper.run().await;
            bail!("the certificate is not kept any more");
        }
        tokio::select! {
            () = keeper.run() => bail!("the certificate is not kept any more"),
            ended = run(client, &place, &options, published, hooks) => ended,
        }
    };
    Ok((running, tls))
}

/// Follows the policies, registers the webhooks and answers; ends with an error only.
async fn run(
    client: Client,
    place: &Place,
    options: &Options,
    published: Published,
    hooks: Hooks,
) -> Result<()> {
    let address = place.address.context("the webhooks need an address")?;
    let opt_in = options::opt_in(&place.match_label)?;
    let (policies, (facts, known)) = (Policies::default(), watch::channel(None));
    let state = State::new(client.clone(), &place.namespace, policies.clone(), known, hooks);
    let settings = configuration::Settings::new(&place.namespace, opt_in.clone(), options)?;
    tokio::select! {
        () = policies::follow(client.clone(), policies) => bail!("the policies are not followed any more"),
        () = cluster::follow(client.clone(), opt_in, facts) => {
            bail!("the version of Kubernetes is not followed any more")
        }
        () = configuration::keep(client, settings, published.authority) => {
            bail!("the webhooks are not registered any more")
        }
        served = https::serve(address, published.tls, router(Arc::new(state))) => {
            served.context("serve the webhooks")
        }
    }
}
