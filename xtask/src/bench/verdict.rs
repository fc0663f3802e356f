//! Measurements against targets.

use std::fmt;

use serde_json::json;

use super::{
    operations::{self, FLAT},
    report::Report,
    systems::{NOTHING_AGAIN, UNCONCERNED, UNPROTECTED, with_rules},
};

/// One number against one bound.
pub(super) struct Verdict {
    operation: &'static str,
    what: String,
    added: f64,
    limit: f64,
}

/// The sizes of policies that have targets.
const FEW: usize = 8;
const MANY: usize = 10_000;

impl Verdict {
    fn met(&self) -> bool {
        self.added <= self.limit
    }

    fn word(&self) -> String {
        if self.met() {
            "met".to_owned()
        } else {
            format!("missed by {:.0}", (self.added - self.limit).ceil())
        }
    }

    pub(super) fn json(&self) -> serde_json::Value {
        json!({
            "operation": self.operation,
            "what": self.what,
            "added": self.added,
            "limit": self.limit,
            "met": self.met(),
        })
    }

    /// A row of the report's table.
    pub(super) fn row(&self) -> String {
        format!(
            "| {} | {} | {:.0} | {:.0} | {} |",
            self.operation,
            self.what,
            self.added,
            self.limit,
            self.word()
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<14} {:<44} {:>8.0} of {:>6.0}: {}",
            self.operation,
            self.what,
            self.added,
            self.limit,
            self.word()
        )
    }
}

/// Every target that the report has a measurement for.
pub(super) fn all(report: &Report) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for operation in operations::ALL {
        let name = operation.name;
        let mut judge = |what: String, added: Option<f64>, limit: Option<f64>| {
            if let (Some(added), Some(limit)) = (added, limit) {
                verdicts.push(Verdict {
                    operation: name,
                    what,
                    added,
                    limit,
                });
            }
        };
        let added = |system: &str| report.added(system, name);
        let apparmor = added(&with_rules("apparmor", FEW));
        let less = operation
            .part
            .map(|part| format!(", less {part}"))
            .unwrap_or_default();
        let whole = |system: &str| match operation.part {
            Some(part) => Some(added(system)? - report.added(system, part)?),
            None => added(system),
        };
        for rules in [FEW, MANY] {
            let limit = operation
                .protected
                .zip(report.kernel)
                .and_then(|(limit, kernel)| limit.on(kernel, apparmor));
            judge(
                format!("protected, {rules} rules of each kind{less}"),
                whole(&with_rules("protected", rules)),
                limit,
            );
        }
        let few = added(&with_rules("protected", FEW));
        let more = added(&with_rules("protected", MANY))
            .zip(few)
            .map(|(many, few)| many - few);
        judge(
            format!("{MANY} rules more than {FEW}"),
            more,
            few.map(|few| few.abs() * FLAT.0 + FLAT.1),
        );
        let most = report.kernel.map(operations::unprotected);
        judge("not protected".to_owned(), added(UNPROTECTED), most);
        let per_hook = report.hooks(name).filter(|hooks| *hooks > 1.0);
        judge(
            "not protected, per hook".to_owned(),
            added(UNPROTECTED)
                .zip(per_hook)
                .map(|(added, hooks)| added / hooks),
            most,
        );
        if report.concerned(UNCONCERNED, name) == Some(false) {
            // What the same system measured twice differs by is not the product's.
            let noise = added(NOTHING_AGAIN).map_or(1.0, |again| again.abs().max(1.0));
            judge(
                "no policy needs the hook: nothing".to_owned(),
                added(UNCONCERNED).map(f64::abs),
                Some(noise),
            );
        }
    }
    verdicts
}
