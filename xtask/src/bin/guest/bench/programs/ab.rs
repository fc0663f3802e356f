//! Apache's httpd serves one page to its own benchmark, ab, which sends exactly as many requests as asked.

use anyhow::{Result, ensure};

use super::{Load, apache, output, server::Server, words};

pub(super) struct Bench {
    _server: Server,
    connections: u32,
    amount: u32,
}

impl Bench {
    pub(super) fn start(connections: u32, amount: u32, folder: &str) -> Result<Self> {
        Ok(Self {
            _server: apache::serve(folder)?,
            connections,
            amount,
        })
    }
}

impl Load for Bench {
    fn run(&mut self) -> Result<String> {
        let Self {
            connections, amount, ..
        } = self;
        let port = apache::PORT;
        let arguments = format!("-q -n {amount} -c {connections} http://127.0.0.1:{port}/test.html");
        output("/usr/bin/ab", &words(&arguments))
    }

    fn done(&mut self, said: &str) -> Result<u64> {
        let number = |label: &str| number(said, label);
        ensure!(
            number("Failed requests:") == Some(0) && number("Non-2xx responses:").is_none(),
            "requests failed: {said}"
        );
        let done = number("Complete requests:");
        ensure!(done == Some(self.amount.into()), "ab has not done all: {said}");
        Ok(self.amount.into())
    }
}

/// `Complete requests:      5000`
fn number(said: &str, label: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix(label))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_found_by_their_labels() {
        let said = "Concurrency Level:      100\nTime taken for tests:   0.305 seconds\nComplete requests:      500\nFailed requests:        0\n";
        assert_eq!(number(said, "Complete requests:"), Some(500));
        assert_eq!(number(said, "Failed requests:"), Some(0));
        assert_eq!(number(said, "Non-2xx responses:"), None);
    }
}
