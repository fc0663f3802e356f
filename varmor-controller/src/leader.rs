//! One replica leads: by a Lease that it holds and renews. Who loses it ends at once, so that there are never two.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

/// After so long without renewal another replica may take the Lease, unless the options say something else.
const DURATION: Duration = Duration::from_secs(15);

const RETRY: Duration = Duration::from_secs(2);

/// The label by which the Service for reports finds the leader. Key and value are vArmor's.
const IDENTITY: &str = "identity";
const LEADER: &str = "leader";

/// Why this replica leads no more.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    #[error("the Lease `{lease}` was taken by `{by}`; the process ends so that only one leads")]
    Taken { lease: String, by: String },
    #[error(
        "the Lease `{lease}` could not be renewed for {silent:?}; the process ends so that only one leads"
    )]
    Late { lease: String, silent: Duration },
}

/// The Lease and who wants it.
#[derive(Clone)]
pub struct Election {
    api: Api<Lease>,
    pods: Api<Pod>,
    name: String,
    identity: String,
    duration: Duration,
}

/// What another replica's Lease looked like, and since when by our own clock: the clocks of others are not believed.
#[derive(Default)]
struct Watched {
    seen: Option<(Option<String>, Option<MicroTime>)>,
    since: Option<Instant>,
}

impl Election {
    #[must_use]
    pub fn new(client: &Client, namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration: DURATION,
        }
    }

    /// Another time after which the Lease may be taken, in whole seconds: a busy API server answers late.
    #[must_use]
    pub fn with_duration(self, duration: Duration) -> Self {
        Self { duration, ..self }
    }

    /// After so long without a renewal that succeeded the leader gives up, well before another takes over.
    fn renew_by(&self) -> Duration {
        self.duration * 2 / 3
    }

    /// Waits until this replica leads.
    pub async fn win(&self) {
        let mut watched = Watched::default();
        loop {
            match self.attempt(&mut watched).await {
                Ok(true) => {
                    tracing::info!(lease = self.name, identity = self.identity, "this replica leads");
                    return;
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(error = crate::told(&error), "cannot read or write the Lease"),
            }
            sleep(RETRY).await;
        }
    }

    /// Renews until that fails.
    pub async fn hold(&self) -> Lost {
        let mut renewed = Instant::now();
        let mut watched = Watched::default();
        loop {
            sleep(RETRY).await;
            let left = self.renew_by().saturating_sub(renewed.elapsed());
            match timeout(left, self.attempt(&mut watched)).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => {
                    let by = watched.seen.and_then(|(holder, _)| holder).unwrap_or_default();
                    return Lost::Taken {
                        lease: self.name.clone(),
                        by,
                    };
                }
                Ok(Err(error)) => tracing::warn!(error = crate::told(&error), "cannot renew the Lease"),
                Err(_) => {}
            }
            if renewed.elapsed() >= self.renew_by() {
                return Lost::Late {
                    lease: self.name.clone(),
                    silent: self.renew_by(),
                };
            }
        }
    }

    /// Lets another replica lead without waiting.
    pub async fn give_up(&self) -> Result<(), kube::Error> {
        if let Some(mut lease) = self.api.get_opt(&self.name).await?
            && holder(&lease) == Some(self.identity.as_str())
        {
            lease.spec.get_or_insert_default().holder_identity = Some(String::new());
            self.api
                .replace(&self.name, &PostParams::default(), &lease)
                .await?;
        }
        Ok(())
    }

    /// Puts the label of the leader on this pod and takes it from the others. Pods that are gone are no error.
    pub async fn label(&self) -> Result<(), kube::Error> {
        let labelled = ListParams::default().labels(&format!("{IDENTITY}={LEADER}"));
        for pod in self.pods.list(&labelled).await?.items {
            if pod.name_any() != self.identity {
                self.set_label(&pod.name_any(), None).await?;
            }
        }
        self.set_label(&self.identity, Some(LEADER)).await
    }

    async fn set_label(&self, pod: &str, value: Option<&str>) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({"metadata": {"labels": {IDENTITY: value}}}));
        match self
            .pods
            .patch_metadata(pod, &PatchParams::default(), &patch)
            .await
        {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Takes or renews the Lease, if that is allowed. The version of the Lease decides between two that try at once.
    async fn attempt(&self, watched: &mut Watched) -> Result<bool, kube::Error> {
        let now = Timestamp::now();
        let Some(mut lease) = self.api.get_opt(&self.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(spec(None, &self.identity, self.duration, now)),
            };
            return won(self.api.create(&PostParams::default(), &lease).await);
        };
        if !watched.may_take(&lease, &self.identity, Instant::now()) {
            return Ok(false);
        }
        lease.spec = Some(spec(lease.spec.as_ref(), &self.identity, self.duration, now));
        won(self.api.replace(&self.name, &PostParams::default(), &lease).await)
    }
}

impl Watched {
    /// Whether the Lease is ours, nobody's, or has not been renewed for its whole duration while we looked.
    fn may_take(&mut self, lease: &Lease, identity: &str, now: Instant) -> bool {
        let spec = lease.spec.clone().unwrap_or_default();
        let state = (spec.holder_identity.clone(), spec.renew_time.clone());
        if self.seen.as_ref() != Some(&state) {
            self.seen = Some(state);
            self.since = Some(now);
        }
        match holder(lease) {
            None | Some("") => true,
            Some(holder) if holder == identity => true,
            Some(_) => {
                let seconds = spec
                    .lease_duration_seconds
                    .and_then(|seconds| u64::try_from(seconds).ok());
                let duration = seconds.map_or(DURATION, Duration::from_secs);
                self.since
                    .is_some_and(|since| now.duration_since(since) > duration)
            }
        }
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

fn spec(old: Option<&LeaseSpec>, identity: &str, duration: Duration, now: Timestamp) -> LeaseSpec {
    let is_ours = old.and_then(|old| old.holder_identity.as_deref()) == Some(identity);
    let transitions = old.and_then(|old| old.lease_transitions).unwrap_or_default();
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
        acquire_time: match old {
            Some(old) if is_ours => old.acquire_time.clone(),
            _ => Some(MicroTime(now)),
        },
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if is_ours || old.is_none() {
            transitions
        } else {
            transitions + 1
        }),
        ..LeaseSpec::default()
    }
}

/// A conflict is no error: somebody else was quicker.
fn won(result: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, renewed: i64) -> Lease {
        let now = Timestamp::from_second(renewed).unwrap();
        Lease {
            spec: Some(spec(None, holder, DURATION, now)),
            ..Lease::default()
        }
    }

    #[test]
    fn a_lease_is_taken_only_after_it_was_not_renewed_while_we_looked() {
        let (mut watched, start) = (Watched::default(), Instant::now());
        let old = lease("other", 1);
        assert!(!watched.may_take(&old, "me", start), "however old its time is");
        assert!(!watched.may_take(&old, "me", start + DURATION));
        let renewed = lease("other", 2);
        assert!(
            !watched.may_take(&renewed, "me", start + DURATION * 2),
            "it was renewed"
        );
        assert!(watched.may_take(&renewed, "me", start + DURATION * 3 + Duration::from_secs(1)));
    }

    #[test]
    fn a_lease_that_is_ours_or_nobodys_is_taken() {
        let mut watched = Watched::default();
        assert!(watched.may_take(&lease("me", 1), "me", Instant::now()));
        assert!(watched.may_take(&lease("", 1), "me", Instant::now()));
        assert!(watched.may_take(&Lease::default(), "me", Instant::now()));
    }

    #[test]
    fn a_change_of_the_leader_is_counted() {
        let now = Timestamp::from_second(5).unwrap();
        let first = spec(None, "a", DURATION, now);
        assert_eq!(first.lease_transitions, Some(0));
        let second = spec(Some(&first), "b", DURATION, now);
        assert_eq!(
            (
                second.lease_transitions,
                spec(Some(&second), "b", DURATION, now).lease_transitions
            ),
            (Some(1), Some(1))
        );
    }
}
