//! `/metrics`, `/healthz` and `/readyz` over HTTP.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::task;
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::debug;

use super::view::{STALE, View};
use super::{metrics, services};

/// Connections at a time; the next ones wait.
const MOST: usize = 16;
/// How long a connection may last, whatever it does.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a question may take to come.
const HEAD: Duration = Duration::from_secs(5);
/// What a scraper of `OpenMetrics` expects.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Serves from now on; an address that cannot be had is an error at once.
pub(super) fn start(address: SocketAddr, view: Arc<View>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("listen for metrics at {address}"))?;
    listener
        .set_nonblocking(true)
        .context("set up the listener for metrics")?;
    services::spawn("metrics", serve(listener, view))
}

async fn serve(listener: TcpListener, view: Arc<View>) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener).context("listen for metrics")?;
    let room = Arc::new(Semaphore::new(MOST));
    loop {
        let poll = |context: &mut task::Context<'_>| listener.poll_accept(context);
        let ((stream, _), permit) = services::accept(&room, "metrics", poll).await?;
        let view = Arc::clone(&view);
        tokio::spawn(async move {
            let answer_one = service_fn(|request: Request<Incoming>| {
                let response = answer(request.method(), request.uri().path(), &view);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer_one);
            if let Ok(Err(error)) = timeout(PATIENCE, connection).await {
                debug!(%error, "connection for metrics");
            }
            drop(permit);
        });
    }
}

fn answer(method: &Method, path: &str, view: &View) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        return response(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n".to_owned());
    }
    match path {
        "/metrics" => response(StatusCode::OK, OPEN_METRICS, metrics::text(view)),
        "/healthz" => health(view),
        "/readyz" => ready(view),
        _ => response(
            StatusCode::NOT_FOUND,
            PLAIN,
            "there are /metrics, /healthz and /readyz\n".to_owned(),
        ),
    }
}

fn health(view: &View) -> Response<Full<Bytes>> {
    let silence = view.silence().as_secs_f64();
    if view.is_alive() {
        let text = format!("ok, the agent's loop went round {silence:.1} s ago\n");
        return response(StatusCode::OK, PLAIN, text);
    }
    let text = format!(
        "the agent's loop has not gone round for {silence:.1} s; {} s are too long\n",
        STALE.as_secs()
    );
    response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, text)
}

fn ready(view: &View) -> Response<Full<Bytes>> {
    let mut missing = view.snapshot().missing;
    if !view.is_alive() {
        missing.insert(0, "the agent's loop does not go round".to_owned());
    }
    if missing.is_empty() {
        return response(
            StatusCode::OK,
            PLAIN,
            "ready: policies were read, containers were listed, everything is applied\n".to_owned(),
        );
    }
    let mut text = missing.join("\n");
    text.push('\n');
    response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, text)
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    fn status(path: &str, view: &View) -> u16 {
        answer(&Method::GET, path, view).status().as_u16()
    }

    #[test]
    fn health_and_readiness_tell_the_truth() {
        let view = View::new("n");
        view.beat();
        assert_eq!((status("/healthz", &view), status("/readyz", &view)), (200, 503));
        view.update(|snapshot| snapshot.missing.clear());
        assert_eq!(status("/readyz", &view), 200);
        let silent = View::silent_for(STALE * 2);
        silent.update(|snapshot| snapshot.missing.clear());
        assert_eq!(
            (status("/healthz", &silent), status("/readyz", &silent)),
            (503, 503)
        );
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        let view = View::new("n");
        assert_eq!(status("/", &view), 404);
        assert_eq!(
            answer(&Method::POST, "/metrics", &view).status(),
            StatusCode::METHOD_NOT_ALLOWED
        );
    }

    #[test]
    fn metrics_are_served_over_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        services::spawn("metrics", serve(listener, View::new("n"))).unwrap();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        assert!(
            text.contains("varmor_agent_ready 0") && text.ends_with("# EOF\n"),
            "{text}"
        );
    }
}
