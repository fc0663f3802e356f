//! A certificate as the configuration of a server.

use std::sync::Arc;

use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ServerConfig, crypto};

use super::judge::certificates;
use super::{Error, Material};

/// The configuration of a server; an error if certificate and key do not belong together.
pub fn server_config(material: &Material) -> Result<ServerConfig, Error> {
    let chain = certificates(&material.certificate);
    if chain.is_empty() {
        return Err(Error::Read("it is not PEM".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(material.key.as_bytes())
        .map_err(|error| Error::Read(format!("its key: {error}")))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
