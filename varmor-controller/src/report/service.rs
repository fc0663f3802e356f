//! The HTTP service for reports and models.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;
use serde_json::json;
use varmor_common::report::{MODEL_PATH, ModelReport, NodeReport, REPORT_PATH};

use super::caller::{Caller, Callers, Denied};
use super::models::{Models, NotTaken};
use crate::context::Context;
use crate::status::AgentPod;

/// Far more than the problems of a node with ten thousand profiles need on average; a node sends fewer words, not more.
const LARGEST: usize = 1 << 20;

/// What etcd takes as one object, so no model can be larger.
const LARGEST_MODEL: usize = 3 << 19;

struct Service {
    context: Context,
    callers: Callers,
    models: Models,
}

/// The service; `POST` a report or a model, `GET /healthz`.
pub fn router(context: Context) -> Router {
    let settings = &context.settings;
    let callers = Callers::new(
        context.client.clone(),
        &settings.namespace,
        &settings.agent_service_account,
    );
    let models = Models::new(context.clone());
    let service = Service {
        context,
        callers,
        models,
    };
    Router::new()
        .route(REPORT_PATH, post(receive).layer(DefaultBodyLimit::max(LARGEST)))
        .route(
            MODEL_PATH,
            post(receive_model).layer(DefaultBodyLimit::max(LARGEST_MODEL)),
        )
        .route("/healthz", get(|| async { "ok" }))
        .with_state(Arc::new(service))
}

async fn receive(State(service): State<Arc<Service>>, request: Request) -> Response {
    match heard(&service, request, |report: &NodeReport| &report.node).await {
        Ok(report) => {
            service.context.nodes().hear(report, Instant::now());
            StatusCode::NO_CONTENT.into_response()
        }
        Err(response) => *response,
    }
}

async fn receive_model(State(service): State<Arc<Service>>, request: Request) -> Response {
    let report = match heard(&service, request, |report: &ModelReport| &report.node).await {
        Ok(report) => report,
        Err(response) => return *response,
    };
    match service.models.take(&report).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => {
            tracing::warn!(
                node = report.node,
                error = crate::told(&error),
                "a model is not taken"
            );
            let code = match error {
                NotTaken::Complete(_) => StatusCode::CONFLICT,
                NotTaken::Unreadable(..) => StatusCode::UNPROCESSABLE_ENTITY,
                NotTaken::NotRecorded(_) | NotTaken::Busy(_) | NotTaken::Unavailable(..) => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
            };
            answer(code, &crate::told(&error))
        }
    }
}

/// Reads what the agent of a node says, and makes sure that it speaks for that node. Who calls is asked before anything
/// of the body is read: strangers cost no memory.
async fn heard<T: DeserializeOwned>(
    service: &Service,
    request: Request,
    node_of_report: fn(&T) -> &String,
) -> Result<T, Box<Response>> {
    let token = token(request.headers()).unwrap_or_default().to_owned();
    let caller = match service.callers.of(&token).await {
        Ok(caller) => caller,
        Err(denied) => return Err(refused(service, &denied).into()),
    };
    let body = match Bytes::from_request(request, &()).await {
        Ok(body) => body,
        Err(rejection) => return Err(answer(rejection.status(), &rejection.body_text()).into()),
    };
    let report: T = match serde_json::from_slice(&body) {
        Ok(report) => report,
        Err(error) => {
            let message =
                format!("the report cannot be read: {error}; agent and controller must be of one release");
            return Err(answer(StatusCode::UNPROCESSABLE_ENTITY, &message).into());
        }
    };
    let node = match node_of(&service.context, &caller).await {
        Ok(node) => node,
        Err(denied) => return Err(refused(service, &denied).into()),
    };
    let claimed = node_of_report(&report);
    if node != *claimed {
        let denied = Denied::OtherNode {
            pod: caller.pod,
            own: node,
            claimed: claimed.clone(),
        };
        return Err(refused(service, &denied).into());
    }
    service.context.metrics.report(true);
    Ok(report)
}

/// The node of the caller's pod. A pod that the watch has not told of yet is looked up.
async fn node_of(context: &Context, caller: &Caller) -> Result<String, Denied> {
    let known = context.nodes().pod(&caller.pod).cloned();
    if let Some(pod) = known
        && pod.uid == caller.uid
    {
        return Ok(pod.node);
    }
    let settings = &context.settings;
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &settings.namespace);
    let params = ListParams::default()
        .labels(&settings.agent_selector)
        .fields(&format!("metadata.name={}", caller.pod));
    let found = api
        .list(&params)
        .await
        .map_err(|error| Denied::Unavailable(Box::new(error)))?;
    let not_an_agent = || Denied::NotAnAgent(caller.pod.clone());
    let pod = found.items.into_iter().next().ok_or_else(not_an_agent)?;
    let pod = agent_pod(&pod, &settings.agent_service_account)
        .filter(|pod| pod.uid == caller.uid)
        .ok_or_else(not_an_agent)?;
    context
        .nodes()
        .set_pod(&caller.pod, Some(pod.clone()), Instant::now());
    Ok(pod.node)
}

/// What is remembered of an agent's pod; `None` if it stands nowhere, has finished, or only looks like one: labels are
/// anybody's to set.
pub(crate) fn agent_pod(pod: &Pod, service_account: &str) -> Option<AgentPod> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return None;
    }
    let spec = pod.spec.as_ref()?;
    if spec.service_account_name.as_deref() != Some(service_account) {
        return None;
    }
    Some(AgentPod {
        uid: pod.metadata.uid.clone()?,
        node: spec.node_name.clone()?,
    })
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn refused(service: &Service, denied: &Denied) -> Response {
    service.context.metrics.report(false);
    let code = match denied {
        Denied::NoToken | Denied::NotAuthentic(_) => StatusCode::UNAUTHORIZED,
        Denied::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::FORBIDDEN,
    };
    tracing::info!(reason = crate::told(denied), "a report is refused");
    answer(code, &denied.to_string())
}

fn answer(code: StatusCode, message: &str) -> Response {
    (code, axum::Json(json!({"error": message}))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_behind_its_scheme() {
        for (text, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("Basic abc", None),
            ("abc", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, text.parse().unwrap());
            assert_eq!(token(&headers), expected, "{text}");
        }
        assert_eq!(token(&HeaderMap::new()), None);
    }

    #[test]
    fn a_finished_or_unscheduled_pod_speaks_for_no_node() {
        let pod = |node: Option<&str>, phase: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "a", "uid": "u"},
                "spec": {"containers": [], "nodeName": node, "serviceAccountName": "agent"}, "status": {"phase": phase}}))
            .unwrap()
        };
        assert!(agent_pod(&pod(Some("n1"), "Running"), "agent").is_some());
        assert!(agent_pod(&pod(Some("n1"), "Failed"), "agent").is_none());
        assert!(agent_pod(&pod(None, "Pending"), "agent").is_none());
        assert!(agent_pod(&pod(Some("n1"), "Running"), "other").is_none());
    }
}
