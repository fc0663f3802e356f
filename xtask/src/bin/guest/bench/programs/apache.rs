//! Apache's httpd serves one page to wrk. wrk knows times only, no numbers of requests: it runs for so long, and the lines that
//! httpd writes about the requests of a part of that time are the work. In the time before it, all connections are made, and httpd
//! starts as many processes as it wants for them: a run of a second would measure little else.

use std::{
    fs,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::{Load, raw, server::Server, words};

pub(super) const PORT: u16 = 8088;
/// Of the page.
const BYTES: usize = 4096;
/// About as many requests as a guest answers in a second of its clock.
const PER_SECOND: u32 = 10_000;
/// Seconds that wrk runs before and after what is measured.
const BEFORE: u32 = 2;
const AFTER: u32 = 1;
/// A line for each request, below the server's folder.
const LOG: &str = "access_log";
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
    log: String,
    wrk: Option<Child>,
}

impl Apache {
    /// The number of requests only tells how long is measured.
    pub(super) fn start(connections: u32, amount: u32, folder: &str) -> Result<Self> {
        Ok(Self {
            _server: serve(folder)?,
            connections,
            seconds: amount.div_ceil(PER_SECOND),
            log: format!("{folder}/{LOG}"),
            wrk: None,
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
    fn ready(&mut self) -> Result<()> {
        fs::write(&self.log, "").with_context(|| format!("empty {}", self.log))?;
        let Self {
            connections, seconds, ..
        } = self;
        let all = BEFORE + *seconds + AFTER;
        let arguments = format!("-t 1 -d {all}s -c {connections} http://127.0.0.1:{PORT}/test.html");
        let wrk = raw::less_urgent(&mut Command::new("/usr/bin/wrk"))
            .args(words(&arguments))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("start wrk")?;
        self.wrk = Some(wrk);
        sleep(Duration::from_secs(BEFORE.into()));
        Ok(())
    }

    fn run(&mut self) -> Result<String> {
        let before = size(&self.log)?;
        sleep(Duration::from_secs(self.seconds.into()));
        Ok(format!("{before} {}", size(&self.log)?))
    }

    fn done(&mut self, said: &str) -> Result<u64> {
        let wrk = self.wrk.take().context("wrk has not been started")?;
        let output = wrk.wait_with_output().context("wait for wrk")?;
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure!(
            output.status.success() && is_good(&told),
            "requests failed: {}: {told}",
            output.status
        );
        let log = fs::read_to_string(&self.log).with_context(|| format!("read {}", self.log))?;
        requests(&log, said).with_context(|| format!("{} has no part {said}", self.log))
    }
}

fn size(file: &str) -> Result<u64> {
    let metadata = fs::metadata(file).with_context(|| format!("look at {file}"))?;
    Ok(metadata.len())
}

/// Answered ones, in the part of the log from one byte to another: `120 360`.
fn requests(log: &str, part: &str) -> Option<u64> {
    let (from, to) = part.split_once(' ')?;
    let lines = log.get(from.parse().ok()?..to.parse().ok()?)?.lines();
    u64::try_from(lines.filter(|line| line.contains("\" 200 ")).count()).ok()
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
         LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" common\nCustomLog {folder}/{LOG} common\n\
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
    fn requests_are_the_answered_ones_of_the_part_that_was_measured() {
        let log = "1 \"GET\" 200 4\n2 \"GET\" 200 4\n3 \"GET\" 503 4\n4 \"GET\" 200 4\n";
        let line = log.len() / 4;
        assert_eq!(requests(log, &format!("{line} {}", 3 * line)), Some(1));
        assert_eq!(requests(log, &format!("0 {}", log.len())), Some(3));
        assert_eq!(requests(log, &format!("0 {}", log.len() + 1)), None);
        assert_eq!(requests(log, "0"), None);
    }

    #[test]
    fn page_has_its_size_and_is_what_the_server_serves() {
        assert_eq!(page().len(), BYTES);
        assert!(configuration("/f").contains("DocumentRoot /f/pages\n"));
    }
}
