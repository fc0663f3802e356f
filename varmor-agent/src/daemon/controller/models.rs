//! Hands finished recordings over to the controller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{info, warn};
use varmor_common::policy::ModelData;
use varmor_common::report::{MODEL_PATH, ModelReport};

use super::{Peer, client, post};
use crate::text::{MAX_VALUE, clean};

/// After a model that the controller has not taken.
const BACK_OFF: Duration = Duration::from_secs(10);

/// A recording whose time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct Finished {
    /// Of the `ArmorProfile`.
    pub(in crate::daemon) namespace: String,
    pub(in crate::daemon) name: String,
    /// The file of the model.
    pub(in crate::daemon) model: PathBuf,
}

/// By uid of the `ArmorProfile`.
type Wanted = BTreeMap<String, Finished>;

/// What has become of a model: nothing more to do, or why it waits.
type Outcomes = Arc<Mutex<BTreeMap<String, Result<(), String>>>>;

/// Where finished recordings are put in.
pub(in crate::daemon) struct Handover {
    wanted: watch::Sender<Wanted>,
    outcomes: Outcomes,
}

/// The other end.
pub(super) struct Sending {
    node: String,
    wanted: watch::Receiver<Wanted>,
    outcomes: Outcomes,
}

/// The file of a model, as far as it is handed over.
#[derive(Deserialize)]
struct Model {
    data: ModelData,
}

pub(super) fn channel(node: String) -> (Handover, Sending) {
    let (sender, wanted) = watch::channel(Wanted::new());
    let outcomes = Outcomes::default();
    let sending = Sending {
        node,
        wanted,
        outcomes: Arc::clone(&outcomes),
    };
    let handover = Handover {
        wanted: sender,
        outcomes,
    };
    (handover, sending)
}

impl Handover {
    /// These are finished; all others are forgotten.
    pub(in crate::daemon) fn want(&self, wanted: Wanted) {
        locked(&self.outcomes).retain(|uid, _| wanted.contains_key(uid));
        self.wanted.send_if_modified(|last| {
            let is_new = *last != wanted;
            *last = wanted;
            is_new
        });
    }

    /// Why the model of this profile is not with the controller; `None` once it is.
    pub(in crate::daemon) fn waits(&self, uid: &str) -> Option<String> {
        match locked(&self.outcomes).get(uid) {
            Some(Ok(())) => None,
            Some(Err(reason)) => Some(format!("the model waits for the controller: {reason}")),
            None => Some("the model is about to be handed over".to_owned()),
        }
    }
}

impl Sending {
    /// Ends with the other side of the channel.
    pub(super) async fn send_all(mut self, peer: &Peer) {
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            let mut waits = false;
            for (uid, finished) in &wanted {
                if matches!(locked(&self.outcomes).get(uid), Some(Ok(()))) {
                    continue;
                }
                let outcome = self.hand_over(peer, uid, finished).await;
                waits |= outcome.is_err();
                let outcome = outcome.map_err(|error| clean(&format!("{error:#}"), MAX_VALUE));
                let before = locked(&self.outcomes).insert(uid.clone(), outcome.clone());
                if before.as_ref() != Some(&outcome) {
                    match outcome {
                        Ok(()) => info!(profile = %finished.name, "the model is with the controller"),
                        Err(problem) => {
                            warn!(profile = %finished.name, %problem, "the controller has not taken the model; retrying");
                        }
                    }
                }
            }
            let changed = if waits {
                timeout(BACK_OFF, self.wanted.changed()).await.unwrap_or(Ok(()))
            } else {
                self.wanted.changed().await
            };
            if changed.is_err() {
                return;
            }
        }
    }

    async fn hand_over(&self, peer: &Peer, uid: &str, finished: &Finished) -> anyhow::Result<()> {
        let data = read(&finished.model)?;
        if is_empty(&data) {
            return Ok(());
        }
        let report = ModelReport {
            node: self.node.clone(),
            namespace: finished.namespace.clone(),
            name: finished.name.clone(),
            uid: uid.to_owned(),
            data,
        };
        match post(&client(peer)?, MODEL_PATH, &report).await {
            // It was complete without this node, or is about a policy that does not record any more.
            Err(error) if is_too_late(&error) => {
                warn!(profile = %finished.name, "the model was complete before; what this node has recorded is not in it");
                Ok(())
            }
            outcome => outcome,
        }
    }
}

fn read(path: &Path) -> anyhow::Result<ModelData> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let model: Model =
        serde_saphyr::from_str(&text).with_context(|| format!("read the model {}", path.display()))?;
    Ok(model.data)
}

/// Whether the workload never ran on this node.
fn is_empty(data: &ModelData) -> bool {
    let events = data.learning.as_ref().map_or(0, |learning| learning.events);
    let calls = data
        .dynamic_result
        .as_ref()
        .and_then(|result| result.seccomp.as_ref());
    events == 0 && calls.is_none_or(|calls| calls.syscalls.is_empty())
}

fn is_too_late(error: &anyhow::Error) -> bool {
    let cause = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<kube::Error>());
    matches!(cause, Some(kube::Error::Api(status)) if status.code == 409)
}

fn locked(outcomes: &Outcomes) -> MutexGuard<'_, BTreeMap<String, Result<(), String>>> {
    outcomes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use varmor_common::model::Recording;

    use super::*;
    use crate::observe::{Learner, yaml};

    fn finished(folder: &Path, syscalls: &[&str]) -> Wanted {
        let mut recording = Recording::default();
        recording
            .syscalls
            .extend(syscalls.iter().map(|&name| name.to_owned()));
        let model = Learner::default()
            .learn(&recording, "varmor-demo-web", "demo")
            .unwrap();
        let path = folder.join("model.yaml");
        std::fs::write(&path, yaml(&model).unwrap()).unwrap();
        let finished = Finished {
            namespace: "demo".to_owned(),
            name: "varmor-demo-web".to_owned(),
            model: path,
        };
        [("u1".to_owned(), finished)].into()
    }

    /// Answers one request after the other with these codes, and gives back what it was told.
    fn controller(codes: Vec<u16>) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            codes
                .into_iter()
                .map(|code| {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut request = String::new();
                    let mut buffer = [0_u8; 4096];
                    while !request.contains("\"data\"") {
                        let read = stream.read(&mut buffer).unwrap();
                        request.push_str(&String::from_utf8_lossy(&buffer[..read]));
                    }
                    let body = format!(r#"{{"kind":"Status","code":{code},"message":"no"}}"#);
                    let head = format!(
                        "HTTP/1.1 {code} X\r\nConnection: close\r\nContent-Type: application/json\r\n"
                    );
                    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
                    request
                })
                .collect()
        });
        (url, answering)
    }

    async fn outcome(url: &str, wanted: Wanted) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "t").unwrap();
        let peer = Peer {
            url: url.parse().unwrap(),
            ca: None,
            token,
        };
        let (handover, sending) = channel("n1".to_owned());
        handover.want(wanted);
        let outcomes = Arc::clone(&handover.outcomes);
        tokio::select! {
            () = sending.send_all(&peer) => {}
            () = async {
                while locked(&outcomes).is_empty() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            } => {}
        }
        assert_eq!(handover.waits("u1").is_none(), locked(&outcomes)["u1"].is_ok());
        locked(&outcomes)["u1"].clone()
    }

    #[tokio::test]
    async fn a_model_is_handed_over_once_and_a_late_one_is_not_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        for (code, is_done) in [(204, true), (409, true), (503, false)] {
            let (url, answering) = controller(vec![code]);
            let outcome = outcome(&url, finished(folder.path(), &["read"])).await;
            assert_eq!(outcome.is_ok(), is_done, "{code}: {outcome:?}");
            let told = answering.join().unwrap();
            assert!(told[0].starts_with("POST /apis/v1/models "), "{told:?}");
            assert!(told[0].contains(r#""uid":"u1""#), "{told:?}");
        }
    }

    #[tokio::test]
    async fn a_node_where_the_workload_never_ran_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut wanted = finished(folder.path(), &[]);
        // Nobody listens there.
        assert_eq!(outcome("http://127.0.0.1:1", wanted.clone()).await, Ok(()));
        wanted.get_mut("u1").unwrap().model = folder.path().join("missing.yaml");
        let problem = outcome("http://127.0.0.1:1", wanted).await.unwrap_err();
        assert!(problem.contains("missing.yaml"), "{problem}");
    }
}
