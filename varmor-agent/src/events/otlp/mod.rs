//! Violations as OpenTelemetry logs: OTLP over HTTP, to a collector that may be slow or away.

mod message;

use std::io;
use std::str::FromStr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use prost::Message as _;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::outbox::Inbox;
use super::recorder::epoch_time;

/// Records of one request.
const BATCH: usize = 256;
/// How long lines wait for more of them.
const GATHER: Duration = Duration::from_millis(500);
/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts for one batch, the first and the longest time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Attempts for one batch; then it is lost, and the next one is tried.
const ATTEMPTS: u32 = 5;
/// Longest answer that is read.
const LONGEST_ANSWER: usize = 64 << 10;
const PATH: &str = "/v1/logs";
const PORT: u16 = 4318;

/// The address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    path: String,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("not a URL: {error}"))?;
        if uri.scheme_str() != Some("http") {
            return Err(
                "only http is supported; let a collector on this machine send on by https, for example to \
                 http://127.0.0.1:4318"
                    .to_owned(),
            );
        }
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains('@') {
            return Err("a user in the URL is not supported".to_owned());
        }
        let base = uri.path().trim_end_matches('/');
        let path = match base.strip_suffix(PATH) {
            Some(_) => base.to_owned(),
            None => format!("{base}{PATH}"),
        };
        Ok(Self {
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(PORT),
            path,
        })
    }
}

/// Why a batch was not taken.
enum Failure {
    /// It may be taken later.
    Passing(String),
    /// It never will.
    Lasting(String),
}

/// Sends what comes until the other side is gone.
pub async fn export(mut inbox: Inbox, endpoint: Endpoint) {
    let mut is_well = true;
    let mut lines = Vec::with_capacity(BATCH);
    loop {
        lines.clear();
        if inbox.lines.recv_many(&mut lines, BATCH).await == 0 {
            return;
        }
        if lines.len() < BATCH {
            // Few: the next ones go along. The end of the channel ends the wait.
            let gather = async {
                while lines.len() < BATCH {
                    match inbox.lines.recv().await {
                        Some(line) => lines.push(line),
                        None => return,
                    }
                }
            };
            let _ = timeout(GATHER, gather).await;
        }
        let body: Bytes = message::request(lines.iter().map(|line| &**line), epoch_time())
            .encode_to_vec()
            .into();
        match deliver(&endpoint, body, inbox.lines.is_closed()).await {
            Ok(rejected) => {
                inbox.lose(rejected);
                if !is_well {
                    is_well = true;
                    info!("the collector takes violations again");
                }
            }
            Err(reason) => {
                inbox.lose(lines.len());
                if is_well {
                    is_well = false;
                    warn!(%reason, lost = lines.len(), "violations cannot be sent to the collector; losses are counted");
                }
            }
        }
    }
}

/// Tries a few times; answers how many records the collector did not want.
async fn deliver(endpoint: &Endpoint, body: Bytes, is_last: bool) -> Result<usize, String> {
    let mut pause = FIRST_PAUSE;
    let mut attempt = 1;
    loop {
        let outcome = timeout(PATIENCE, post(endpoint, body.clone())).await;
        let failure = match outcome {
            Ok(Ok(rejected)) => return Ok(rejected),
            Ok(Err(Failure::Lasting(reason))) => return Err(reason),
            Ok(Err(Failure::Passing(reason))) => reason,
            Err(_) => "no answer in time".to_owned(),
        };
        if attempt == ATTEMPTS || is_last {
            return Err(failure);
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        attempt += 1;
    }
}

async fn post(endpoint: &Endpoint, body: Bytes) -> Result<usize, Failure> {
    let passing = |error: hyper::Error| Failure::Passing(error.to_string());
    let lasting = |error: hyper::http::Error| Failure::Lasting(error.to_string());
    let host = endpoint.host.trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, endpoint.port))
        .await
        .map_err(|error: io::Error| Failure::Passing(format!("connect: {error}")))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(passing)?;
    let connection = tokio::spawn(connection);
    let request = Request::post(&endpoint.path)
        .header(header::HOST, format!("{}:{}", endpoint.host, endpoint.port))
        .header(header::CONTENT_TYPE, "application/x-protobuf")
        .header(
            header::USER_AGENT,
            concat!("varmor-agent/", env!("CARGO_PKG_VERSION")),
        )
        .body(Full::new(body))
        .map_err(lasting)?;
    let answer = sender.send_request(request).await.map_err(passing)?;
    let status = answer.status();
    let text = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
    connection.abort();
    match status {
        StatusCode::OK => {
            let bytes = text.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let rejected = message::ExportAnswer::decode(bytes)
                .unwrap_or_default()
                .partial_success;
            Ok(rejected
                .map(|partial| usize::try_from(partial.rejected_log_records).unwrap_or(0))
                .unwrap_or_default())
        }
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Err(Failure::Passing(format!("it answered {status}"))),
        _ => Err(Failure::Lasting(format!("it answered {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::events::Outbox;

    fn endpoint(text: &str) -> Result<Endpoint, String> {
        text.parse()
    }

    #[test]
    fn urls_are_read() {
        let read = endpoint("http://collector:9/").unwrap();
        assert_eq!(
            (read.host.as_str(), read.port, read.path.as_str()),
            ("collector", 9, "/v1/logs")
        );
        assert_eq!(endpoint("http://[::1]").unwrap().port, PORT);
        assert_eq!(endpoint("http://c/otlp/v1/logs").unwrap().path, "/otlp/v1/logs");
        assert_eq!(endpoint("http://c/otlp").unwrap().path, "/otlp/v1/logs");
        for bad in ["", "collector:4318", "https://c", "http://", "http://u:p@c"] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }

    /// Answers one request and gives back what it said.
    async fn collector(listener: TcpListener, answer: &str) -> Vec<u8> {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 64 << 10];
        let mut length = 0;
        loop {
            length += stream.read(&mut bytes[length..]).await.unwrap();
            let text = String::from_utf8_lossy(&bytes[..length]).to_lowercase();
            let Some(head) = text.find("\r\n\r\n") else {
                continue;
            };
            let expected: usize = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
                .unwrap();
            // The text may be longer than the bytes; the head is not.
            if length >= head + 4 + expected {
                stream.write_all(answer.as_bytes()).await.unwrap();
                bytes.truncate(length);
                return bytes.split_off(head + 4);
            }
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn violations_reach_the_collector() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (outbox, inbox) = Outbox::new("otlp");
        outbox.offer(r#"{"message":"one","eventTime":1}"#);
        outbox.offer(r#"{"message":"two","eventTime":2}"#);
        let exporter = tokio::spawn(export(
            inbox,
            endpoint(&format!("http://127.0.0.1:{port}")).unwrap(),
        ));
        let body = collector(listener, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let request = message::ExportLogs::decode(&body[..]).unwrap();
        assert_eq!(request.resource_logs[0].scope_logs[0].log_records.len(), 2);
        assert_eq!(outbox.lost(), 0);
        tokio::task::spawn_blocking(|| outbox.close()).await.unwrap();
        exporter.await.unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_the_collector_refuses_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (outbox, inbox) = Outbox::new("otlp");
        outbox.offer("{}");
        let exporter = tokio::spawn(export(
            inbox,
            endpoint(&format!("http://127.0.0.1:{port}")).unwrap(),
        ));
        collector(listener, "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        for _ in 0..100 {
            if outbox.lost() == 1 {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(outbox.lost(), 1);
        exporter.abort();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_absent_collector_is_tried_again_and_holds_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let address = endpoint(&format!("http://127.0.0.1:{port}")).unwrap();
        let failure = deliver(&address, Bytes::new(), true).await.unwrap_err();
        assert!(failure.contains("connect"), "{failure}");
    }
}
