//! Whether a certificate can be used, and for how long.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{KeyPair, PublicKeyData};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{RootCertStore, crypto};
use x509_parser::parse_x509_certificate;

use super::{AUTHORITY_NAME, AUTHORITY_VALIDITY, Material, Names, VALIDITY, tls};

/// What is to be done with a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    Keep,
    /// A new one is due, because of this.
    Renew(String),
}

/// Judges a certificate that is to serve `names`.
#[must_use]
pub fn judge(material: &Material, names: &Names, now: SystemTime) -> Judgement {
    let fault = authority_fault(material, now)
        .or_else(|| tls::server_config(material).err().map(|error| describe(&error)))
        .or_else(|| verify(material, names, now).err())
        .or_else(|| {
            verify(material, names, now + VALIDITY / 3)
                .err()
                .map(|_| "it ends soon".to_owned())
        });
    fault.map_or(Judgement::Keep, Judgement::Renew)
}

/// What keeps the authority from signing another certificate.
pub(super) fn authority_fault(material: &Material, now: SystemTime) -> Option<String> {
    let Some(der) = certificates(&material.authority).into_iter().next() else {
        return Some("the authority is not PEM".to_owned());
    };
    let Ok((_, certificate)) = parse_x509_certificate(&der) else {
        return Some("the authority cannot be read".to_owned());
    };
    if !certificate.is_ca() {
        return Some("the authority is no authority".to_owned());
    }
    // Certificates would name an authority that is not this one.
    if certificate.subject().to_string() != format!("CN={AUTHORITY_NAME}") {
        return Some("the authority is somebody else's".to_owned());
    }
    let Ok(key) = KeyPair::from_pem(&material.authority_key) else {
        return Some("the key of the authority cannot be read".to_owned());
    };
    if key.der_bytes() != &*certificate.public_key().subject_public_key.data {
        return Some("the key of the authority is another one's".to_owned());
    }
    let left = left(&certificate, now);
    (left < AUTHORITY_VALIDITY / 3).then(|| "the authority ends soon".to_owned())
}

/// Those of the certificates that are valid now, as PEM: the first one only, so that replaced authorities do not pile up.
pub(super) fn still_valid(pem: &str, now: SystemTime) -> Option<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let first = &pem[..pem.find(END)? + END.len()];
    let der = certificates(first).into_iter().next()?;
    let (_, certificate) = parse_x509_certificate(&der).ok()?;
    (left(&certificate, now) > Duration::ZERO).then(|| format!("{first}\n"))
}

/// How long a certificate is valid from `now`; nothing if it is not valid now.
fn left(certificate: &x509_parser::certificate::X509Certificate<'_>, now: SystemTime) -> Duration {
    let now = seconds(now);
    let validity = certificate.validity();
    let begun = validity.not_before.timestamp() <= now;
    let left = validity.not_after.timestamp().saturating_sub(now);
    Duration::from_secs(if begun { left.try_into().unwrap_or(0) } else { 0 })
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Verifies the certificate as a client does, for each name.
fn verify(material: &Material, names: &Names, at: SystemTime) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(&material.authority));
    let provider = Arc::new(crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())?;
    let chain = certificates(&material.certificate);
    let (own, rest) = chain.split_first().ok_or("the certificate is not PEM")?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for name in names.iter() {
        let server = ServerName::try_from(name).map_err(|error| error.to_string())?;
        verifier
            .verify_server_cert(own, rest, &server, &[], UnixTime::since_unix_epoch(since))
            .map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// The certificates in a text up to the first thing that is none.
pub(super) fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .map_while(Result::ok)
        .collect()
}

fn describe(error: &super::Error) -> String {
    match error {
        super::Error::Serve(source) => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}
