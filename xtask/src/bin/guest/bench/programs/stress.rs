//! stress-ng: a fixed number of what it calls bogo operations.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use super::{Load, number, output, words};

/// In the report, with its indentation.
const OPERATIONS: &str = "      bogo-ops:";

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
        let done = number(&text, OPERATIONS)
            .with_context(|| format!("stress-ng tells no operations: {said}{text}"))?;
        // A worker looks at its limit between two operations.
        ensure!(
            done >= self.amount,
            "stress-ng has done {done} operations, not {}",
            self.amount
        );
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::{OPERATIONS, number, start};

    #[test]
    fn operations_are_those_of_the_report() {
        let report = "metrics:\n    - stressor: cpu\n      bogo-ops: 1317\n      bogo-ops-per-second-usr-sys-time: 2043.3\n";
        assert_eq!(number(report, OPERATIONS), Some(1317));
        assert_eq!(number("metrics:\n", OPERATIONS), None);
        assert!(start("vm", 1, "/tmp").is_err());
    }
}
