//! The envelope of questions and answers: `AdmissionReview` of `admission.k8s.io/v1`.

use json_patch::Patch;
use kube::core::admission::{
    AdmissionRequest, AdmissionResponse, AdmissionReview, META_API_VERSION_V1, META_KIND,
};
use kube::core::response::StatusSummary;
use kube::core::{DynamicObject, Status};
use serde_json::Value;

/// A question is at most this long: the API server takes objects of up to 3 MiB, and an update brings two of them.
pub(crate) const LARGEST: usize = 8 << 20;

/// Warnings beyond these would only hide the first ones.
const MOST_WARNINGS: usize = 16;

/// A question.
pub(crate) type Question = AdmissionRequest<DynamicObject>;

/// The answer to a question.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) decision: Decision,
    /// Sentences that `kubectl` shows.
    pub(crate) warnings: Vec<String>,
}

/// What becomes of the object.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// It is admitted, changed by the patch unless that is empty.
    Allow(Patch),
    /// It is refused because of this.
    Deny(String),
}

impl Answer {
    /// The object is admitted as it is.
    #[must_use]
    pub(crate) fn allow() -> Self {
        Self {
            decision: Decision::Allow(Patch::default()),
            warnings: Vec::new(),
        }
    }
}

/// A question that cannot be answered. It is never answered with "allowed": the API server applies the failure policy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the body is no AdmissionReview; send one of {META_API_VERSION_V1}")]
    Undecodable(#[source] serde_json::Error),
    #[error("the AdmissionReview is of version `{0}`; send one of {META_API_VERSION_V1}")]
    Version(String),
    #[error("the AdmissionReview has no `request`")]
    NoRequest,
    #[error("the AdmissionReview has no `request.object`")]
    NoObject,
    #[error("write the answer")]
    Answer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Reads a question.
pub(crate) fn decode(body: &[u8]) -> Result<Question, Error> {
    let review: AdmissionReview<DynamicObject> = serde_json::from_slice(body).map_err(Error::Undecodable)?;
    let types = &review.types;
    if types.api_version != META_API_VERSION_V1 || types.kind != META_KIND {
        return Err(Error::Version(format!("{} {}", types.api_version, types.kind)));
    }
    review.try_into().map_err(|_| Error::NoRequest)
}

/// The object that a question is about, as JSON.
pub(crate) fn object(question: &Question) -> Result<Value, Error> {
    let object = question.object.as_ref().ok_or(Error::NoObject)?;
    serde_json::to_value(object).map_err(Error::Undecodable)
}

/// What the object was before, if it was.
pub(crate) fn old_object(question: &Question) -> Result<Option<Value>, Error> {
    let old = question.old_object.as_ref().map(serde_json::to_value);
    old.transpose().map_err(Error::Undecodable)
}

/// Writes the answer.
pub(crate) fn encode(question: &Question, answer: Answer) -> Result<Value, Error> {
    let mut response = AdmissionResponse::from(question);
    let Answer { decision, warnings } = answer;
    match decision {
        Decision::Allow(patch) if patch.0.is_empty() => {}
        Decision::Allow(patch) => {
            response = response
                .with_patch(patch)
                .map_err(|error| Error::Answer(Box::new(error)))?;
        }
        Decision::Deny(message) => {
            response.allowed = false;
            response.result = Status {
                status: Some(StatusSummary::Failure),
                code: 422,
                ..Status::failure(&message, "Invalid")
            };
        }
    }
    response.warnings = (!warnings.is_empty()).then(|| first(warnings));
    serde_json::to_value(response.into_review()).map_err(|error| Error::Answer(Box::new(error)))
}

fn first(mut warnings: Vec<String>) -> Vec<String> {
    if warnings.len() > MOST_WARNINGS {
        let more = warnings.len() - (MOST_WARNINGS - 1);
        warnings.truncate(MOST_WARNINGS - 1);
        warnings.push(format!("and {more} more warnings"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use json_patch::PatchOperation;
    use serde_json::json;

    use super::*;

    fn body(api_version: &str) -> Vec<u8> {
        json!({
            "apiVersion": api_version, "kind": "AdmissionReview",
            "request": {
                "uid": "u-1",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "namespace": "demo", "operation": "CREATE", "userInfo": {},
                "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": []}},
            },
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn a_question_is_read_and_answered_under_its_uid() {
        let question = decode(&body("admission.k8s.io/v1")).expect("a question");
        assert_eq!(
            object(&question).expect("an object")["spec"],
            json!({"containers": []})
        );
        let patch: Patch =
            serde_json::from_value(json!([{"op": "add", "path": "/spec/x", "value": 1}])).expect("a patch");
        let answer = Answer {
            decision: Decision::Allow(patch),
            warnings: (0..40).map(|number| number.to_string()).collect(),
        };
        let answer = encode(&question, answer).expect("an answer");
        let response = &answer["response"];
        assert_eq!(
            (
                &answer["apiVersion"],
                &answer["kind"],
                &response["uid"],
                &response["allowed"]
            ),
            (
                &json!("admission.k8s.io/v1"),
                &json!("AdmissionReview"),
                &json!("u-1"),
                &json!(true)
            )
        );
        assert_eq!(response["patchType"], "JSONPatch");
        let bytes: Vec<u8> = serde_json::from_value(response["patch"].clone()).expect("bytes");
        let operations: Vec<PatchOperation> = serde_json::from_slice(&bytes).expect("operations");
        assert_eq!(operations.len(), 1);
        assert_eq!(response["warnings"].as_array().map(Vec::len), Some(MOST_WARNINGS));
        assert_eq!(response["warnings"][MOST_WARNINGS - 1], "and 25 more warnings");
    }

    #[test]
    fn a_refusal_carries_its_message() {
        let question = decode(&body("admission.k8s.io/v1")).expect("a question");
        let answer = Answer {
            decision: Decision::Deny("spec: wrong".to_owned()),
            warnings: Vec::new(),
        };
        let response = encode(&question, answer).expect("an answer")["response"].clone();
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["message"], "spec: wrong");
        assert!(response.get("patch").is_none() && response.get("warnings").is_none());
    }

    #[test]
    fn what_is_no_question_is_an_error_and_no_answer() {
        for body in [
            &b"{"[..],
            b"{}",
            b"[]",
            b"\xff",
            &body("admission.k8s.io/v1beta1"),
        ] {
            assert!(decode(body).is_err());
        }
        let empty = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}).to_string();
        assert!(matches!(decode(empty.as_bytes()), Err(Error::NoRequest)));
    }
}
