//! The agent's end of the control socket. Only root and the agent's own user are answered.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::task;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::services;
use super::view::View;
use crate::control::{Answer, LONGEST_REQUEST, Overview, PATIENCE, Request, socket_path};
use crate::logging::LogLevel;

/// Connections at a time; the next ones wait.
const MOST: usize = 8;

/// Answers from now on.
pub(super) fn start(state_dir: &Path, view: Arc<View>, log_level: LogLevel) -> anyhow::Result<()> {
    let listener = bind(state_dir)
        .with_context(|| format!("open the agent's socket {}", socket_path(state_dir).display()))?;
    services::spawn("control", serve(listener, view, log_level))
}

/// The lock of the state folder is held, so a socket that is there is a dead agent's.
fn bind(state_dir: &Path) -> io::Result<UnixListener> {
    let path = socket_path(state_dir);
    // Before the socket is there: nobody else gets to it meanwhile.
    fs::set_permissions(state_dir, fs::Permissions::from_mode(0o700))?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn serve(listener: UnixListener, view: Arc<View>, log_level: LogLevel) -> anyhow::Result<()> {
    let listener = tokio::net::UnixListener::from_std(listener).context("listen at the socket")?;
    let room = Arc::new(Semaphore::new(MOST));
    let log_level = Arc::new(log_level);
    loop {
        let poll = |context: &mut task::Context<'_>| listener.poll_accept(context);
        let ((stream, _), permit) = services::accept(&room, "control", poll).await?;
        let (view, log_level) = (Arc::clone(&view), Arc::clone(&log_level));
        tokio::spawn(async move {
            match timeout(PATIENCE, converse(stream, &view, &log_level)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "connection to the agent's socket"),
                Err(_) => debug!("connection to the agent's socket took too long"),
            }
            drop(permit);
        });
    }
}

async fn converse(stream: UnixStream, view: &View, log_level: &LogLevel) -> io::Result<()> {
    let user = stream.peer_cred()?.uid();
    let (from, mut to) = stream.into_split();
    let answer = if may_ask(user) {
        let mut line = Vec::new();
        let mut from = BufReader::new(from).take(LONGEST_REQUEST as u64);
        from.read_until(b'\n', &mut line).await?;
        answer(&line, view, log_level)
    } else {
        warn!(user, "somebody who is not root asked at the agent's socket");
        Answer::Error {
            message: "only root may ask".to_owned(),
        }
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    to.write_all(&text).await?;
    to.shutdown().await
}

fn may_ask(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

fn answer(line: &[u8], view: &View, log_level: &LogLevel) -> Answer {
    let refuse = |message: String| Answer::Error { message };
    if line.last() != Some(&b'\n') {
        return refuse(format!(
            "a question is one line of at most {LONGEST_REQUEST} bytes"
        ));
    }
    match serde_json::from_slice(line) {
        Ok(Request::Status) => {
            let snapshot = view.snapshot();
            Answer::Status(Box::new(Overview {
                status: (*snapshot.status).clone(),
                policies: (*snapshot.policies).clone(),
                is_alive: view.is_alive(),
                missing: snapshot.missing,
            }))
        }
        Ok(Request::LogLevel { level }) => match log_level.set(&level) {
            Ok(()) => {
                info!(%level, "the log has another level");
                Answer::Done
            }
            Err(error) => refuse(error.to_string()),
        },
        Err(error) => refuse(format!("no question of this version: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::control::{AskError, ask};

    fn agent() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let view = View::new("node-1");
        view.beat();
        start(folder.path(), view, LogLevel::of_nothing()).unwrap();
        folder
    }

    #[test]
    fn status_is_answered_and_the_socket_is_private() {
        let folder = agent();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(folder.path()), mode(&socket_path(folder.path()))),
            (0o700, 0o600)
        );
        let Answer::Status(overview) = ask(folder.path(), &Request::Status).unwrap() else {
            panic!("another answer")
        };
        assert!(overview.is_alive);
        assert_eq!(overview.missing, ["policies were not read yet"]);
    }

    #[test]
    fn a_level_is_set_or_refused() {
        let folder = agent();
        let set = |level: &str| {
            let level = level.to_owned();
            ask(folder.path(), &Request::LogLevel { level })
        };
        assert_eq!(set("debug").unwrap(), Answer::Done);
        let refused = set("info,=x=").unwrap_err();
        assert!(matches!(&refused, AskError::Refused(_)), "{refused}");
    }

    #[test]
    fn other_text_is_refused_with_a_reason() {
        let folder = agent();
        let long = [b'x'; LONGEST_REQUEST + 10];
        for (text, reason) in [(&b"{}\n"[..], "no question"), (&long, "one line of at most")] {
            let mut stream = std::os::unix::net::UnixStream::connect(socket_path(folder.path())).unwrap();
            stream.write_all(text).unwrap();
            let mut answer = String::new();
            // The rest of a long question is not read, so the end of the connection may be a reset.
            let _ = stream.read_to_string(&mut answer);
            assert!(answer.contains(reason), "{answer}");
        }
    }

    #[test]
    fn a_dead_agents_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        drop(bind(folder.path()).unwrap());
        assert!(ask(folder.path(), &Request::Status).is_err());
        assert!(bind(folder.path()).is_ok());
    }

    #[test]
    fn only_root_and_the_own_user_may_ask() {
        let own = rustix::process::geteuid().as_raw();
        assert!(may_ask(0) && may_ask(own));
        assert!(!may_ask(own + 1));
    }
}
