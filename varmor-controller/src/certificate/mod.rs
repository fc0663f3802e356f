//! The certificate of the webhook and of the status service: an authority of our own, made by whichever replica is first,
//! kept in two Secrets, renewed in time and handed to the servers without a restart.

mod issue;
mod judge;
mod keeper;
mod names;
mod secret;
#[cfg(test)]
mod tests;
mod tls;

use std::time::Duration;

pub use issue::issue;
pub use judge::{Judgement, judge};
pub use keeper::{Keeper, Published};
pub use names::Names;
pub use secret::{authority_secret, pair_secret};
pub use tls::server_config;

const DAY: Duration = Duration::from_hours(24);

/// How long a certificate is valid. It is renewed when less than a third is left.
pub const VALIDITY: Duration = DAY.saturating_mul(365);

/// How long the authority is valid; renewing a certificate does not change it.
pub const AUTHORITY_VALIDITY: Duration = DAY.saturating_mul(3650);

/// The common name of the authority.
const AUTHORITY_NAME: &str = "varmor authority";

/// Clocks of a cluster differ.
const BACKDATED: Duration = Duration::from_hours(1);

/// A server's certificate with its authority, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    /// The authority, and behind it the one before while that is still valid.
    pub authority: String,
    pub authority_key: String,
    pub certificate: String,
    pub key: String,
}

impl std::fmt::Debug for Material {
    /// Without the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Material")
            .field("authority", &self.authority)
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("issue a certificate")]
    Issue(#[from] rcgen::Error),
    #[error("`{0}` cannot stand in a certificate; give DNS names and addresses")]
    Name(String),
    #[error("read the certificate: {0}")]
    Read(String),
    #[error("serve with the certificate")]
    Serve(#[from] tokio_rustls::rustls::Error),
    #[error("the Secret {namespace}/{name}")]
    Secret {
        namespace: String,
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("the Secret {namespace}/{name} changes again and again; is another product writing it?")]
    Contended { namespace: String, name: String },
}
