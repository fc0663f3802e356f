//! Who calls: a token is proof of a pod, and a pod stands on one node. One node cannot speak for another.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::Semaphore;
use varmor_common::report::TOKEN_AUDIENCE;

/// How long an answer of the API server is believed: a deleted pod's token ends with it.
const BELIEVED: Duration = Duration::from_mins(5);

/// Tokens that are remembered: one for each node of the largest cluster and their successors.
const REMEMBERED: usize = 16_384;

/// Questions to the API server at the same time: whoever sends rubbish shall not keep it from its other work.
const AT_ONCE: usize = 32;

/// No token of Kubernetes is longer.
const LONGEST: usize = 16 << 10;

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// The pod that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub pod: String,
    pub uid: String,
}

/// Why somebody is not listened to.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    #[error("the request has no `Authorization: Bearer` header with a token")]
    NoToken,
    #[error("the API server does not accept the token{0}")]
    NotAuthentic(String),
    #[error("`{user}` may not report; only `{expected}` may")]
    NotTheAgent { user: String, expected: String },
    #[error(
        "the token is not bound to a pod; use a projected service account token with the audience `{TOKEN_AUDIENCE}`"
    )]
    NoPod,
    #[error("the pod `{0}` of the token is no agent that is running; it cannot speak for a node")]
    NotAnAgent(String),
    #[error("the pod `{pod}` stands on the node `{own}` and cannot speak for the node `{claimed}`")]
    OtherNode {
        pod: String,
        own: String,
        claimed: String,
    },
    #[error("the API server cannot be asked about the token; try again")]
    Unavailable(#[source] Box<kube::Error>),
}

/// Asks the API server who has a token, and remembers good answers for a while.
pub struct Callers {
    client: Client,
    /// `system:serviceaccount:NAMESPACE:NAME`.
    expected: String,
    known: Mutex<Known>,
    asking: Semaphore,
}

/// Tokens are compared as a whole: a hash of one might stand for another.
#[derive(Default)]
struct Known {
    callers: HashMap<String, (Caller, Instant)>,
    /// When each ends, so that the oldest go first.
    ends: BTreeMap<(Instant, u64), String>,
    counter: u64,
}

impl Callers {
    #[must_use]
    pub fn new(client: Client, namespace: &str, service_account: &str) -> Self {
        Self {
            client,
            expected: format!("system:serviceaccount:{namespace}:{service_account}"),
            known: Mutex::default(),
            asking: Semaphore::new(AT_ONCE),
        }
    }

    /// The pod that has this token.
    pub async fn of(&self, token: &str) -> Result<Caller, Denied> {
        if token.is_empty() || token.len() > LONGEST {
            return Err(Denied::NoToken);
        }
        if let Some(caller) = self.remembered(token, Instant::now()) {
            return Ok(caller);
        }
        let _turn = self.asking.acquire().await;
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]),
                token: Some(token.to_owned()),
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| Denied::Unavailable(Box::new(error)))?;
        let caller = judge(answer.status.unwrap_or_default(), &self.expected)?;
        self.remember(token, caller.clone(), Instant::now());
        Ok(caller)
    }

    fn remembered(&self, token: &str, now: Instant) -> Option<Caller> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (caller, end) = known.callers.get(token)?;
        (*end > now).then(|| caller.clone())
    }

    fn remember(&self, token: &str, caller: Caller, now: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.add(token, caller, now + BELIEVED, now);
    }
}

impl Known {
    fn add(&mut self, token: &str, caller: Caller, end: Instant, now: Instant) {
        while let Some(((oldest, _), _)) = self.ends.first_key_value()
            && (*oldest <= now || self.ends.len() >= REMEMBERED)
        {
            if let Some(((oldest, _), token)) = self.ends.pop_first()
                && self.callers.get(&token).is_some_and(|(_, end)| *end == oldest)
            {
                self.callers.remove(&token);
            }
        }
        self.counter += 1;
        self.ends.insert((end, self.counter), token.to_owned());
        self.callers.insert(token.to_owned(), (caller, end));
    }
}

/// What the answer of the API server says about the caller.
fn judge(status: TokenReviewStatus, expected: &str) -> Result<Caller, Denied> {
    if status.authenticated != Some(true) {
        let why = status.error.map(|error| format!(": {error}")).unwrap_or_default();
        return Err(Denied::NotAuthentic(why));
    }
    // An API server that knows no audiences would accept the token of any pod for any purpose.
    if !status.audiences.iter().flatten().any(|one| one == TOKEN_AUDIENCE) {
        return Err(Denied::NotAuthentic(format!(
            ": it is not for the audience {TOKEN_AUDIENCE}"
        )));
    }
    let user = status.user.unwrap_or_default();
    let name = user.username.unwrap_or_default();
    if name != expected {
        return Err(Denied::NotTheAgent {
            user: name,
            expected: expected.to_owned(),
        });
    }
    let mut extra = user.extra.unwrap_or_default();
    let mut only = |key: &str| match extra.remove(key).unwrap_or_default().as_slice() {
        [one] => Ok(one.clone()),
        _ => Err(Denied::NoPod),
    };
    Ok(Caller {
        pod: only(POD_NAME)?,
        uid: only(POD_UID)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const EXPECTED: &str = "system:serviceaccount:varmor:varmor-agent";

    fn review(change: impl FnOnce(&mut Value)) -> Result<Caller, Denied> {
        let mut status = json!({"authenticated": true, "audiences": [TOKEN_AUDIENCE],
            "user": {"username": EXPECTED, "extra": {POD_NAME: ["agent-1"], POD_UID: ["u1"]}}});
        change(&mut status);
        judge(serde_json::from_value(status).unwrap(), EXPECTED)
    }

    #[test]
    fn a_bound_token_of_the_agent_names_its_pod() {
        let caller = review(|_| {}).unwrap();
        assert_eq!((caller.pod.as_str(), caller.uid.as_str()), ("agent-1", "u1"));
    }

    #[test]
    fn everybody_else_is_told_why_not() {
        let refused = |change: fn(&mut Value)| review(change).unwrap_err().to_string();
        assert!(refused(|one| one["authenticated"] = json!(false)).contains("does not accept"));
        assert!(refused(|one| one["audiences"] = json!(["api"])).contains("audience"));
        assert!(refused(|one| one["audiences"] = Value::Null).contains("audience"));
        let message =
            refused(|one| one["user"]["username"] = json!("system:serviceaccount:evil:varmor-agent"));
        assert!(message.contains("evil"), "{message}");
        assert!(refused(|one| one["user"]["extra"] = json!({})).contains("not bound"));
        assert!(refused(|one| one["user"]["extra"][POD_NAME] = json!(["a", "b"])).contains("not bound"));
    }

    #[test]
    fn what_is_remembered_ends_and_is_bounded() {
        let (mut known, now) = (Known::default(), Instant::now());
        let caller = Caller {
            pod: "p".to_owned(),
            uid: "u".to_owned(),
        };
        for number in 0..REMEMBERED + 10 {
            known.add(&number.to_string(), caller.clone(), now + BELIEVED, now);
        }
        assert!(known.callers.len() <= REMEMBERED && known.ends.len() <= REMEMBERED);
        let later = now + BELIEVED + Duration::from_secs(1);
        known.add("late", caller, later + BELIEVED, later);
        assert_eq!((known.callers.len(), known.ends.len()), (1, 1));
    }
}
