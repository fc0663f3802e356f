//! Suites that keep one processor busy, most of them by a guest: what they do waits in one line, and two of it run at a time.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{Counts, Suite, api_server, cluster_suite, demo_suite, guest_suite, parser};
use crate::{
    bpf,
    build::{self, Built, Profile},
    cluster, demo,
    kernel::Series,
    nginx, progress, tools,
    vm::{Guest, Share},
};

pub(super) const SUITES: &[Suite] = &[
    Suite::Guest,
    Suite::AppArmor,
    Suite::Agree,
    Suite::Model,
    Suite::Cost,
    Suite::Life,
    Suite::Survive,
    Suite::Agent,
    Suite::Demo,
    Suite::ApiServer,
    Suite::Cluster,
];
/// A guest uses one thread and the machines that run the suites have two processors.
const LANES: usize = 2;
/// Both halves run whatever the first one says.
const HALVES: &str = "/varmor-guest suite; first=$?; /varmor-guest enforce; exit $((first | $?))";

/// One thing that waits in the line.
struct Job {
    suite: Suite,
    work: Work,
}

enum Work {
    Guest(Box<Guest>),
    Demo,
    ApiServer,
    Cluster,
}

/// Runs the suites in guests with the kernels, or with those that the suite chooses itself, and prints their counts.
pub(super) fn run(suites: &[Suite], kernels: &[Series], full: bool) -> Counts {
    let start = Instant::now();
    let mut counts: BTreeMap<Suite, Counts> = BTreeMap::new();
    let mut waiting = Vec::new();
    if suites.is_empty() {
        return Counts::default();
    }
    let built = match tools::need(tools::GUEST).and_then(|()| build::build(Profile::Lab)) {
        Ok(built) => built,
        Err(error) => return Counts::failure("guests", &error),
    };
    for suite in suites {
        match jobs(*suite, &built, kernels, full) {
            Ok(jobs) => waiting.extend(jobs),
            Err(error) => *counts.entry(*suite).or_default() += Counts::failure(&suite.name(), &error),
        }
    }
    // The long ones first leave the lanes even at the end.
    waiting.sort_by_key(|job| std::cmp::Reverse(job.length()));
    let waiting = Mutex::new(VecDeque::from(waiting));
    let ended = Mutex::new(Vec::new());
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.pop_front());
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(job) = next() {
                    let found = job.run();
                    ended
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push((job.suite, found));
                }
            });
        }
    });
    for (suite, found) in ended.into_inner().unwrap_or_default() {
        *counts.entry(suite).or_default() += found;
    }
    let mut total = Counts::default();
    for (suite, found) in counts {
        println!("{}: {found}", suite.name());
        total += found;
    }
    eprintln!("[guests: done in {}]", progress::seconds(start.elapsed()));
    total
}

impl Job {
    fn run(&self) -> Counts {
        let name = match &self.work {
            Work::Guest(guest) => format!("{} {}", self.suite.name(), guest.kernel),
            Work::Demo | Work::ApiServer | Work::Cluster => self.suite.name(),
        };
        let outcome = progress::timed(&name, || match &self.work {
            Work::Guest(guest) => guest_suite(guest),
            Work::Demo => demo_suite(),
            Work::ApiServer => api_server(),
            Work::Cluster => cluster_suite(),
        });
        outcome.unwrap_or_else(|error| Counts::failure(&name, &error))
    }

    /// Whose is greater takes longer: the cluster, for which Kubernetes may have to be built; guests with the longest limit,
    /// then 5.10, which can attach a program only once and verifies it anew for every policy, then those with the newest
    /// kernel, which verifies longest.
    fn length(&self) -> (Duration, bool, Option<Series>) {
        match &self.work {
            Work::Guest(guest) => (guest.timeout, guest.kernel == Series::V5_10, Some(guest.kernel)),
            Work::Demo | Work::ApiServer => (Duration::ZERO, false, None),
            Work::Cluster => (Duration::MAX, false, None),
        }
    }
}

fn jobs(suite: Suite, built: &Built, kernels: &[Series], full: bool) -> Result<Vec<Job>> {
    let one = |work| Ok(vec![Job { suite, work }]);
    let on_this_machine = |work| {
        cluster::fetch()?;
        one(work)
    };
    let guests = match suite {
        Suite::Demo => {
            tools::need(tools::CONTAINER_GUEST)?;
            return one(Work::Demo);
        }
        Suite::ApiServer => return on_this_machine(Work::ApiServer),
        Suite::Cluster => return on_this_machine(Work::Cluster),
        Suite::Cost => vec![cost(built)],
        Suite::Survive => surviving(built)?,
        Suite::Agent => [demo::node_guests(built, Series::V6_1, full)?, surviving(built)?].concat(),
        _ => of_kernels(suite, built, kernels, full)?,
    };
    let job = |guest| Job {
        suite,
        work: Work::Guest(Box::new(guest)),
    };
    Ok(guests.into_iter().map(job).collect())
}

fn surviving(built: &Built) -> Result<Vec<Guest>> {
    tools::need(tools::CONTAINER_GUEST)?;
    Ok(vec![
        demo::survive_guest(built, Series::V6_1)?,
        demo::without_bpf_guest(built, Series::V6_1)?,
    ])
}

/// The guests of a suite that runs on several kernels.
fn of_kernels(suite: Suite, built: &Built, kernels: &[Series], full: bool) -> Result<Vec<Guest>> {
    let kernels = if kernels.is_empty() {
        usual_kernels(suite)
    } else {
        kernels
    };
    let minutes = Duration::from_mins;
    let (command, timeout): (&[&str], _) = match suite {
        Suite::AppArmor => (&["/varmor-guest", "apparmor"], minutes(30)),
        Suite::Agree => (&["/varmor-guest", "agree"], minutes(60)),
        Suite::Model => (&["/varmor-guest", "model"], minutes(30)),
        Suite::Life if full => (
            &[
                "/varmor-guest",
                "life",
                "--updates",
                "10000",
                "--containers",
                "1000",
                "--profiles",
                "50",
            ],
            minutes(90),
        ),
        Suite::Life => (&["/varmor-guest", "life"], minutes(20)),
        _ => (&["/bin/sh", "-c", HALVES], minutes(25)),
    };
    let more = match suite {
        Suite::AppArmor => parser()?,
        Suite::Model => [nginx::shares()?, parser()?].concat(),
        _ => Vec::new(),
    };
    let guest = |series: &Series| {
        let mut guest = Guest::new(*series, command.iter().copied());
        guest.timeout = timeout;
        guest.shares = ["varmor-guest", "varmor-intruder", "varmor-agent", "varmor"]
            .map(|name| Share::new(built.program(name), format!("/{name}")))
            .to_vec();
        guest.shares.push(Share::new(bpf::objects(), "/bpf"));
        guest.shares.extend_from_slice(&more);
        guest
    };
    Ok(kernels.iter().map(guest).collect())
}

/// The kernels of a suite when none are asked for.
fn usual_kernels(suite: Suite) -> &'static [Series] {
    match suite {
        Suite::AppArmor => &[Series::V6_1, Series::V6_12],
        Suite::Agree | Suite::Model => &[Series::V6_12],
        // The programs' life depends little on the kernel.
        Suite::Life => &[Series::V6_1],
        _ => &Series::ALL,
    }
}

fn cost(built: &Built) -> Guest {
    let mut guest = Guest::new(Series::V6_1, ["/varmor-guest", "cost"]);
    guest.icount = true;
    guest.smp = 1;
    guest.timeout = Duration::from_mins(25);
    guest.shares = ["varmor-guest", "varmor"]
        .map(|name| Share::new(built.program(name), format!("/{name}")))
        .to_vec();
    guest
}
