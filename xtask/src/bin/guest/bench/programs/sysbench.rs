//! Sysbench: numbers that are tested for primes, and blocks of memory that are written.

use anyhow::{Context, Result, ensure};

use super::{Load, number, output, words};

/// In the report, with its indentation.
const EVENTS: &str = "    total number of events:";
/// Blocks of the default size, 1 KiB.
const BLOCKS_PER_MIB: u64 = 1024;

pub(super) struct Sysbench {
    arguments: Vec<String>,
    amount: u64,
    /// Events for one unit.
    events: u64,
}

/// So many searches for the primes up to the default, 10,000.
pub(super) fn cpu(searches: u32) -> Sysbench {
    Sysbench {
        arguments: words(&format!("--threads=1 --time=0 --events={searches} cpu run")),
        amount: searches.into(),
        events: 1,
    }
}

/// So many MiB, written in blocks one after the other, as the defaults say.
pub(super) fn memory(mib: u32) -> Sysbench {
    Sysbench {
        arguments: words(&format!(
            "--threads=1 --time=0 --memory-total-size={mib}M memory run"
        )),
        amount: mib.into(),
        events: BLOCKS_PER_MIB,
    }
}

impl Load for Sysbench {
    fn run(&mut self) -> Result<String> {
        output("/usr/bin/sysbench", &self.arguments)
    }

    fn done(&mut self, said: &str) -> Result<u64> {
        let events =
            number(said, EVENTS).with_context(|| format!("sysbench tells no number of events: {said}"))?;
        ensure!(
            events == self.amount * self.events,
            "sysbench has done {events} events, not {}",
            self.amount * self.events
        );
        Ok(self.amount)
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, cpu, memory};

    const SAID: &str = "CPU speed:\n    events per second:  2115.20\n\nGeneral statistics:\n    total time:                          \
                        0.0473s\n    total number of events:              2048\n\nLatency (ms):\n";

    #[test]
    fn work_that_was_asked_for_is_done() {
        assert_eq!(cpu(2048).done(SAID).unwrap(), 2048);
        assert_eq!(memory(2).done(SAID).unwrap(), 2);
    }

    #[test]
    fn less_work_is_an_error() {
        assert!(cpu(2049).done(SAID).is_err());
        assert!(cpu(1).done("FATAL: no such test").is_err());
    }
}
