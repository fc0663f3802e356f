//! Keeps the Secrets good and the servers supplied.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use futures_util::stream::select;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::Config;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_rustls::rustls::ServerConfig;

use super::{Error, Material, Names, authority_secret, pair_secret, secret, server_config};

/// How often the certificate is looked at when nothing happens.
const CHECK: Duration = Duration::from_hours(1);

/// After an error; doubled until `SLOWEST`.
const RETRY: Duration = Duration::from_secs(1);
const SLOWEST: Duration = Duration::from_mins(1);

/// The certificate of the moment for everybody who needs it.
#[derive(Clone, Debug)]
pub struct Published {
    /// For servers, see [`crate::https::TlsWatch`].
    pub tls: watch::Receiver<Option<Arc<ServerConfig>>>,
    /// The authority as PEM, for those who tell clients whom to trust.
    pub authority: watch::Receiver<Option<Arc<str>>>,
}

/// Owns the certificate of a replica.
pub struct Keeper {
    client: Client,
    namespace: String,
    names: Names,
    /// What was published last.
    current: Option<Material>,
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
    authority: watch::Sender<Option<Arc<str>>>,
}

impl Keeper {
    /// A keeper of the Secrets in `namespace`.
    #[must_use]
    pub fn new(client: Client, namespace: &str, names: Names) -> (Self, Published) {
        let (tls, tls_receiver) = watch::channel(None);
        let (authority, authority_receiver) = watch::channel(None);
        let keeper = Self {
            client,
            namespace: namespace.to_owned(),
            names,
            current: None,
            tls,
            authority,
        };
        let published = Published {
            tls: tls_receiver,
            authority: authority_receiver,
        };
        (keeper, published)
    }

    /// Checks now, after every change of the Secrets, and every hour; ends only when it is dropped.
    pub async fn run(mut self) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let follow = |name: String| {
            let config = Config::default().fields(&format!("metadata.name={name}"));
            watcher(secrets.clone(), config).default_backoff()
        };
        let pair = follow(pair_secret(&self.namespace)).boxed();
        let authority = follow(authority_secret(&self.namespace)).boxed();
        let mut changes = pin!(select(pair, authority));
        let mut retry = RETRY;
        loop {
            let wait = match self.check(&secrets, SystemTime::now()).await {
                Ok(()) => {
                    retry = RETRY;
                    CHECK
                }
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    tracing::error!(
                        error = format!("{error:#}"),
                        ?retry,
                        "the certificate is not as it should be"
                    );
                    let wait = retry;
                    retry = (retry * 2).min(SLOWEST);
                    wait
                }
            };
            tokio::select! {
                () = sleep(wait) => {}
                Some(change) = changes.next() => if let Err(error) = change {
                    tracing::warn!(%error, "cannot follow the Secrets of the certificate; they are read every hour");
                },
            }
        }
    }

    /// Repairs what has to be, and publishes what changed.
    pub(super) async fn check(&mut self, secrets: &Api<Secret>, now: SystemTime) -> Result<(), Error> {
        let material = secret::ensure(secrets, &self.namespace, &self.names, now).await?;
        if self.current.as_ref() == Some(&material) {
            return Ok(());
        }
        let config = Arc::new(server_config(&material)?);
        // Clients trust the authority before they meet the certificate.
        self.authority
            .send_replace(Some(material.authority.as_str().into()));
        self.tls.send_replace(Some(config));
        self.current = Some(material);
        Ok(())
    }
}
