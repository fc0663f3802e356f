//! `battery`: every case of the threat catalogue as real programs, with and without a policy. One JSON row per case.

mod audit;
mod calls;
mod capabilities;
mod case;
mod containers;
mod device_steps;
mod execution;
mod files;
mod here;
mod identity;

mod kernel;
mod mounts;
mod mutators;
mod network;
mod place;
mod policies;
mod raw;
mod report;
mod row;
mod scenarios;
mod session;
mod stage;
mod views;

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context, Result, bail};
use case::{Case, Failure, Outcome, Step};
use report::{Control, Row, Verdict};
use row::Tried;
use session::Session;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these cases [default: all of this half]
    #[arg(long)]
    only: Vec<String>,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    files: containers::Files,
    /// Which step of the case (internal)
    #[arg(long, default_value_t = 0)]
    step: usize,
    /// The policy's cgroup (internal)
    #[arg(long)]
    cgroup: Option<String>,
    /// The process that holds the policy (internal)
    #[arg(long, default_value_t = 0)]
    agent: u32,
    /// Read in a session of its own (internal)
    #[arg(long)]
    detached: bool,
    /// Read by this program (internal)
    #[arg(long)]
    through: Option<String>,
}

/// What this program is for others of the battery.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Part {
    /// Make a place for a step and wait for it (internal)
    #[arg(long, value_name = "CASE")]
    launch: Option<String>,
    /// Be a step (internal)
    #[arg(long, value_name = "CASE")]
    one: Option<String>,
    /// Be a process with a mount namespace of its own (internal)
    #[arg(long)]
    helper: bool,
    /// Say that this program was allowed to run (internal)
    #[arg(long)]
    proof: bool,
    /// Make one operation where this program is (internal)
    #[arg(long, value_name = "OPERATION")]
    here: Option<String>,
    /// Read what the policy denies to this executable (internal)
    #[arg(long)]
    reads: bool,
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    let Part {
        launch,
        one,
        helper,
        proof,
        here,
        reads,
    } = &args.part;
    let cgroup = args.cgroup.as_deref();
    if *proof {
        return Ok(ExitCode::from(u8::try_from(raw::PROOF)?));
    }
    if *helper {
        identity::help()?;
    } else if *reads {
        return Ok(match execution::reads(args.detached, args.through.as_deref()) {
            Ok(()) => ExitCode::from(u8::try_from(raw::PROOF)?),
            Err(Failure::Refused(_)) => ExitCode::from(9),
            Err(_) => ExitCode::FAILURE,
        });
    } else if let Some(case) = launch {
        let launched = place::launch(case, args.step, cgroup, args.agent)?;
        println!("{}", serde_json::to_string(&launched)?);
    } else if let Some(case) = one {
        println!("{}", serde_json::to_string(&place::one(case, args.step)?)?);
    } else if let Some(operation) = here {
        here::command(operation, args.step)?;
    } else if let Some(code) = containers::command(&args.files, &args.only)? {
        return Ok(code);
    } else {
        return run(&args.only);
    }
    Ok(ExitCode::SUCCESS)
}

/// Every case that needs no containers, and those that are left out with a reason.
fn cases() -> Vec<Case> {
    [
        identity::cases(),
        capabilities::cases(),
        execution::cases(),
        files::cases(),
        views::cases(),
        network::cases(),
        mounts::cases(),
        kernel::cases(),
        calls::cases(),
        scenarios::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The step by the name of its case and its number.
fn find(case: &str, step: usize) -> Result<Step> {
    let mut all = cases();
    all.push(audit::programs());
    let found = all
        .into_iter()
        .find(|one| one.id == case)
        .context("no such case")?;
    found.steps.into_iter().nth(step).context("no such step")
}

type Results = Mutex<BTreeMap<(&'static str, usize), Tried>>;

/// Each row is printed when its last step was made: what ends the guest does not take the others along.
fn run(only: &[String]) -> Result<ExitCode> {
    if let Some(unknown) = only.iter().find(|id| !report::IDS.contains(&id.as_str())) {
        bail!("no case `{unknown}`; there are: {}", report::IDS.join(" "));
    }
    stage::prepare().context("prepare the guest")?;
    let wanted = |id: &str| only.is_empty() || only.iter().any(|one| one == id);
    let mut cases: Vec<Case> = cases().into_iter().filter(|case| wanted(case.id)).collect();
    let mut results = Results::default();
    let mut good = true;
    for policy in policies::ALL {
        let jobs = jobs(&cases, policy.name);
        let audits = policy.name == policies::RULES && ["A-1", "A-2", "A-4", "E-12"].into_iter().any(wanted);
        if jobs.is_empty() && !audits {
            continue;
        }
        match Session::start(policy) {
            Ok(session) => {
                make(&cases, &jobs, &session, &results);
                if audits {
                    good &= print(&audit_rows(&session))?;
                }
                session.end()?;
            }
            Err(error) => refuse(&cases, &jobs, &format!("{error:#}"), &results),
        }
        let made = results.get_mut().unwrap_or_else(PoisonError::into_inner);
        let complete = |case: &Case| (0..case.steps.len()).all(|step| made.contains_key(&(case.id, step)));
        let (finished, open): (Vec<_>, Vec<_>) = cases.into_iter().partition(complete);
        cases = open;
        good &= print(
            &finished
                .iter()
                .map(|case| conclude(case, made))
                .collect::<Vec<_>>(),
        )?;
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn conclude(case: &Case, made: &mut BTreeMap<(&'static str, usize), Tried>) -> Row {
    let tried: Vec<Tried> = (0..case.steps.len())
        .filter_map(|step| made.remove(&(case.id, step)))
        .collect();
    match case.skip {
        Some(why) => Row::new(case.id, case.what, Verdict::Skipped, why),
        None => row::judge(case, &tried),
    }
}

/// Prints rows and says whether all are good.
fn print(rows: &[Row]) -> Result<bool> {
    for row in rows {
        println!("{}", serde_json::to_string(row)?);
    }
    Ok(rows.iter().all(Row::is_good))
}

/// The steps of a policy: number of the case, number of the step.
fn jobs(cases: &[Case], policy: &str) -> Vec<(usize, usize)> {
    let steps = |(number, case): (usize, &Case)| {
        let of = case
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| step.policy == policy);
        of.map(|(step, _)| (number, step)).collect::<Vec<_>>()
    };
    cases.iter().enumerate().flat_map(steps).collect()
}

/// Makes the steps on every processor, each unconfined and under the policy.
fn make(cases: &[Case], jobs: &[(usize, usize)], session: &Session, results: &Results) {
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(&(case, step)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let id = cases[case].id;
                    let unconfined = session::launch(id, step, session, false).outcome;
                    let confined = session::launch(id, step, session, true);
                    let events = session.events(confined.pid, &place::mark(id, step));
                    let tried = Tried {
                        unconfined,
                        confined: confined.outcome,
                        events,
                    };
                    results
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert((id, step), tried);
                }
            });
        }
    });
}

/// The rows that the reader of events has a part in; a flood that is refused without a policy voids them.
fn audit_rows(session: &Session) -> Vec<Row> {
    let mut rows = audit::rows(session);
    if audit::unconfined(session).is_err() {
        for row in &mut rows {
            row.control = Control::Broken;
        }
    }
    rows
}

/// A policy that is not taken stops nothing.
fn refuse(cases: &[Case], jobs: &[(usize, usize)], why: &str, results: &Results) {
    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
    let why: String = why.chars().take(300).collect();
    for &(case, step) in jobs {
        let tried = Tried {
            unconfined: Outcome::Allowed,
            confined: Outcome::Broken(why.clone()),
            events: Vec::new(),
        };
        results.insert((cases[case].id, step), tried);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{cases, policies};

    #[test]
    fn every_step_has_a_policy_that_exists_and_a_name_of_its_own() {
        for case in cases() {
            let names: BTreeSet<_> = case.steps.iter().map(|step| (step.policy, step.name)).collect();
            assert_eq!(names.len(), case.steps.len(), "{}", case.id);
            for step in &case.steps {
                assert!(
                    policies::find(step.policy).is_some(),
                    "{}: {}",
                    case.id,
                    step.policy
                );
            }
        }
    }

    #[test]
    fn every_case_with_steps_has_a_positive_control() {
        use super::case::Kind;
        for case in cases().iter().filter(|case| case.skip.is_none()) {
            assert!(
                case.steps.iter().any(|step| step.kind == Kind::Plain),
                "{}",
                case.id
            );
        }
    }
}
