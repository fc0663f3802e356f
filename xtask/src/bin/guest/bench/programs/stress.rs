//! stress-ng: a fixed number of what it calls bogo operations.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use super::{Load, output, words};

pub(super) struct Stress {
    arguments: Vec<String>,
    report: String,
    amount: u64,
}

/// One worker of a kind, for so many operations.
pub(super) fn start(kind: &str, amount: u32, folder: &str) -> Result<Stress> {
    if !["cpu", "io"].contains(&kind) {
        bail!("no stressor {kind}");
    }
    let report = format!("{folder}/report.yaml");
    let arguments =
        format!("--{kind} 1 --{kind}-ops {amount} --temp-path {folder} --metrics-brief --yaml {report}");
    Ok(Stress {
        arguments: words(&arguments),
        report,
        amount: amount.into(),
    })
}

impl Load for Stress {
    fn run(&mut self) -> Result<String> {
        output("/usr/bin/stress-ng", &self.arguments)
    }

    fn done(&mut self, said: &str) -> Result<u64> {
        let text = fs::read_to_string(&self.report).with_context(|| format!("read {}", self.report))?;
        let done =
            operations(&text).with_context(|| format!("stress-ng tells no operations: {said}{text}"))?;
        // A worker looks at its limit between two operations.
        ensure!(
            done >= self.amount,
            "stress-ng has done {done} operations, not {}",
            self.amount
        );
        Ok(done)
    }
}

/// `      bogo-ops: 1317`
fn operations(report: &str) -> Option<u64> {
    let mut lines = report.lines();
    lines
        .find_map(|line| line.trim().strip_prefix("bogo-ops:"))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::{operations, start};

    #[test]
    fn operations_are_those_of_the_report() {
        let report = "metrics:\n    - stressor: cpu\n      bogo-ops: 1317\n      bogo-ops-per-second-usr-sys-time: 2043.3\n";
        assert_eq!(operations(report), Some(1317));
        assert_eq!(operations("metrics:\n"), None);
        assert!(start("vm", 1, "/tmp").is_err());
    }
}
