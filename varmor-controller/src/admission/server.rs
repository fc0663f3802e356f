//! The webhooks over HTTP.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::core::admission::Operation;
use tokio::sync::watch;
use varmor_common::policy::TargetKind;

use super::mutate::{self, Facts, Subject};
use super::policies::{Candidate, Known, Policies, lookup};
use super::review::{self, Answer, Decision, LARGEST, Question};
use super::validate::validate;

/// What the handlers share.
pub(super) struct State {
    client: Client,
    /// The system's own, which is never touched.
    namespace: String,
    policies: Policies,
    /// Absent until the API server was asked.
    facts: watch::Receiver<Option<Facts>>,
    hooks: Hooks,
}

/// Who is told of every request.
#[derive(Clone)]
pub struct Hooks {
    pub served: Arc<dyn Fn(&Served<'_>) + Send + Sync>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Served<'r> {
    /// `mutate` or `validate`.
    pub webhook: &'static str,
    /// Empty if the request could not be read, as is `operation`.
    pub kind: &'r str,
    pub operation: &'r str,
    pub outcome: Outcome,
    pub elapsed: Duration,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Admitted,
    /// Admitted with changes.
    Mutated,
    Refused,
    /// The API server applies the failure policy.
    Failed,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            served: Arc::new(|_| {}),
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the body is not JSON; send `Content-Type: application/json`")]
    MediaType,
    #[error("not all policies are known yet; ask again")]
    NotReady,
    #[error(transparent)]
    Review(#[from] review::Error),
    #[error(transparent)]
    Mutate(#[from] mutate::Error),
    #[error("look up {identity}")]
    LookUp {
        identity: String,
        #[source]
        source: Box<kube::Error>,
    },
}

impl Error {
    fn status(&self) -> StatusCode {
        match self {
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NotReady | Self::LookUp { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Review(review::Error::Answer(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Review(_) | Self::Mutate(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl State {
    /// `namespace` is the controller's own.
    #[must_use]
    pub(super) fn new(
        client: Client,
        namespace: &str,
        policies: Policies,
        facts: watch::Receiver<Option<Facts>>,
        hooks: Hooks,
    ) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            policies,
            facts,
            hooks,
        }
    }

    /// Whether workloads can be answered for.
    #[must_use]
    pub(super) fn is_ready(&self) -> bool {
        self.facts.borrow().is_some() && self.policies.read().is_complete()
    }
}

/// The webhooks and their health.
pub(super) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/mutate", post(mutate_webhook))
        .route("/validate", post(validate_webhook))
        .route("/health/liveness", get(async || "ok"))
        .route("/health/readiness", get(readiness))
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(state)
}

async fn readiness(Shared(state): Shared<Arc<State>>) -> (StatusCode, &'static str) {
    if state.is_ready() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not all policies are known yet")
    }
}

async fn mutate_webhook(Shared(state): Shared<Arc<State>>, headers: HeaderMap, body: Bytes) -> Response {
    let start = Instant::now();
    match read(&headers, &body) {
        Ok(question) => {
            let answer = mutation(&state, &question).await;
            respond(&state, "mutate", start, &question, answer)
        }
        Err(error) => reject(&state, "mutate", start, &error),
    }
}

async fn validate_webhook(Shared(state): Shared<Arc<State>>, headers: HeaderMap, body: Bytes) -> Response {
    let start = Instant::now();
    match read(&headers, &body) {
        Ok(question) => {
            let answer = validation(&question);
            respond(&state, "validate", start, &question, answer)
        }
        Err(error) => reject(&state, "validate", start, &error),
    }
}

fn read(headers: &HeaderMap, body: &[u8]) -> Result<Question, Error> {
    let media = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    if !media.is_some_and(|media| media.starts_with("application/json")) {
        return Err(Error::MediaType);
    }
    Ok(review::decode(body)?)
}

/// Answers a question; without an answer it is an error of HTTP, which the API server never takes for "allowed".
fn respond(
    state: &State,
    webhook: &'static str,
    start: Instant,
    question: &Question,
    answer: Result<Answer, Error>,
) -> Response {
    let written = answer.and_then(|answer| Ok((outcome(&answer), review::encode(question, answer)?)));
    let (outcome, response) = match written {
        Ok((outcome, body)) => (outcome, axum::Json(body).into_response()),
        Err(error) => (Outcome::Failed, failure(&error, webhook, Some(question))),
    };
    (state.hooks.served)(&Served {
        webhook,
        kind: &question.kind.kind,
        operation: operation(&question.operation),
        outcome,
        elapsed: start.elapsed(),
    });
    response
}

/// Turns away what is no question.
fn reject(state: &State, webhook: &'static str, start: Instant, error: &Error) -> Response {
    (state.hooks.served)(&Served {
        webhook,
        kind: "",
        operation: "",
        outcome: Outcome::Failed,
        elapsed: start.elapsed(),
    });
    failure(error, webhook, None)
}

fn failure(error: &Error, webhook: &str, question: Option<&Question>) -> Response {
    let text = chain(error);
    tracing::warn!(
        webhook,
        kind = question.map(|question| question.kind.kind.as_str()),
        namespace = question.and_then(|question| question.namespace.as_deref()),
        name = question.map(|question| question.name.as_str()),
        error = text,
        "a request is left to the failure policy"
    );
    (error.status(), text).into_response()
}

/// The error with its causes on one line.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn operation(operation: &Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

fn outcome(answer: &Answer) -> Outcome {
    match &answer.decision {
        Decision::Allow(patch) if patch.0.is_empty() => Outcome::Admitted,
        Decision::Allow(_) => Outcome::Mutated,
        Decision::Deny(_) => Outcome::Refused,
    }
}

/// The kind that a question is about, if it is one that is protected by this operation on it.
fn target_kind(question: &Question) -> Option<TargetKind> {
    let kind = match (question.kind.group.as_str(), question.kind.kind.as_str()) {
        ("apps", "Deployment") => TargetKind::Deployment,
        ("apps", "StatefulSet") => TargetKind::StatefulSet,
        ("apps", "DaemonSet") => TargetKind::DaemonSet,
        ("", "Pod") => TargetKind::Pod,
        _ => return None,
    };
    let whole = question.sub_resource.as_deref().is_none_or(str::is_empty);
    let operation = match question.operation {
        Operation::Create => true,
        Operation::Update => kind != TargetKind::Pod,
        Operation::Delete | Operation::Connect => false,
    };
    (whole && operation).then_some(kind)
}

async fn mutation(state: &State, question: &Question) -> Result<Answer, Error> {
    let namespace = question.namespace.as_deref().unwrap_or_default();
    let Some(kind) = target_kind(question).filter(|_| namespace != state.namespace) else {
        return Ok(Answer::allow());
    };
    let facts = state.facts.borrow().clone().ok_or(Error::NotReady)?;
    let object = review::object(question)?;
    let subject = Subject {
        kind,
        namespace,
        object: &object,
    };
    let unknown = {
        let table = state.policies.read();
        if !table.is_complete() {
            return Err(Error::NotReady);
        }
        mutate::unknown_policies(subject, &table.candidates(namespace))
    };
    let newer = newer(&state.client, namespace, unknown).await?;
    let table = state.policies.read();
    let mut candidates = table.candidates(namespace);
    candidates.extend(
        newer
            .iter()
            .map(|(policy, profile)| Candidate { policy, profile }),
    );
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    let mutation = mutate::mutate(subject, &candidates, &facts, &now.to_string())?;
    Ok(Answer {
        decision: Decision::Allow(mutation.patch),
        warnings: mutation.warnings,
    })
}

/// Of the policies that an object is protected by and that are not known here, those that exist after all: another replica
/// may have seen them first, and protection is taken away only when its policy is gone for certain.
async fn newer(
    client: &Client,
    namespace: &str,
    identities: Vec<String>,
) -> Result<Vec<(Known, String)>, Error> {
    let mut found = Vec::new();
    for identity in identities {
        match lookup(client, namespace, &identity).await {
            Ok(policy) => found.extend(policy),
            Err(source) => {
                let source = Box::new(source);
                return Err(Error::LookUp { identity, source });
            }
        }
    }
    Ok(found)
}

fn validation(question: &Question) -> Result<Answer, Error> {
    let ours = question.kind.group == "crd.varmor.org"
        && matches!(
            question.kind.kind.as_str(),
            "VarmorPolicy" | "VarmorClusterPolicy"
        );
    let old = match question.operation {
        Operation::Create => None,
        Operation::Update => review::old_object(question)?,
        Operation::Delete | Operation::Connect => return Ok(Answer::allow()),
    };
    if !ours
        || question
            .sub_resource
            .as_deref()
            .is_some_and(|part| !part.is_empty())
    {
        return Ok(Answer::allow());
    }
    let verdict = validate(&review::object(question)?, old.as_ref());
    let decision = if verdict.refusals.is_empty() {
        Decision::Allow(json_patch::Patch::default())
    } else {
        Decision::Deny(verdict.message())
    };
    Ok(Answer {
        decision,
        warnings: verdict.warnings,
    })
}

#[cfg(test)]
mod tests;
