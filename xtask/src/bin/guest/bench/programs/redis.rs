//! Redis, and what its own benchmark would send. The server counts the commands that it has processed: that is the proof of the
//! work.

pub(in crate::bench) mod client;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use anyhow::{Context, Result, ensure};

use super::{Load, number, output, server::Server, words};

/// In what the server says of itself.
const PROCESSED: &str = "total_commands_processed:";
const PORT: u16 = 7379;
/// Commands that a client sends at once.
const PIPELINE: u32 = 1024;

pub(super) struct Redis {
    server: Server,
    command: String,
    clients: u32,
    amount: u32,
    processed: u64,
}

impl Redis {
    /// A fresh server, so that there is neither the key that GET reads nor the list that LPOP takes from.
    pub(super) fn start(command: &str, clients: u32, amount: u32, folder: &str) -> Result<Self> {
        let save = "--save";
        let mut arguments = words(&format!(
            "--bind 127.0.0.1 --port {PORT} --io-threads 1 --io-threads-do-reads yes --tcp-keepalive 0 --dir {folder} {save}"
        ));
        arguments.push(String::new());
        let server = Server::start("/usr/bin/redis-server", &arguments, PORT, folder)?;
        let mut redis = Self {
            server,
            command: command.to_owned(),
            clients,
            amount,
            processed: 0,
        };
        redis.processed = redis.count()?;
        Ok(redis)
    }

    /// Commands that the server has processed so far.
    fn count(&self) -> Result<u64> {
        let mut stream = self.server.connect()?;
        stream.write_all(b"INFO stats\r\n").context("ask the server")?;
        number(&bulk(stream)?, PROCESSED).context("the server tells no number of commands")
    }
}

impl Load for Redis {
    fn run(&mut self) -> Result<String> {
        let Self {
            command,
            clients,
            amount,
            ..
        } = self;
        let arguments = format!("bench redis-client {command} {clients} {amount}");
        output("/varmor-guest", &words(&arguments))
    }

    fn done(&mut self, said: &str) -> Result<u64> {
        let count = self.count()?;
        let done = count - self.processed;
        // The question before this one is a command too.
        ensure!(
            said.trim() == self.amount.to_string() && done == u64::from(self.amount) + 1,
            "the server has processed {} commands and the client was answered {}, not {}",
            done - 1,
            said.trim(),
            self.amount
        );
        self.processed = count;
        Ok(u64::from(self.amount))
    }
}

/// A text that the server sends with its length before it.
fn bulk(stream: TcpStream) -> Result<String> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    reader.read_line(&mut head).context("read the server's answer")?;
    let length = head
        .trim()
        .strip_prefix('$')
        .and_then(|length| length.parse().ok());
    let length: usize = length.with_context(|| format!("the server answers {head}"))?;
    let mut text = vec![0; length];
    reader.read_exact(&mut text).context("read the server's answer")?;
    Ok(String::from_utf8(text)?)
}

#[cfg(test)]
mod tests {
    use super::{PROCESSED, number};

    #[test]
    fn server_counts_commands() {
        let info = "# Stats\r\ntotal_connections_received:51\r\ntotal_commands_processed:204803\r\n";
        assert_eq!(number(info, PROCESSED), Some(204_803));
        assert_eq!(number("# Stats\r\n", PROCESSED), None);
    }
}
