//! How good a learned profile is: what it would have made of a part of the recording that it did not see.

use thiserror::Error;

use super::behaviour::Behaviour;
use super::format::{POLICY, dynamic_result};
use super::generalise::{Settings, generalise};
use super::recording::{HoldOut, Recording};
use crate::analysis::{Judge, JudgeError, Outcome};
use crate::compile::seccomp::Inputs;
use crate::policy::{HeldOut, load, render};
use crate::profile::{NodeFacts, build_with};

/// Why nothing can be said.
#[derive(Debug, Error)]
pub enum HeldOutError {
    #[error("the learned profile is no policy: {0}")]
    Policy(String),
    #[error(transparent)]
    Judge(#[from] JudgeError),
}

/// Learns from a part, as from the whole, and judges the rest by the tables that the kernel would get.
pub fn held_out(
    recording: &Recording,
    hold_out: HoldOut,
    settings: &Settings,
) -> Result<HeldOut, HeldOutError> {
    let (kept, held) = recording.split(hold_out);
    let (behaviour, _) = generalise(&Behaviour::of(&kept), settings);
    let judge = judge(&behaviour)?;
    let mut report = HeldOut {
        part: match hold_out {
            HoldOut::Time(percent) => format!("the last {percent} % of the time"),
            HoldOut::Operations(percent) => format!("{percent} % of the different operations"),
        },
        ..HeldOut::default()
    };
    for (operation, count) in held.operations() {
        report.events += count;
        report.operations += 1;
        if judge.outcome(operation, 0) == Outcome::Denied {
            report.denied_events += count;
            report.denied_operations += 1;
            report.denied.push(operation.to_string());
        }
    }
    report.percent = percent(report.denied_events, report.events);
    Ok(report)
}

/// The BPF enforcer's allow-list of this behaviour, ready to be asked.
pub(super) fn judge(behaviour: &Behaviour) -> Result<Judge, HeldOutError> {
    let results = dynamic_result(behaviour, "learned");
    let loaded = load("learned", POLICY.as_bytes());
    let said = |diagnostics: &[_]| diagnostics.iter().map(render).collect::<Vec<_>>().join("\n");
    let Some(document) = loaded.documents.first() else {
        return Err(HeldOutError::Policy(said(&loaded.diagnostics)));
    };
    let inputs = Inputs {
        model: Some(&results),
        ..Inputs::default()
    };
    let built = build_with(document, &NodeFacts::default(), inputs);
    match built.profile {
        Some(profile) => Ok(Judge::new(profile, Vec::new())?),
        None => Err(HeldOutError::Policy(said(&built.diagnostics))),
    }
}

/// With two decimals.
fn percent(part: u64, whole: u64) -> f64 {
    let hundredths = (part * 10_000).checked_div(whole).unwrap_or(0);
    f64::from(u32::try_from(hundredths).unwrap_or(u32::MAX)) / 100.0
}
