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
use policies::Policies;
use server::{State, router};

pub use options::Options;
pub use server::{Hooks, Outcome, Served};
pub use uninstall::{UninstallOptions, uninstall};

/// Starts to keep the certificate of the webhook and of the status service in `namespace`.
///
/// The first part of the result must be driven for as long as the process lives.
pub fn certificate(
    client: Client,
    namespace: &str,
    options: &Options,
) -> Result<(impl Future<Output = ()> + use<>, Published)> {
    let names = Names::new(namespace, &options.all_names()).context("the option --certificate-name")?;
    let (keeper, published) = Keeper::new(client, namespace, names);
    Ok((keeper.run(), published))
}

/// Where and for whom admission answers.
#[derive(Clone, Debug)]
pub struct Place {
    /// The controller's own namespace, which is left alone.
    pub namespace: String,
    pub address: SocketAddr,
    /// Labels (`key=value`, separated by commas) that a workload or pod must carry to be protected; empty = every one.
    pub match_label: String,
}

/// Follows the policies, registers the webhooks and answers; ends with an error only.
pub async fn run(
    client: Client,
    place: Place,
    options: &Options,
    published: Published,
    hooks: Hooks,
) -> Result<()> {
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
        served = crate::https::serve(place.address, published.tls, router(Arc::new(state))) => {
            served.context("serve the webhooks")
        }
    }
}
