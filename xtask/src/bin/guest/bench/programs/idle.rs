//! How long the processor had nothing to do, in nanoseconds of the guest's clock.

use anyhow::{Context, Result};

/// The only file that tells it more precisely than in hundredths of a second.
const TIMERS: &str = "/proc/timer_list";

pub(super) fn now() -> Result<u64> {
    let text = std::fs::read_to_string(TIMERS).with_context(|| format!("read {TIMERS}"))?;
    parse(&text).with_context(|| format!("{TIMERS} tells no idle time"))
}

/// The sum over all processors.
fn parse(text: &str) -> Option<u64> {
    let times = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == ".idle_sleeptime")
            .then(|| value.trim().trim_end_matches("nsecs").trim().parse::<u64>())
    });
    let times: Vec<u64> = times.collect::<Result<_, _>>().ok()?;
    (!times.is_empty()).then(|| times.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn idle_time_of_every_processor_is_added() {
        let text = "cpu: 0\n  .idle_exittime  : 1000000 nsecs\n  .idle_sleeptime : 250 nsecs\n  .iowait_sleeptime: 7 nsecs\n\
                    cpu: 1\n  .idle_sleeptime : 50 nsecs\n";
        assert_eq!(parse(text), Some(300));
    }

    #[test]
    fn file_without_it_or_with_nonsense_tells_nothing() {
        assert_eq!(parse("  .idle_calls : 3\n"), None);
        assert_eq!(parse("  .idle_sleeptime : x nsecs\n"), None);
    }
}
