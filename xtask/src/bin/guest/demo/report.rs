//! The demo's result: what was tried, what happened, which rule stopped it.

use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::PROTECTED;
use crate::attack::{Kind, Operation, Outcome, Tried};

#[derive(Serialize)]
pub(crate) struct Report {
    kernel: String,
    lsms: Vec<String>,
    attempts: Vec<Attempt>,
    violations: Vec<Value>,
}

#[derive(Serialize)]
struct Attempt {
    name: String,
    kind: Kind,
    text: &'static str,
    unprotected: String,
    protected: String,
    /// The rule of the policy that stopped it.
    rule: Option<String>,
    /// What went wrong, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl Report {
    pub(crate) fn new(
        operations: &[Operation],
        plain: &[Tried],
        protected: &[Tried],
        log: &str,
    ) -> Result<Self> {
        let violations: Vec<Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("read violation `{line}`")))
            .collect::<Result<_>>()?;
        let attempts = operations
            .iter()
            .map(|operation| attempt(operation, plain, protected, &violations))
            .collect();
        let lsms = fs::read_to_string("/sys/kernel/security/lsm").context("read the LSMs")?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("read the kernel's release")?;
        let lsms = lsms.trim().split(',').map(str::to_owned).collect();
        Ok(Self {
            kernel: kernel.trim().to_owned(),
            lsms,
            attempts,
            violations,
        })
    }

    /// Every attack is allowed without and denied with the policy; every benign operation works in both.
    pub(crate) fn is_good(&self) -> bool {
        !self.attempts.is_empty() && self.attempts.iter().all(Attempt::is_good)
    }

    pub(crate) fn print(&self) {
        println!(
            "{:<20} {:<50} {:<12} {:<10} rule",
            "operation", "what it does", "unprotected", "protected"
        );
        for kind in [Kind::Attack, Kind::Benign] {
            for attempt in self.attempts.iter().filter(|attempt| attempt.kind == kind) {
                let rule = attempt.rule.as_deref().unwrap_or("-");
                let mark = if attempt.is_good() { "" } else { "   <== wrong" };
                let Attempt {
                    name,
                    text,
                    unprotected,
                    protected,
                    ..
                } = attempt;
                println!("{name:<20} {text:<50} {unprotected:<12} {protected:<10} {rule}{mark}");
                if let Some(detail) = attempt.detail.as_ref().filter(|_| !attempt.is_good()) {
                    println!("{:<20} {detail}", "");
                }
            }
        }
        let good = self.attempts.iter().filter(|attempt| attempt.is_good()).count();
        println!(
            "\n{good} of {} operations as they should be, {} violations logged",
            self.attempts.len(),
            self.violations.len()
        );
    }
}

impl Attempt {
    fn is_good(&self) -> bool {
        let wanted = match self.kind {
            Kind::Attack => "denied",
            Kind::Benign => "allowed",
        };
        self.unprotected == "allowed" && self.protected == wanted
    }
}

fn attempt(operation: &Operation, plain: &[Tried], protected: &[Tried], violations: &[Value]) -> Attempt {
    let find = |tries: &[Tried]| {
        let untried = || Tried {
            name: operation.name.to_owned(),
            begin: 0,
            end: 0,
            outcome: Outcome::Broken("it was not tried".to_owned()),
        };
        tries
            .iter()
            .find(|tried| tried.name == operation.name)
            .cloned()
            .unwrap_or_else(untried)
    };
    let (without, with) = (find(plain), find(protected));
    let details = [("unprotected", &without), ("protected", &with)]
        .into_iter()
        .filter_map(|(place, tried)| match &tried.outcome {
            Outcome::Allowed => None,
            Outcome::Denied(detail) | Outcome::Broken(detail) => Some(format!("{place}: {detail}")),
        });
    let details: Vec<String> = details.collect();
    Attempt {
        name: operation.name.to_owned(),
        kind: operation.kind,
        text: operation.text,
        unprotected: without.outcome.to_string(),
        protected: with.outcome.to_string(),
        rule: rule(&with, violations),
        detail: (!details.is_empty()).then(|| details.join("; ")),
    }
}

/// The rule of the last denial between the begin and the end of the try: an attack is over when it is denied.
fn rule(tried: &Tried, violations: &[Value]) -> Option<String> {
    if !matches!(tried.outcome, Outcome::Denied(_)) {
        return None;
    }
    let during = |line: &&Value| {
        let time = line["eventTime"].as_u64().unwrap_or_default();
        line["containerID"] == PROTECTED && (tried.begin..=tried.end).contains(&time)
    };
    let mut rules = violations
        .iter()
        .filter(during)
        .filter_map(|line| line["ruleID"].as_str());
    rules.rfind(|rule| !rule.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::rule;
    use crate::attack::{Outcome, Tried};

    fn tried(outcome: Outcome) -> Tried {
        Tried {
            name: "x".to_owned(),
            begin: 100,
            end: 200,
            outcome,
        }
    }

    #[test]
    fn rule_is_taken_from_the_violation_during_the_try_in_the_protected_container() {
        let line = |container: &str, time: u64, rule: &str| json!({ "containerID": container, "eventTime": time, "ruleID": rule });
        let violations = [
            line("demo-protected", 99, "before"),
            line("demo-plain", 150, "elsewhere"),
            line("demo-protected", 150, "right"),
            line("demo-protected", 160, ""),
            line("demo-protected", 201, "after"),
        ];
        let denied = tried(Outcome::Denied("EPERM".to_owned()));
        assert_eq!(rule(&denied, &violations).as_deref(), Some("right"));
        assert_eq!(rule(&tried(Outcome::Allowed), &violations), None);
    }
}
