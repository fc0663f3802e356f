//! Questions to the running agent, over the unix socket in its state folder: one JSON line there, one back.

mod client;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::daemon::state::{Policies, Status};

pub use client::{AskError, ask};

/// Of the socket in the state folder.
pub const SOCKET: &str = "agent.sock";
/// Longest question.
pub const LONGEST_REQUEST: usize = 4 << 10;
/// Longest answer: thousands of containers fit.
pub const LONGEST_ANSWER: usize = 32 << 20;
/// How long either side waits for the other.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// What the agent knows about itself.
    Status,
    /// Another filter for the agent's log, until it ends.
    LogLevel { level: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    Status(Box<Overview>),
    Done,
    Error { message: String },
}

/// The agent's state at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overview {
    pub status: Status,
    pub policies: Policies,
    /// The loop goes round.
    pub is_alive: bool,
    /// What is not applied yet; empty = ready.
    pub missing: Vec<String>,
}

#[must_use]
pub fn socket_path(state_dir: &Path) -> PathBuf {
    state_dir.join(SOCKET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_stable() {
        let text = |request: &Request| serde_json::to_string(request).unwrap();
        assert_eq!(text(&Request::Status), r#"{"request":"status"}"#);
        let request = Request::LogLevel {
            level: "debug".to_owned(),
        };
        assert_eq!(text(&request), r#"{"request":"log-level","level":"debug"}"#);
        assert_eq!(serde_json::from_str::<Request>(&text(&request)).unwrap(), request);
        assert!(serde_json::from_str::<Request>(r#"{"request":"other"}"#).is_err());
    }
}
