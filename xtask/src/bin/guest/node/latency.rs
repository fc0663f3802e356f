//! From the moment that a policy's file changes to the moment that a running container feels it.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::{
    Scale, inside,
    lab::{self, Claims, GUEST, Node, SHADOW},
};

const APP: &str = "node-latency";
const DENIES: &str = "disable-access-shadow";
const ALLOWS: &str = "disable-write-etc";
const READY: Duration = Duration::from_mins(5);
const SOON: Duration = Duration::from_mins(1);
/// Where a nanosecond is an instruction; an emulated processor takes twenty to thirty times as long.
const LIMIT_MICROS: u64 = 100_000;

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    lab::enforce(APP, DENIES)?;
    lab::sleeper(APP, APP)?;
    node.agent.wait_until_protected(APP, READY)?;
    let outcome = changes(scale);
    lab::remove(APP);
    claims.claim("a change of a policy reaches a running container", outcome);
    Ok(())
}

/// Runs the watch in the container; its lines come through a channel.
struct Watch {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Watch {
    fn start() -> Result<Self> {
        let mut child = Command::new("ctr")
            .args(["--namespace", "k8s.io", "task", "exec", "--exec-id", "watch", APP])
            .args([GUEST, "node", "watch", SHADOW])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("run ctr")?;
        let output = child.stdout.take().context("no output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// When the next change was seen, in nanoseconds, if it is the one that is expected.
    fn next(&self, expected: &str) -> Result<u64> {
        let line = self.lines.recv_timeout(SOON).context("no change was seen")?;
        let (word, time) = line.split_once(' ').with_context(|| format!("read `{line}`"))?;
        ensure!(word == expected, "{line} instead of {expected}");
        time.parse().with_context(|| format!("read `{line}`"))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn changes(scale: &Scale) -> Result<String> {
    let count = scale.changes;
    let watch = Watch::start()?;
    watch.next("denied")?;
    let mut times = Vec::new();
    for number in 0..count {
        let (rule, expected) = if number % 2 == 0 {
            (ALLOWS, "allowed")
        } else {
            (DENIES, "denied")
        };
        let start = inside::monotonic();
        lab::write(APP, rule)?;
        let seen = watch.next(expected)?;
        times.push(seen.saturating_sub(start) / 1000);
        // Changes that follow each other closely would be taken in together.
        thread::sleep(Duration::from_millis(300));
    }
    times.sort_unstable();
    let at = |hundredth: usize| times[(times.len() - 1) * hundredth / 100];
    #[expect(clippy::cast_precision_loss, reason = "milliseconds for people")]
    let text = |micros: u64| format!("{:.1} ms", micros as f64 / 1000.0);
    let text = format!(
        "{count} changes: median {}, p99 {}, longest {}",
        text(at(50)),
        text(at(99)),
        text(at(100))
    );
    ensure!(!scale.counted || at(99) <= LIMIT_MICROS, "{text}");
    Ok(text)
}
