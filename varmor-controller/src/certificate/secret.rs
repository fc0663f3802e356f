//! The Secrets that hold the certificate.
//!
//! The pair is the truth and changes as a whole; the other Secret repeats its authority for those who must not read keys.

use std::collections::BTreeMap;
use std::time::SystemTime;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{Error, Judgement, Material, Names, issue, judge};

/// What Kubernetes calls a Secret with a certificate and its key.
const PAIR_TYPE: &str = "kubernetes.io/tls";

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
/// The only key of the other Secret.
const ROOT: &str = "rootCA.crt";

/// Attempts to write a Secret that others write as well.
const ATTEMPTS: usize = 8;

/// The name of the Secret that holds certificate and keys.
#[must_use]
pub fn pair_secret(namespace: &str) -> String {
    format!("varmor-webhook-svc.{namespace}.varmor-tls-pair")
}

/// The name of the Secret that holds the authority only.
#[must_use]
pub fn authority_secret(namespace: &str) -> String {
    format!("varmor-webhook-svc.{namespace}.varmor-tls-ca")
}

/// The certificate in the Secrets, after whatever had to be done so that they hold a good one.
pub(super) async fn ensure(
    secrets: &Api<Secret>,
    namespace: &str,
    names: &Names,
    now: SystemTime,
) -> Result<Material, Error> {
    let material = ensure_pair(secrets, namespace, names, now).await?;
    ensure_authority(secrets, namespace, &material).await?;
    Ok(material)
}

async fn ensure_pair(
    secrets: &Api<Secret>,
    namespace: &str,
    names: &Names,
    now: SystemTime,
) -> Result<Material, Error> {
    let name = pair_secret(namespace);
    let failed = |source: kube::Error| Error::Secret {
        namespace: namespace.to_owned(),
        name: name.clone(),
        source: Box::new(source),
    };
    for _ in 0..ATTEMPTS {
        let present = secrets.get_opt(&name).await.map_err(failed)?;
        let held = present.as_ref().and_then(read);
        let reason = match held.as_ref().map(|material| judge(material, names, now)) {
            Some(Judgement::Keep) => return Ok(held.expect("it was judged")),
            Some(Judgement::Renew(reason)) => reason,
            None if present.is_some() => "the Secret does not hold one".to_owned(),
            None => "there is none".to_owned(),
        };
        let material = issue(held.as_ref(), names, now)?;
        let written = match &present {
            None => {
                secrets
                    .create(&PostParams::default(), &pair(&name, &material, None))
                    .await
            }
            // The type of a Secret cannot change, nor anything of an immutable one.
            Some(other) if other.type_.as_deref() != Some(PAIR_TYPE) || other.immutable == Some(true) => {
                match secrets.delete(&name, &this_very_one(other)).await {
                    Err(error) if !is_lost_race(&error) => return Err(failed(error)),
                    _ => continue,
                }
            }
            Some(old) => {
                let pair = pair(&name, &material, old.resource_version());
                secrets.replace(&name, &PostParams::default(), &pair).await
            }
        };
        match written {
            Ok(_) => {
                tracing::info!(namespace, secret = name, reason, "a certificate was issued");
                return Ok(material);
            }
            // Another replica was faster; what it wrote counts.
            Err(error) if is_lost_race(&error) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(Error::Contended {
        namespace: namespace.to_owned(),
        name,
    })
}

async fn ensure_authority(secrets: &Api<Secret>, namespace: &str, material: &Material) -> Result<(), Error> {
    let name = authority_secret(namespace);
    let failed = |source: kube::Error| Error::Secret {
        namespace: namespace.to_owned(),
        name: name.clone(),
        source: Box::new(source),
    };
    let present = secrets.get_opt(&name).await.map_err(failed)?;
    if present.as_ref().and_then(|secret| text(secret, ROOT)).as_ref() == Some(&material.authority) {
        return Ok(());
    }
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "annotations": {"self-signed-cert": "true"}},
        "type": "Opaque",
        "data": {ROOT: ByteString(material.authority.clone().into_bytes())},
    });
    let params = PatchParams::apply("varmor-controller-certificate").force();
    secrets
        .patch(&name, &params, &Patch::Apply(&secret))
        .await
        .map(|_| ())
        .map_err(failed)
}

/// The certificate in a Secret; none if a part is missing.
fn read(secret: &Secret) -> Option<Material> {
    Some(Material {
        authority: text(secret, AUTHORITY)?,
        authority_key: text(secret, AUTHORITY_KEY)?,
        certificate: text(secret, CERTIFICATE)?,
        key: text(secret, KEY)?,
    })
    .filter(|_| secret.type_.as_deref() == Some(PAIR_TYPE))
}

fn text(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    String::from_utf8(bytes.0.clone()).ok()
}

fn pair(name: &str, material: &Material, version: Option<String>) -> Secret {
    let parts = [
        (AUTHORITY, &material.authority),
        (AUTHORITY_KEY, &material.authority_key),
        (CERTIFICATE, &material.certificate),
        (KEY, &material.key),
    ];
    let data = parts.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())));
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            resource_version: version,
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from(data)),
        type_: Some(PAIR_TYPE.to_owned()),
        ..Secret::default()
    }
}

fn this_very_one(secret: &Secret) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: secret.uid(),
        resource_version: secret.resource_version(),
    })
}

/// Created, changed or deleted by somebody else since it was read.
fn is_lost_race(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}
