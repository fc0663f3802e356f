//! Reports to the controller of the cluster.

mod models;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use hyper::{Method, Request, Uri, header};
use kube::{Client, Config};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use varmor_common::report::{NodeReport, REPORT_EVERY, REPORT_PATH};

pub(super) use self::models::{Finished, Handover};
use super::options::Options;
use super::services;
use crate::text::{MAX_VALUE, clean};

/// Changes come in bursts, and thousands of nodes may have theirs at the same time.
const SETTLE: Duration = Duration::from_millis(200);
const EVERY: Duration = Duration::from_secs(REPORT_EVERY);
/// For one report.
const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LAST_BACK_OFF: Duration = Duration::from_secs(30);

/// Where reports go, and as whose.
#[derive(Clone, Debug)]
pub struct Peer {
    pub url: Uri,
    /// Whose certificates are accepted; by default those that the system accepts.
    pub ca: Option<PathBuf>,
    /// The token of this node's agent, which is read again when it has changed.
    pub token: PathBuf,
}

/// What is put in for the controller.
pub(super) struct Outlet {
    pub(super) reports: watch::Sender<NodeReport>,
    pub(super) models: Handover,
}

/// A thread that speaks with the controller, and where it gets what it says; `None` without a controller.
pub(super) fn start(options: &Options, node: &str) -> anyhow::Result<Option<Outlet>> {
    let (Some(url), Some(token)) = (&options.controller_url, &options.token) else {
        return Ok(None);
    };
    let peer = Peer {
        url: url.clone(),
        ca: options.controller_ca.clone(),
        token: token.clone(),
    };
    let (sender, reports) = watch::channel(NodeReport::default());
    let (models, sending) = models::channel(node.to_owned());
    services::spawn("controller", async move {
        tokio::join!(send_all(&peer, reports), sending.send_all(&peer));
        Ok(())
    })?;
    Ok(Some(Outlet {
        reports: sender,
        models,
    }))
}

/// Sends each report, and the last one again now and then: a controller that starts anew knows nothing. Ends with the
/// other side of the channel.
pub async fn send_all(peer: &Peer, mut reports: watch::Receiver<NodeReport>) {
    let mut back_off = FIRST_BACK_OFF;
    let mut said: Option<String> = None;
    // Made anew after an error: what it was made of may have come later than this process.
    let mut connected = None;
    // Before the first report there is nothing to say.
    if reports.changed().await.is_err() {
        return;
    }
    loop {
        sleep(SETTLE).await;
        let report = reports.borrow_and_update().clone();
        let outcome = match connected.take().map_or_else(|| client(peer), Ok) {
            Ok(client) => send(&client, &report).await.map(|()| client),
            Err(error) => Err(error),
        };
        let pause = match outcome {
            Ok(client) => {
                connected = Some(client);
                if said.take().is_some() {
                    info!(url = %peer.url, "the controller has this node's report");
                }
                back_off = FIRST_BACK_OFF;
                EVERY
            }
            Err(error) => {
                let problem = clean(&format!("{error:#}"), MAX_VALUE);
                if said.as_ref() != Some(&problem) {
                    warn!(url = %peer.url, %problem, "the controller has no report of this node; enforcement does not depend on it, retrying");
                    said = Some(problem);
                }
                let pause = back_off;
                back_off = (back_off * 2).min(LAST_BACK_OFF);
                pause
            }
        };
        if let Ok(Err(_)) = timeout(pause, reports.changed()).await {
            return;
        }
    }
}

async fn send(client: &Client, report: &NodeReport) -> anyhow::Result<()> {
    post(client, REPORT_PATH, report).await
}

async fn post(client: &Client, path: &str, report: &impl Serialize) -> anyhow::Result<()> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(serde_json::to_vec(report).context("write the report")?)
        .context("make a request of the report")?;
    timeout(PATIENCE, client.request_text(request))
        .await
        .context("no answer in time")?
        .context("send the report")?;
    Ok(())
}

/// The client of the Kubernetes libraries, because it reads tokens and certificates again: both are renewed while this
/// process lives. It has nothing of this node's identity at the API server.
fn client(peer: &Peer) -> anyhow::Result<Client> {
    let mut config = Config::new(peer.url.clone());
    if peer.ca.is_some() {
        // The file is what counts; without the list the library looks for the system's certificates, of which an image
        // has none.
        config.root_cert = Some(Vec::new());
        config.root_cert_file.clone_from(&peer.ca);
    }
    config.auth_info.token_file = Some(peer.token.display().to_string());
    config.connect_timeout = Some(PATIENCE);
    Client::try_from(config).context("make a client for the controller")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &str = include_str!("controller/ca.pem");

    #[tokio::test]
    async fn client_is_made_of_the_files_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (ca, token) = (folder.path().join("ca.pem"), folder.path().join("token"));
        std::fs::write(&token, "t").unwrap();
        let peer = Peer {
            url: "https://127.0.0.1:1".parse().unwrap(),
            ca: Some(ca.clone()),
            token,
        };
        let error = client(&peer).err().unwrap();
        assert!(format!("{error:#}").contains("certificate"), "{error:#}");
        std::fs::write(&ca, CA).unwrap();
        assert!(
            client(&peer).is_ok(),
            "no certificates of the system are asked for"
        );
    }
}
