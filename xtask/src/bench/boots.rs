//! The boots of a run: a guest that counts instructions uses one processor, and what else the machine does changes no count, so two
//! run at a time.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use anyhow::{Error, Result};

const AT_A_TIME: u32 = 2;

/// What each boot said, in their order, and why there are not all of them: after a failure none begins any more.
pub(super) fn measure<T: Send>(
    title: &str,
    count: u32,
    boot: impl Fn(u32) -> Result<T> + Sync,
) -> (Vec<T>, Option<Error>) {
    let next = AtomicU32::new(0);
    let ended: Mutex<Vec<(u32, Result<T>)>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME.min(count) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    eprintln!("[{title}: boot {} of {count}]", number + 1);
                    let outcome = boot(number);
                    if outcome.is_err() {
                        next.store(count, Ordering::Relaxed);
                    }
                    ended
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((number, outcome));
                }
            });
        }
    });
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.sort_by_key(|(number, _)| *number);
    let mut reports = Vec::new();
    let mut failure = None;
    for (_, outcome) in ended {
        match outcome {
            Ok(report) => reports.push(report),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    (reports, failure)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::measure;

    #[test]
    fn what_boots_say_is_in_their_order() {
        let (said, failure) = measure("test", 5, Ok);
        assert_eq!(said, [0, 1, 2, 3, 4]);
        assert!(failure.is_none());
    }

    #[test]
    fn after_a_failure_none_begins_and_what_was_measured_is_kept() {
        let (said, failure) = measure("test", 1000, |number| match number {
            0 => Ok(number),
            _ => bail!("boot {number}"),
        });
        assert!(said.len() <= 1, "{said:?}");
        assert!(failure.is_some_and(|error| error.to_string().starts_with("boot ")));
    }
}
