//! Apache's httpd serves one page to its own benchmark, ab, which sends exactly as many requests as asked.

use anyhow::{Result, ensure};

use super::{Load, apache, number, output, server::Server, words};

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
