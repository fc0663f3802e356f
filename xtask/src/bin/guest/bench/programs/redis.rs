//! Redis and its own benchmark. The server counts the commands that it has processed: that is the proof of the work.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use anyhow::{Context, Result, ensure};

use super::{Load, output, server::Server, words};

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
        processed(&bulk(stream)?).context("the server tells no number of commands")
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
        let arguments = format!(
            "-h 127.0.0.1 -p {PORT} -n {amount} -P {PIPELINE} -q -d 4 --csv -t {command} -c {clients}"
        );
        output("/usr/bin/redis-benchmark", &words(&arguments))
    }

    fn done(&mut self, said: &str) -> Result<u64> {
        let name = self.command.to_uppercase();
        ensure!(
            rate(said, &name).is_some_and(|rate| rate > 0.0),
            "redis-benchmark tells no rate of {name}: {said}"
        );
        let count = self.count()?;
        let amount = u64::from(self.amount);
        let done = count - self.processed;
        // The client ends when it has had so many answers; what it has sent beyond that is processed as well.
        ensure!(
            done >= amount,
            "the server has processed {done} commands, not {amount}"
        );
        self.processed = count;
        Ok(done)
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

fn processed(info: &str) -> Option<u64> {
    let mut lines = info.lines();
    lines
        .find_map(|line| line.strip_prefix("total_commands_processed:"))?
        .trim()
        .parse()
        .ok()
}

/// Requests per second, from the line of the test.
fn rate(csv: &str, test: &str) -> Option<f64> {
    let line = csv
        .lines()
        .find_map(|line| line.strip_prefix(&format!("\"{test}\",\"")))?;
    line.split('"').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{processed, rate};

    const CSV: &str =
        "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\"\n\"GET\",\"1356108.12\",\"18.2\",\"3.1\"\n";

    #[test]
    fn rate_is_that_of_the_named_test() {
        assert_eq!(rate(CSV, "GET"), Some(1_356_108.12));
        assert_eq!(rate(CSV, "SET"), None);
    }

    #[test]
    fn server_counts_commands() {
        let info = "# Stats\r\ntotal_connections_received:51\r\ntotal_commands_processed:204803\r\n";
        assert_eq!(processed(info), Some(204_803));
        assert_eq!(processed("# Stats\r\n"), None);
    }
}
