//! A: what becomes of the one event that matters. These cases need the reader of the events, so they are no steps
//! but programs that run beside it.

use std::{fs, time::Duration};

use serde_json::Value;

use super::{
    case::{Case, Done, Failure, Outcome, Under, broken},
    execution::{guest, proves},
    identity::{SECRET, read},
    place::{Launched, ROOT, mark},
    policies::RULES,
    report::{Control, Row, Verdict},
    session::{Session, launch},
};

/// The events of one denial must arrive within this time, also behind a flood.
const ARRIVES: Duration = Duration::from_secs(90);
const MARK: &str = "/vol/prot/secret";
/// The programs of this file: a case that is no row.
pub(super) const PROGRAMS: &str = "audit";
const FLOOD: usize = 0;
const SHORT_FLOOD: usize = 1;
const ONE: usize = 2;
const OTHER_RULE: usize = 3;

/// What the cases run in a place of their own.
pub(super) fn programs() -> Case {
    let rules = Under(RULES, ROOT);
    Case::new(
        PROGRAMS,
        "programs of the audit cases",
        vec![
            rules.attack("100,000 denied opens, then a marked one", || flood(100_000)),
            rules.attack("5,000 denied opens, then a marked one", || flood(5_000)),
            rules.attack("one marked open", || read(MARK)),
            rules.attack("break another rule", || proves(guest("/prog/tool"))),
        ],
    )
}

/// The rows of this file, under the policy `rules`.
pub(super) fn rows(session: &Session) -> Vec<Row> {
    vec![
        paused(session),
        silent(session),
        evaded(session),
        flooded(session),
    ]
}

fn flood(times: usize) -> Done {
    for _ in 0..times {
        match fs::File::open(SECRET) {
            Ok(_) => return Ok(()),
            Err(error) if error.raw_os_error() == Some(1) || error.raw_os_error() == Some(13) => {}
            Err(error) => return Err(broken(error.to_string())),
        }
    }
    read(MARK)
}

fn run(session: &Session, program: usize) -> Launched {
    launch(PROGRAMS, program, session, true)
}

/// Events that were counted instead of written: the ring was full, the profile was above its rate, or an equal event
/// was within the last second.
fn losses(status: &Value) -> u64 {
    let of_profiles = status["activity"].as_array().into_iter().flatten();
    let counted = of_profiles.flat_map(|profile| {
        ["lost", "limited", "repeated"]
            .into_iter()
            .filter_map(|name| profile[name].as_u64())
    });
    counted.sum()
}

fn flooded(session: &Session) -> Row {
    let row =
        |verdict, reason: String| Row::new("A-1", "hide one denial behind 100,000 others", verdict, reason);
    let control = run(session, ONE);
    let seen = session.says(|line| names(line, control.pid, MARK), ARRIVES);
    let before = session.status().map_or(0, |status| losses(&status));
    let flood = run(session, FLOOD);
    if !matches!(flood.outcome, Outcome::Denied(_)) {
        return row(Verdict::Open, format!("the flood: {:?}", flood.outcome));
    }
    let marked = session.says(|line| names(line, flood.pid, MARK), ARRIVES);
    let lines = session.events(flood.pid, &mark(PROGRAMS, FLOOD)).len();
    let lost = session
        .status()
        .map_or(0, |status| losses(&status))
        .saturating_sub(before);
    let reason = format!(
        "{lines} lines, {lost} events counted as lost, the marked one {}",
        if marked { "seen" } else { "not seen" }
    );
    let verdict = if marked || lost > 0 {
        Verdict::Closed
    } else {
        Verdict::Open
    };
    let row = row(verdict, reason);
    with_control(row, seen)
}

fn evaded(session: &Session) -> Row {
    let row = |verdict, reason: String| {
        Row::new(
            "A-2",
            "exceed what is logged in a second, then break another rule",
            verdict,
            reason,
        )
    };
    let before = session.status().map_or(0, |status| losses(&status));
    let flood = run(session, SHORT_FLOOD);
    let other = run(session, OTHER_RULE);
    if !matches!(
        (&flood.outcome, &other.outcome),
        (Outcome::Denied(_), Outcome::Denied(_))
    ) {
        return row(Verdict::Open, format!("{:?}, {:?}", flood.outcome, other.outcome));
    }
    let seen = session.says(|line| line.contains("/prog/tool"), ARRIVES);
    let lost = session
        .status()
        .map_or(0, |status| losses(&status))
        .saturating_sub(before);
    let verdict = if seen || lost > 0 {
        Verdict::Closed
    } else {
        Verdict::Open
    };
    row(
        verdict,
        format!(
            "the other rule's line {}, {lost} events counted as lost",
            if seen { "seen" } else { "not seen" }
        ),
    )
}

fn silent(session: &Session) -> Row {
    let row = |verdict, reason: String| {
        Row::new(
            "A-4",
            "a denial without auditViolations is not silent",
            verdict,
            reason,
        )
    };
    let one = run(session, ONE);
    if !matches!(one.outcome, Outcome::Denied(_)) {
        return row(Verdict::Open, format!("{:?}", one.outcome));
    }
    if session.says(
        |line| names(line, one.pid, MARK) && line.contains("rule "),
        ARRIVES,
    ) {
        row(Verdict::Closed, "one line with file, process and rule".to_owned())
    } else {
        row(Verdict::Open, "no line".to_owned())
    }
}

/// The presets of another enforcer allow what they have no room to report.
fn paused(session: &Session) -> Row {
    let row = |verdict, reason: String| {
        Row::new(
            "E-12",
            "do what is denied while the events have no room",
            verdict,
            reason,
        )
    };
    let before = session.status().map_or(0, |status| losses(&status));
    if let Err(error) = session.pause(true) {
        return with_control(row(Verdict::Open, format!("{error:#}")), false);
    }
    let flood = run(session, SHORT_FLOOD);
    let other = run(session, OTHER_RULE);
    let resumed = session.pause(false);
    let lost = session
        .status()
        .map_or(0, |status| losses(&status))
        .saturating_sub(before);
    let verdict = if matches!(
        (&flood.outcome, &other.outcome),
        (Outcome::Denied(_), Outcome::Denied(_))
    ) {
        Verdict::Closed
    } else {
        Verdict::Open
    };
    let row = row(
        verdict,
        format!(
            "{:?}, {:?}; {lost} events counted as lost",
            flood.outcome, other.outcome
        ),
    );
    with_control(row, resumed.is_ok() && lost > 0)
}

fn with_control(row: Row, good: bool) -> Row {
    let control = if good { Control::Ok } else { Control::Broken };
    Row { control, ..row }
}

fn names(line: &str, pid: i32, object: &str) -> bool {
    line.contains(&format!("(pid {pid})")) && line.contains(object)
}

/// The control of a flood: unconfined, not one open is refused.
pub(super) fn unconfined(session: &Session) -> Result<(), Failure> {
    match launch(PROGRAMS, SHORT_FLOOD, session, false).outcome {
        Outcome::Allowed => Ok(()),
        outcome => Err(broken(format!("{outcome:?}"))),
    }
}
