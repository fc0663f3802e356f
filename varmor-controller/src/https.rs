//! The one way in which the controller serves HTTP: over TLS with a configuration that may change at any time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// The TLS configuration of the moment; `None` until there is a certificate. A new value counts for new connections.
pub type TlsWatch = watch::Receiver<Option<Arc<ServerConfig>>>;

/// Open connections per address: every node of the largest cluster may keep one, and there is room for others.
const CONNECTIONS: usize = 8192;

/// For the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// For the head of the next request, so also how long an idle connection stays: nodes that report every
/// 30 seconds keep theirs, a client that sends one byte a minute does not.
const HEAD: Duration = Duration::from_secs(45);

/// A whole request with its answer; it also ends bodies that trickle.
const REQUEST: Duration = Duration::from_secs(35);

/// What keeps an address from being served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
}

/// Serves until the future is dropped. Connections that come before there is a certificate are closed.
pub async fn serve(address: SocketAddr, tls: TlsWatch, router: Router) -> Result<(), Error> {
    serve_on(bind(address).await?, tls, router).await
}

/// Like [`serve`], on a socket that listens already.
pub async fn serve_on(listener: TcpListener, tls: TlsWatch, router: Router) -> Result<(), Error> {
    accept(listener, move |stream, permit| {
        let (router, config) = (router.clone(), tls.borrow().clone());
        async move {
            let Some(config) = config else { return };
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream)).await {
                connection(stream, router).await;
            }
            drop(permit);
        }
    })
    .await
}

/// Serves without TLS what is no secret and takes no orders: metrics and health.
pub async fn serve_plain(address: SocketAddr, router: Router) -> Result<(), Error> {
    serve_plain_on(bind(address).await?, router).await
}

/// Like [`serve_plain`], on a socket that listens already.
pub async fn serve_plain_on(listener: TcpListener, router: Router) -> Result<(), Error> {
    accept(listener, move |stream, permit| {
        let router = router.clone();
        async move {
            connection(stream, router).await;
            drop(permit);
        }
    })
    .await
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    let listening = TcpListener::bind(address).await;
    listening.map_err(|source| Error::Listen { address, source })
}

/// Hands each connection to a task of its own, so that none can keep the next one waiting.
async fn accept<F>(
    listener: TcpListener,
    serve: impl Fn(TcpStream, OwnedSemaphorePermit) -> F,
) -> Result<(), Error>
where
    F: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let permit = Arc::clone(&room)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are small and complete; waiting for more to send would only delay them.
                stream.set_nodelay(true).ok();
                tokio::spawn(serve(stream, permit));
            }
            Err(error) => {
                // Mostly too many open files: others must be closed first.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, router: Router) {
    let router = router.layer(axum::middleware::from_fn(limited));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn limited(request: axum::extract::Request, next: axum::middleware::Next) -> axum::response::Response {
    use axum::response::IntoResponse;
    match timeout(REQUEST, next.run(request)).await {
        Ok(response) => response,
        Err(_) => axum::http::StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;

    fn certificate(name: &str) -> (Arc<ServerConfig>, TlsConnector) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let server = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (Arc::new(server), TlsConnector::from(Arc::new(client)))
    }

    async fn ask(
        address: SocketAddr,
        connector: &TlsConnector,
        name: &'static str,
    ) -> std::io::Result<String> {
        let stream = TcpStream::connect(address).await?;
        let mut stream = connector
            .connect(ServerName::try_from(name).unwrap(), stream)
            .await?;
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    #[tokio::test]
    async fn a_renewed_certificate_counts_for_the_next_connection() {
        let (sender, tls) = watch::channel(None);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/healthz", get(|| async { "ok" }));
        tokio::spawn(serve_on(listener, tls, router));
        let (first, trusts_first) = certificate("first");
        let (second, trusts_second) = certificate("second");
        assert!(
            ask(address, &trusts_first, "first").await.is_err(),
            "no certificate yet"
        );
        sender.send(Some(first)).unwrap();
        assert!(
            ask(address, &trusts_first, "first")
                .await
                .unwrap()
                .ends_with("ok")
        );
        sender.send(Some(second)).unwrap();
        assert!(
            ask(address, &trusts_first, "first").await.is_err(),
            "the old one is gone"
        );
        assert!(
            ask(address, &trusts_second, "second")
                .await
                .unwrap()
                .ends_with("ok")
        );
    }

    #[tokio::test]
    async fn a_client_that_never_shakes_hands_keeps_nobody_waiting() {
        let (server, trusts) = certificate("server");
        let (_sender, tls) = watch::channel(Some(server));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/healthz", get(|| async { "ok" }));
        tokio::spawn(serve_on(listener, tls, router));
        let _silent = TcpStream::connect(address).await.unwrap();
        let answer = timeout(Duration::from_secs(5), ask(address, &trusts, "server")).await;
        assert!(answer.unwrap().unwrap().ends_with("ok"));
    }
}
