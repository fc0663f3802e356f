//! What the controller's process and the API server have spent.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hyper::Request;
use kube::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

/// Clock ticks a second: `USER_HZ`, which is 100 on every architecture that containers run on.
const TICKS: f64 = 100.0;

pub(crate) struct Meter {
    client: Client,
    process: u32,
    start: Instant,
    requests: f64,
    cpu: f64,
}

impl Meter {
    pub(crate) async fn start(client: Client, process: u32) -> Result<Self> {
        Ok(Self {
            start: Instant::now(),
            requests: requests(&client).await?,
            cpu: cpu_seconds(process)?,
            client,
            process,
        })
    }

    pub(crate) async fn again(self) -> Result<Self> {
        Self::start(self.client, self.process).await
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// What was spent since the start.
    pub(crate) async fn lap(&self) -> Result<Value> {
        let seconds = self.seconds();
        let requests = requests(&self.client).await? - self.requests;
        let cpu = cpu_seconds(self.process)? - self.cpu;
        Ok(json!({
            "seconds": seconds,
            "requests": requests,
            "requestsPerSecond": requests / seconds,
            "controllerCpuSeconds": cpu,
            "controllerMiB": memory(self.process, "VmRSS")?,
        }))
    }

    /// The most that the controller's process has taken until now.
    pub(crate) fn peak(&self) -> Result<f64> {
        memory(self.process, "VmHWM")
    }

    /// The controller's process since it started.
    pub(crate) fn process(&self) -> Result<Value> {
        Ok(json!({
            "cpuSeconds": cpu_seconds(self.process)?,
            "peakMiB": memory(self.process, "VmHWM")?,
            "MiB": memory(self.process, "VmRSS")?,
            "filesMiB": memory(self.process, "RssFile")?,
        }))
    }
}

/// Two connections a node, in one process.
pub(crate) fn allow_many_files() -> Result<()> {
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: most,
            maximum: most,
        },
    )
    .context("allow more open files")
}

/// Requests that the API server has answered, of all clients; a watch counts when it ends.
async fn requests(client: &Client) -> Result<f64> {
    let request = Request::get("/metrics").body(Vec::new()).context("a request")?;
    let text = tokio::time::timeout(Duration::from_mins(1), client.request_text(request))
        .await
        .context("the API server's metrics take long")?
        .context("read the API server's metrics")?;
    let counts = text
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total{"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(counts.sum())
}

/// User and system time: fields 14 and 15, the 12th and 13th behind the name, which may contain blanks.
fn cpu_seconds(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let fields = text
        .rsplit_once(')')
        .map(|(_, fields)| fields)
        .unwrap_or_default();
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<f64>().with_context(|| format!("a field of {path}")))
        .sum::<Result<f64>>()?;
    Ok(ticks / TICKS)
}

fn memory(process: u32, what: &str) -> Result<f64> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    let kib = line
        .and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok())
        .with_context(|| format!("{path} has no {what}"))?;
    Ok(kib / 1024.0)
}
