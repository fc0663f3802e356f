//! The side that asks: connects, says one line, reads one.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use thiserror::Error;

use super::{Answer, LONGEST_ANSWER, PATIENCE, Request, socket_path};

#[derive(Debug, Error)]
pub enum AskError {
    #[error("the agent's socket cannot be used: {0}")]
    Socket(#[from] io::Error),
    #[error("the agent's answer cannot be understood: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("the agent's answer is longer than {LONGEST_ANSWER} bytes")]
    Long,
    #[error("the agent says: {0}")]
    Refused(String),
    #[error("the agent answered something else; it is of another version")]
    Other,
}

/// Asks the agent with this state folder.
pub fn ask(state_dir: &Path, request: &Request) -> Result<Answer, AskError> {
    let mut stream = UnixStream::connect(socket_path(state_dir))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut text = Vec::new();
    let mut reader = BufReader::new(stream).take(LONGEST_ANSWER as u64);
    reader.read_until(b'\n', &mut text)?;
    if text.last() != Some(&b'\n') && text.len() >= LONGEST_ANSWER {
        return Err(AskError::Long);
    }
    match serde_json::from_slice(&text)? {
        Answer::Error { message } => Err(AskError::Refused(message)),
        answer => Ok(answer),
    }
}
