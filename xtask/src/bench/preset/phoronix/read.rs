//! Reads what the suite has saved as what our own measuring program would have said.

use super::{home, profile};
use crate::bench::{
    composite::{Composite, Entry},
    preset::{
        Scale,
        programs::suite::{Column, Sense, Suite},
    },
    protocol::Line,
};

const NANOSECONDS: f64 = 1e9;

/// Of every column under a system: how long its whole work took, or that there is no number.
pub(super) fn lines(composite: &Composite, suites: &[&Suite], scale: Scale, system: &str) -> Vec<Line> {
    let columns = suites
        .iter()
        .flat_map(|suite| suite.columns.iter().map(move |column| (suite, column)));
    columns
        .map(|(suite, column)| {
            let runs = entry(composite, suite, column, scale, system).map(runs);
            let batches: Option<Vec<u64>> = runs.filter(|runs| !runs.is_empty()).and_then(|runs| {
                let amount = column.amount(scale);
                runs.into_iter().map(|value| took(suite, value, amount)).collect()
            });
            match batches {
                Some(batches) => Line::Sample {
                    system: system.to_owned(),
                    operation: column.operation.to_owned(),
                    rounds: 1,
                    batches,
                },
                None => Line::Problem {
                    system: system.to_owned(),
                    operation: Some(column.operation.to_owned()),
                    text: "the Phoronix Test Suite has saved no result".to_owned(),
                },
            }
        })
        .collect()
}

fn entry<'a>(
    composite: &'a Composite,
    suite: &Suite,
    column: &Column,
    scale: Scale,
    system: &str,
) -> Option<&'a Entry> {
    let ours = profile(suite);
    let arguments = home::arguments(column.operation, column.amount(scale));
    // Some versions add the version of the profile to its name.
    let is_it = |name: &str| {
        let rest = name.strip_prefix(&ours);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let mut tests = composite.tests.iter();
    let test = tests.find(|test| is_it(&test.profile) && test.arguments.trim() == arguments)?;
    test.entries.iter().find(|entry| entry.system == system)
}

fn runs(entry: &Entry) -> Vec<f64> {
    if entry.runs.is_empty() {
        entry.value.into_iter().collect()
    } else {
        entry.runs.clone()
    }
}

/// Nanoseconds for an amount of work; none for a number that no run can give.
fn took(suite: &Suite, value: f64, amount: u32) -> Option<u64> {
    let nanoseconds = match suite.sense {
        Sense::Rate(_) => f64::from(amount) / value * NANOSECONDS,
        Sense::Time => value * NANOSECONDS,
    };
    let is_time = nanoseconds.is_finite() && nanoseconds >= 1.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time that was measured, of at least a nanosecond"
    )]
    let whole = nanoseconds.round() as u64;
    is_time.then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::preset::pts::suites;

    /// As the suite saves it: the mean, and the runs.
    fn result(profile: &str, arguments: &str, entries: &str) -> String {
        format!(
            "<Result><Identifier>{profile}</Identifier><Title>T</Title><Arguments>{arguments}</Arguments><Scale>S</Scale>\
             <Proportion>HIB</Proportion><Data>{entries}</Data></Result>"
        )
    }

    fn entry_of(system: &str, value: &str, runs: &str) -> String {
        format!(
            "<Entry><Identifier>{system}</Identifier><Value>{value}</Value><RawString>{runs}</RawString></Entry>"
        )
    }

    fn composite(results: &str) -> Composite {
        let text = format!(
            "<?xml version=\"1.0\"?><PhoronixTestSuite><Generated><Title>t</Title></Generated>{results}</PhoronixTestSuite>"
        );
        Composite::read(&text).unwrap()
    }

    fn batches(lines: &[Line], name: &str) -> Option<Vec<u64>> {
        lines.iter().find_map(|line| match line {
            Line::Sample {
                operation, batches, ..
            } if operation == name => Some(batches.clone()),
            _ => None,
        })
    }

    #[test]
    fn rates_become_the_time_of_the_whole_work() {
        let entries =
            entry_of("nothing", "1000", "1000:2000") + &entry_of("EnhanceProtect-BPF", "500", "500");
        let composite = composite(&result(
            "local/varmor-sysbench-1.0.0",
            "sysbench-cpu 100",
            &entries,
        ));
        let lines = |system| lines(&composite, &[&suites::SYSBENCH], Scale::Smoke, system);
        assert_eq!(
            batches(&lines("nothing"), "sysbench-cpu").unwrap(),
            [100_000_000, 50_000_000]
        );
        assert_eq!(
            batches(&lines("EnhanceProtect-BPF"), "sysbench-cpu").unwrap(),
            [200_000_000]
        );
    }

    #[test]
    fn seconds_stay_seconds() {
        let composite = composite(&result(
            "local/varmor-gimp",
            "gimp-resize 1",
            &entry_of("nothing", "1.25", ""),
        ));
        let lines = lines(&composite, &[&suites::GIMP], Scale::Smoke, "nothing");
        assert_eq!(batches(&lines, "gimp-resize").unwrap(), [1_250_000_000]);
    }

    #[test]
    fn column_without_a_number_is_a_problem_of_its_system() {
        let entries = entry_of("nothing", "", "") + &entry_of("other", "0", "0");
        let composite = composite(&result("local/varmor-sysbench", "sysbench-cpu 100", &entries));
        for system in ["nothing", "other", "absent"] {
            let lines = lines(&composite, &[&suites::SYSBENCH], Scale::Smoke, system);
            assert_eq!(lines.len(), 2);
            assert!(lines.iter().all(|line| matches!(
                line,
                Line::Problem { system: name, operation: Some(_), .. } if name == system
            )));
        }
    }

    #[test]
    fn results_of_other_profiles_and_amounts_are_not_taken() {
        let entries = entry_of("nothing", "1000", "1000");
        let others = result("local/varmor-sysbenchmark", "sysbench-cpu 100", &entries)
            + &result("pts/sysbench-1.1.0", "sysbench-cpu 100", &entries)
            + &result("local/varmor-sysbench", "sysbench-cpu 2000", &entries);
        let lines = lines(&composite(&others), &[&suites::SYSBENCH], Scale::Smoke, "nothing");
        assert_eq!(batches(&lines, "sysbench-cpu"), None);
    }
}
