//! How the steps of a case become its row.

use super::{
    case::{Case, Kind, Outcome, Step},
    report::{Control, Row, Verdict},
};

/// What became of a step: unconfined, under the policy, and the events that named its process.
pub(super) struct Tried {
    pub(super) unconfined: Outcome,
    pub(super) confined: Outcome,
    /// As the enforcer says them.
    pub(super) events: Vec<String>,
}

/// The row of a case from what its steps came to.
pub(super) fn judge(case: &Case, tried: &[Tried]) -> Row {
    let mut row = Row::new(case.id, case.what, Verdict::Skipped, "");
    let (mut held, mut silent) = (0, 0);
    let mut notes = Vec::new();
    for (step, tried) in case.steps.iter().zip(tried) {
        match finding(step, tried) {
            Finding::Held => {
                held += 1;
                silent += usize::from(step.kind != Kind::Benign && tried.events.is_empty());
                row.verdict = row.verdict.max(Verdict::Closed);
            }
            Finding::LeftOut(why) => notes.push(format!("left out: {}: {why}", step.name)),
            Finding::Open(why) => {
                row.verdict = Verdict::Open;
                notes.push(format!("OPEN: {}: {why}", step.name));
            }
            Finding::Broken(why) => {
                row.control = Control::Broken;
                notes.push(format!("BROKEN: {}: {why}", step.name));
            }
        }
    }
    let mut reason = format!("{held} of {} steps hold", case.steps.len());
    if silent > 0 {
        reason = format!("{reason}, {silent} refused without an event");
    }
    for note in notes.iter().map(String::as_str).chain([case.note]) {
        if !note.is_empty() {
            reason = format!("{reason}; {note}");
        }
    }
    row.reason = reason;
    row
}

enum Finding {
    Held,
    LeftOut(String),
    Open(String),
    Broken(String),
}

fn finding(step: &Step, tried: &Tried) -> Finding {
    match &tried.unconfined {
        Outcome::Allowed => {}
        Outcome::Missing(why) => return Finding::LeftOut(format!("this kernel has it not: {why}")),
        Outcome::Denied(why) | Outcome::Broken(why) => {
            return Finding::Broken(format!("unconfined it fails: {why}"));
        }
    }
    if step.kind != Kind::Benign
        && let Some(why) = (step.missing)()
    {
        return Finding::LeftOut(why);
    }
    match (step.kind, &tried.confined) {
        // A filter refuses some calls by saying that there is no such call.
        (Kind::Benign, Outcome::Allowed)
        | (Kind::Plain | Kind::Attack, Outcome::Denied(_) | Outcome::Missing(_)) => Finding::Held,
        (Kind::Benign, outcome) => {
            let event = tried.events.last().map(String::as_str).unwrap_or_default();
            Finding::Broken(format!("a neighbour is refused: {outcome:?} {event}"))
        }
        (Kind::Plain, Outcome::Allowed) => Finding::Broken("the plain operation is allowed".to_owned()),
        (Kind::Attack, Outcome::Allowed) => Finding::Open("it succeeds under the policy".to_owned()),
        (_, outcome) => Finding::Open(format!("neither refused nor done: {outcome:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::battery::{case::Under, place::ROOT};

    fn tried(unconfined: Outcome, confined: Outcome) -> Tried {
        Tried {
            unconfined,
            confined,
            events: vec!["denied".to_owned()],
        }
    }

    fn refused() -> Outcome {
        Outcome::Denied("EPERM".to_owned())
    }

    fn case() -> Case {
        let under = Under("rules", ROOT);
        let steps = vec![
            under.plain("plain", || Ok(())),
            under.attack("round", || Ok(())),
            under.benign("beside", || Ok(())),
        ];
        Case::new("X-1", "an example", steps)
    }

    fn of(plain: Tried, attack: Tried, benign: Tried) -> (Verdict, Control) {
        let row = judge(&case(), &[plain, attack, benign]);
        (row.verdict, row.control)
    }

    #[test]
    fn a_case_is_closed_if_every_denial_has_its_controls() {
        let denied = || tried(Outcome::Allowed, refused());
        let works = || tried(Outcome::Allowed, Outcome::Allowed);
        assert_eq!(of(denied(), denied(), works()), (Verdict::Closed, Control::Ok));
        assert_eq!(of(denied(), works(), works()), (Verdict::Open, Control::Ok));
        assert_eq!(of(works(), denied(), works()), (Verdict::Closed, Control::Broken));
        assert_eq!(
            of(denied(), denied(), denied()),
            (Verdict::Closed, Control::Broken)
        );
        let void = tried(refused(), refused());
        assert_eq!(of(denied(), void, works()), (Verdict::Closed, Control::Broken));
    }

    #[test]
    fn what_is_neither_refused_nor_done_is_open_and_what_the_kernel_lacks_is_left_out() {
        let denied = || tried(Outcome::Allowed, refused());
        let works = || tried(Outcome::Allowed, Outcome::Allowed);
        let odd = tried(Outcome::Allowed, Outcome::Broken("EIO".to_owned()));
        assert_eq!(of(denied(), odd, works()), (Verdict::Open, Control::Ok));
        let lacking = tried(Outcome::Missing("ENOSYS".to_owned()), refused());
        assert_eq!(of(denied(), lacking, works()), (Verdict::Closed, Control::Ok));
        let nothing: Vec<Tried> = (0..3)
            .map(|_| tried(Outcome::Missing("ENOSYS".to_owned()), refused()))
            .collect();
        assert_eq!(judge(&case(), &nothing).verdict, Verdict::Skipped);
    }
}
