//! What was compared.

use std::{collections::BTreeMap, fmt};

use super::operation::{Operation, Outcome};

#[derive(Default)]
pub(super) struct Counts {
    kinds: BTreeMap<&'static str, Kind>,
    /// Events that were decided again, and those that cannot be.
    pub(super) decided: u64,
    pub(super) skipped: u64,
    /// Differences that were tried under both policies, and those that could not be.
    pub(super) tried: usize,
    untried: BTreeMap<String, usize>,
    pub(super) wrong: usize,
}

#[derive(Default)]
struct Kind {
    compared: usize,
    denied: usize,
    left_out: usize,
    /// Why, by errno; 0 = refused without a policy.
    reasons: BTreeMap<i32, usize>,
}

impl Counts {
    pub(super) fn compared(&mut self, operation: &Operation, under: Outcome) {
        let kind = self.kinds.entry(operation.act.kind()).or_default();
        kind.compared += 1;
        kind.denied += usize::from(under == Outcome::Denied);
    }

    /// By the first word of the witness.
    pub(super) fn untried(&mut self, witness: &str) {
        let verb = witness.split(' ').next().unwrap_or_default();
        *self.untried.entry(verb.to_owned()).or_default() += 1;
    }

    pub(super) fn left_out(&mut self, operation: &Operation, free: Outcome) {
        let kind = self.kinds.entry(operation.act.kind()).or_default();
        kind.left_out += 1;
        let reason = if let Outcome::Failed(errno) = free {
            errno
        } else {
            0
        };
        *kind.reasons.entry(reason).or_default() += 1;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Kind) -> usize| self.kinds.values().map(of).sum::<usize>();
        write!(
            f,
            "{} operations compared, {} of them denied, {} disagreements, {} left out; {} events decided again, {} \
             skipped; {} differences tried, {} not ({:?});",
            sum(|kind| kind.compared),
            sum(|kind| kind.denied),
            self.wrong,
            sum(|kind| kind.left_out),
            self.decided,
            self.skipped,
            self.tried,
            self.untried.values().sum::<usize>(),
            self.untried
        )?;
        for (name, kind) in &self.kinds {
            write!(
                f,
                " {name} {} ({} denied, {} left out",
                kind.compared, kind.denied, kind.left_out
            )?;
            for (errno, count) in &kind.reasons {
                write!(f, " {errno}:{count}")?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}
