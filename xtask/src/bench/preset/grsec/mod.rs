//! `preset seed-grsec`: the programs with which a hardened kernel was once measured, under nothing and under our policies.
//!
//! The comparison's *Critical* template is EnhanceProtect here, its *Generic* one, for which it has no numbers, RuntimeDefault.

mod suites;
mod table;

use std::process::ExitCode;

use anyhow::Result;

use super::{Settings, cells::Condition, programs::Programs};
use crate::bench::systems::{self, NOTHING};

const PRESET: &str = "seed-grsec";

fn programs() -> Programs {
    let hardened = |label, mode| Condition::new(label, systems::compared(mode, "BPF"));
    Programs {
        preset: PRESET,
        conditions: vec![
            Condition::new("Debian", systems::nothing(NOTHING)),
            hardened("Critical", "EnhanceProtect"),
            hardened("Generic", "RuntimeDefault"),
        ],
        suites: suites::ALL.to_vec(),
        named: false,
    }
}

pub(super) fn run(settings: &Settings) -> Result<ExitCode> {
    let measured = programs().measure(settings)?;
    let (markdown, csv) = table::table(&measured.summary, settings.work());
    measured.folder.table("grsec", &markdown, &csv)?;
    print!("{markdown}");
    println!("{}", measured.folder.path().display());
    Ok(super::closing(&measured.kernel, &measured.problems))
}
