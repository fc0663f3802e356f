//! What the kernel's verifier says about each program: how much it had to look at, how long, how much stack.

use std::time::Instant;

use aya::programs::ProgramError;
use aya::{Btf as AyaBtf, VerifierLogLevel};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::super::EnforcerError;
use super::object::{Object, lsm};
use super::record;
use crate::kernel::Presence;

/// The verifier's statistics about one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProgramStatistics {
    pub program: String,
    /// Instructions that the verifier looked at, on all ways through the program; the limit is 1,000,000.
    pub verified: u64,
    /// States that it kept at most.
    pub peak_states: u64,
    /// Instructions of the program and its functions.
    pub size: u64,
    /// Bytes of stack of the program and of each of its functions; 512 for any chain of calls.
    pub stack: Vec<u32>,
    /// Time of the verifier itself.
    pub verification_ms: u64,
    /// Time of the whole load, which also translates to machine code.
    pub load_ms: u64,
    /// The hook that holds what this one would, where the kernel cannot call this program.
    pub covered_by: Option<&'static str>,
    /// Why the program could not be loaded.
    pub refused: Option<String>,
}

/// Loads each program of the object for this kernel, attaching nothing.
pub fn statistics() -> Result<Vec<ProgramStatistics>, EnforcerError> {
    let object = Object::choose()?;
    let types = AyaBtf::from_sys_fs().map_err(|error| EnforcerError::kernel("read kernel types", error))?;
    let (mut ebpf, _) = object.open_for_trial(VerifierLogLevel::STATS, 1, &types)?;
    let mut all = Vec::new();
    for hook in object.hooks() {
        let program = lsm(&mut ebpf, hook.name)?;
        let log = verifier_log(|| program.load(hook.name, &types))?;
        let mut found = parse(&log);
        hook.name.clone_into(&mut found.program);
        let start = Instant::now();
        match program.load(hook.name, &types) {
            Ok(()) => found.load_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            Err(error) => match hook.presence {
                // 5.10 has `path_chown` but looks at no instruction of a program there, for it cannot call one.
                Presence::CoveredBy(other) if found.verified == 0 => found.covered_by = Some(other),
                _ => found.refused = Some(error.to_string()),
            },
        }
        found.size = program
            .info()
            .ok()
            .and_then(|info| info.size_translated())
            .map_or(0, |bytes| u64::from(bytes) / 8);
        all.push(found);
    }
    let program = record::find(&mut ebpf)?;
    let log = verifier_log(|| program.load(record::PROGRAM, &types))?;
    let start = Instant::now();
    let refused = program.load(record::PROGRAM, &types).err();
    all.push(ProgramStatistics {
        program: record::PROGRAM.to_owned(),
        load_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        refused: refused.map(|error| error.to_string()),
        size: program
            .info()
            .ok()
            .and_then(|info| info.size_translated())
            .map_or(0, |bytes| u64::from(bytes) / 8),
        ..parse(&log)
    });
    Ok(all)
}

/// The log of a load. It is handed out for programs that could not be loaded only; so the process may open no
/// more files for the moment, and the load fails at its last step, the descriptor of the verified program.
fn verifier_log(load: impl FnOnce() -> Result<(), ProgramError>) -> Result<String, EnforcerError> {
    let limit = |limit| {
        setrlimit(Resource::Nofile, limit)
            .map_err(|error| EnforcerError::kernel("limit the number of open files", error))
    };
    let before = getrlimit(Resource::Nofile);
    limit(Rlimit {
        current: Some(0),
        maximum: before.maximum,
    })?;
    let outcome = load();
    limit(before)?;
    Ok(match outcome {
        Err(ProgramError::LoadError { verifier_log, .. }) => verifier_log.to_string(),
        _ => String::new(),
    })
}

/// Reads the verifier's closing lines:
///
/// ```text
/// verification time 3456 usec
/// stack depth 136+0+24
/// processed 12345 insns (limit 1000000) max_states_per_insn 4 total_states 300 peak_states 200 mark_read 12
/// ```
fn parse(log: &str) -> ProgramStatistics {
    let mut found = ProgramStatistics::default();
    let number = |words: &str| words.split_whitespace().next()?.parse::<u64>().ok();
    for line in log.lines() {
        if let Some(rest) = line.strip_prefix("verification time ") {
            found.verification_ms = number(rest).unwrap_or_default().div_ceil(1000);
        } else if let Some(rest) = line.strip_prefix("stack depth ") {
            let depths = rest.split('+').map_while(|depth| depth.trim().parse().ok());
            found.stack = depths.collect();
        } else if let Some(rest) = line.strip_prefix("processed ") {
            found.verified = number(rest).unwrap_or_default();
            let peak = rest.split_once("peak_states ").and_then(|(_, rest)| number(rest));
            found.peak_states = peak.unwrap_or_default();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn closing_lines_of_the_verifier_are_read() {
        let log = "func#0 @0\nverification time 3456 usec\nstack depth 136+0+24\nprocessed 12345 insns (limit 1000000) \
                   max_states_per_insn 4 total_states 300 peak_states 200 mark_read 12\n";
        let found = parse(log);
        assert_eq!((found.verified, found.peak_states), (12_345, 200));
        assert_eq!((found.verification_ms, found.stack), (4, vec![136, 0, 24]));
    }

    #[test]
    fn log_without_statistics_says_nothing() {
        assert_eq!(parse("permission denied\n").verified, 0);
    }
}
