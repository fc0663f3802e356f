//! `bench load` and `build --stats`: what the verifier of each kernel says about each program.

use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Result, ensure};
use serde::Deserialize;

use crate::{
    build::{self, Profile},
    kernel::Series,
    progress, tools,
    vm::{Guest, Share},
    workspace,
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Only these kernels [default: all]
    #[arg(long)]
    kernel: Vec<Series>,
    /// Take `varmor` from this folder instead of building it
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

/// A program takes longer than this to load in no guest.
const SLOWEST: Duration = Duration::from_secs(2);
/// The verifier gives up here.
const MOST_VERIFIED: u64 = 1_000_000;
/// Stack of a chain of calls.
const MOST_STACK: u32 = 512;

/// A line of `varmor load-stats`.
#[derive(Deserialize)]
struct Program {
    #[serde(rename = "program")]
    name: String,
    verified: u64,
    size: u64,
    stack: Vec<u32>,
    verification_ms: u64,
    load_ms: u64,
    covered_by: Option<String>,
    refused: Option<String>,
}

/// Whether a line of the verifier's log counts something; it writes these behind the reason.
fn is_statistic(line: &str) -> bool {
    ["processed ", "stack depth ", "verification time "]
        .iter()
        .any(|start| line.starts_with(start))
}

impl Program {
    /// The sum is more than what any chain of calls needs, but never less.
    fn stack(&self) -> u32 {
        self.stack.iter().sum()
    }

    fn is_slow(&self) -> bool {
        Duration::from_millis(self.load_ms) > SLOWEST
    }

    fn cell(&self) -> String {
        if let Some(reason) = &self.refused {
            let mut lines = reason.lines().rev();
            let reason = lines.find(|line| !is_statistic(line)).unwrap_or(reason);
            return format!("refused: {reason}");
        }
        if let Some(other) = &self.covered_by {
            return format!("held by {other}");
        }
        let mark = if self.is_slow() { " **slow**" } else { "" };
        format!(
            "{} / {} / {} / {}{mark}",
            self.verified,
            self.size,
            self.stack(),
            self.load_ms
        )
    }
}

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    let varmor = match &args.programs {
        Some(folder) => folder.join("varmor"),
        None => build::build(Profile::Release)?.program("varmor"),
    };
    report(&args.kernel, &varmor)
}

/// Prints and writes the table; fails if a program is refused or slow.
pub(crate) fn report(kernels: &[Series], varmor: &Path) -> Result<ExitCode> {
    tools::need(tools::GUEST)?;
    let kernels = if kernels.is_empty() { &Series::ALL } else { kernels };
    let mut tables = BTreeMap::new();
    for kernel in kernels {
        let programs = progress::timed(&format!("load all programs on {kernel}"), || {
            load(*kernel, varmor)
        })?;
        tables.insert(*kernel, programs);
    }
    let (text, good) = table(&tables);
    print!("{text}");
    workspace::write_file(&workspace::target().join("bench/load.md"), text)?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn load(kernel: Series, varmor: &Path) -> Result<Vec<Program>> {
    let mut guest = Guest::new(kernel, ["/varmor", "load-stats"]);
    // A busy machine must not make a program slow: a millisecond is a million instructions of the guest.
    guest.icount = true;
    guest.shares = vec![Share::new(varmor, "/varmor")];
    let mut text = Vec::new();
    guest.run(&mut |bytes| text.extend_from_slice(bytes))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let programs: Vec<Program> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    ensure!(!programs.is_empty(), "kernel {kernel} loaded no program: {text}");
    Ok(programs)
}

fn table(tables: &BTreeMap<Series, Vec<Program>>) -> (String, bool) {
    let mut text = format!(
        "Per program and kernel: instructions that the verifier looked at (limit {MOST_VERIFIED}) / instructions after it / bytes \
         of stack (limit {MOST_STACK} per chain of calls; the sum of all functions) / milliseconds to load in a guest that runs an instruction per nanosecond (limit {}).\n\n| program |",
        SLOWEST.as_millis()
    );
    let mut rows: BTreeMap<&str, BTreeMap<Series, String>> = BTreeMap::new();
    let mut good = true;
    for (kernel, programs) in tables {
        let _ = write!(text, " {kernel} |");
        for program in programs {
            good &= program.refused.is_none() && !program.is_slow();
            rows.entry(&program.name)
                .or_default()
                .insert(*kernel, program.cell());
        }
    }
    text.push_str("\n|---|");
    text.push_str(&"---:|".repeat(tables.len()));
    text.push('\n');
    for (program, cells) in rows {
        let _ = write!(text, "| {program} |");
        for kernel in tables.keys() {
            let _ = write!(text, " {} |", cells.get(kernel).map_or("-", String::as_str));
        }
        text.push('\n');
    }
    text.push_str("| all |");
    for programs in tables.values() {
        let verified: u64 = programs.iter().map(|program| program.verified).sum();
        let whole: u64 = programs.iter().map(|program| program.load_ms).sum();
        let judged: u64 = programs.iter().map(|program| program.verification_ms).sum();
        let _ = write!(text, " {verified}, {whole} ms of which the verifier {judged} |");
    }
    text.push('\n');
    (text, good)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Program, table};
    use crate::kernel::Series;

    fn program(load_ms: u64) -> Program {
        Program {
            name: "file_open".to_owned(),
            verified: 5000,
            size: 300,
            stack: vec![64, 8],
            verification_ms: 10,
            load_ms,
            covered_by: None,
            refused: None,
        }
    }

    #[test]
    fn program_of_a_hook_that_another_covers_is_no_failure() {
        let covered = Program {
            covered_by: Some("inode_setattr".to_owned()),
            ..program(0)
        };
        let refused = Program {
            refused: Some("too complex".to_owned()),
            ..program(0)
        };
        let (text, good) = table(&BTreeMap::from([(Series::V5_10, vec![covered])]));
        assert!(text.contains("held by inode_setattr") && good);
        let (text, good) = table(&BTreeMap::from([(Series::V5_10, vec![refused])]));
        assert!(text.contains("refused: too complex") && !good);
        let logged = "one\ntoo large\nverification time 3 usec\nstack depth 8\nprocessed 9 insns";
        let refused = Program {
            refused: Some(logged.to_owned()),
            ..program(0)
        };
        assert_eq!(refused.cell(), "refused: too large");
    }

    #[test]
    fn slow_program_is_flagged() {
        let (text, good) = table(&BTreeMap::from([(Series::V6_1, vec![program(2500)])]));
        assert!(text.contains("5000 / 300 / 72 / 2500 **slow**") && !good);
        let (text, good) = table(&BTreeMap::from([(Series::V6_1, vec![program(2000)])]));
        assert!(!text.contains("slow") && good);
    }
}
