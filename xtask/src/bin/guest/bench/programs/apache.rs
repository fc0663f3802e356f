//! Apache's httpd serves one page to wrk. wrk knows times only, no numbers of requests: it runs for so long, and the
//! requests that it has had answered are the work.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::{Load, output, server::Server, words};

pub(super) const PORT: u16 = 8088;
/// Of the page.
const BYTES: usize = 4096;
/// About as many requests as a guest answers in a second of its clock.
const PER_SECOND: u32 = 10_000;
/// What the default settings of httpd load, as far as Debian has not built it in.
const MODULES: [&str; 19] = [
    "mpm_event",
    "authn_file",
    "authn_core",
    "authz_host",
    "authz_groupfile",
    "authz_user",
    "authz_core",
    "access_compat",
    "auth_basic",
    "reqtimeout",
    "filter",
    "mime",
    "env",
    "headers",
    "setenvif",
    "status",
    "autoindex",
    "dir",
    "alias",
];

pub(super) struct Apache {
    _server: Server,
    connections: u32,
    seconds: u32,
}

impl Apache {
    /// The number of requests only tells how long wrk runs.
    pub(super) fn start(connections: u32, amount: u32, folder: &str) -> Result<Self> {
        Ok(Self {
            _server: serve(folder)?,
            connections,
            seconds: amount.div_ceil(PER_SECOND),
        })
    }
}

/// The server with its one page, `test.html`.
pub(super) fn serve(folder: &str) -> Result<Server> {
    let pages = format!("{folder}/pages");
    fs::create_dir_all(&pages)?;
    fs::write(format!("{pages}/test.html"), page()).context("write the page")?;
    fs::write(format!("{folder}/mime.types"), "text/html html\n")?;
    let settings = format!("{folder}/httpd.conf");
    fs::write(&settings, configuration(folder)).with_context(|| format!("write {settings}"))?;
    let arguments = words(&format!("-f {settings} -D FOREGROUND"));
    Server::start("/usr/sbin/apache2", &arguments, PORT, folder)
}

impl Load for Apache {
    fn run(&mut self) -> Result<String> {
        let Self {
            connections, seconds, ..
        } = self;
        let arguments = format!("-t 1 -d {seconds}s -c {connections} http://127.0.0.1:{PORT}/test.html");
        output("/usr/bin/wrk", &words(&arguments))
    }

    fn done(&mut self, said: &str) -> Result<u64> {
        ensure!(is_good(said), "requests failed: {said}");
        requests(said).with_context(|| format!("wrk tells no number of requests: {said}"))
    }
}

fn configuration(folder: &str) -> String {
    let mut load = String::new();
    for name in MODULES {
        load.extend([
            "LoadModule ",
            name,
            "_module /usr/lib/apache2/modules/mod_",
            name,
            ".so\n",
        ]);
    }
    format!(
        "ServerRoot {folder}\nListen 127.0.0.1:{PORT}\nServerName localhost\n{load}User nobody\nGroup nogroup\n\
         PidFile {folder}/pid\nTypesConfig {folder}/mime.types\nErrorLog {folder}/error_log\nLogLevel warn\n\
         LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" common\nCustomLog {folder}/access_log common\n\
         DocumentRoot {folder}/pages\n<Directory />\n  AllowOverride none\n  Require all denied\n</Directory>\n\
         <Directory {folder}/pages>\n  Options Indexes FollowSymLinks\n  AllowOverride None\n  Require all granted\n</Directory>\n"
    )
}

fn page() -> String {
    let mut page = "<html><body>\n".to_owned();
    while page.len() < BYTES {
        page.push_str("<p>A line of a page.</p>\n");
    }
    page.truncate(BYTES);
    page
}

/// A server with more connections than it can keep closes some between two requests (`read` errors), and wrk opens others. What
/// cannot be connected, or is answered with an error, is a failure.
fn is_good(said: &str) -> bool {
    let refused = said
        .lines()
        .any(|line| line.contains("Socket errors:") && !line.contains("connect 0,"));
    !refused && !said.contains("Non-2xx")
}

/// `  12345 requests in 2.00s, 3.40MB read`
fn requests(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains(" requests in "))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{BYTES, configuration, is_good, page, requests};

    #[test]
    fn only_connections_that_are_closed_between_requests_are_no_failure() {
        assert!(is_good(
            "  Socket errors: connect 0, read 5348, write 0, timeout 0\n"
        ));
        assert!(!is_good(
            "  Socket errors: connect 3, read 0, write 0, timeout 0\n"
        ));
        assert!(!is_good("  Non-2xx or 3xx responses: 12\n"));
    }

    #[test]
    fn requests_are_those_that_were_answered() {
        let said = "Running 2s test @ http://127.0.0.1:8088/test.html\n  1 threads and 4 connections\n  2105 requests in 2.00s, \
                    8.91MB read\nRequests/sec:   1052.96\nTransfer/sec:      4.45MB\n";
        assert_eq!(requests(said), Some(2105));
        assert_eq!(requests("unable to connect"), None);
    }

    #[test]
    fn page_has_its_size_and_is_what_the_server_serves() {
        assert_eq!(page().len(), BYTES);
        assert!(configuration("/f").contains("DocumentRoot /f/pages\n"));
    }
}
