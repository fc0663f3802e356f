//! Attempts on the enforcer itself: its maps, programs, links and process. Without a policy there is no enforcer on the
//! machine, and the same attempts reach whatever else is there.

use nix::{
    errno::Errno,
    sys::{
        ptrace,
        signal::{Signal, kill},
    },
    unistd::{Pid, getppid},
};

use super::{
    attempt::Attempt,
    policies::{NO_RULES, RULES},
    raw::{self, LINKS, MAPS, Objects, PROGRAMS},
};
use crate::attack::Failure;

pub(super) fn attempts() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, NO_RULES, run);
    vec![
        attack("open every BPF map of the machine", || open_all(MAPS)),
        attack("open every BPF program of the machine", || open_all(PROGRAMS)),
        attack("open every BPF link of the machine", || open_all(LINKS)),
        attack("send a signal to the enforcer", || {
            Ok(kill(enforcer()?, Signal::SIGCONT)?)
        }),
        attack("trace the enforcer", || {
            Ok(ptrace::seize(enforcer()?, ptrace::Options::empty())?)
        }),
        Attempt::attack("open every BPF map under rules", RULES, || open_all(MAPS)),
        Attempt::benign("make a BPF map and open it by its id", NO_RULES, || {
            let map = raw::create_array()?;
            raw::open(MAPS, raw::id_of(&map)?)?;
            Ok(())
        }),
        Attempt::benign("send a signal to the parent", NO_RULES, || {
            Ok(kill(getppid(), Signal::SIGCONT)?)
        }),
        Attempt::benign("ask whether the enforcer is alive", NO_RULES, || {
            Ok(kill(enforcer()?, None)?)
        }),
    ]
}

/// Objects that end meanwhile are none of ours.
fn open_all(objects: Objects) -> Result<(), Failure> {
    let mut id = 0;
    let mut refused = Vec::new();
    while let Some(next) = raw::next(objects, id)? {
        id = next;
        match raw::open(objects, id) {
            Ok(_) | Err(Errno::ENOENT) => {}
            Err(Errno::EPERM) => refused.push(id),
            Err(error) => return Err(error.into()),
        }
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(Failure::Refused(format!("{} objects", refused.len())))
    }
}

/// The process that started the one that makes the attempts: `varmor run`, or this suite where there is no policy.
fn enforcer() -> Result<Pid, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", getppid()))?;
    let number = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))
        .and_then(|number| number.trim().parse().ok());
    number
        .map(Pid::from_raw)
        .ok_or_else(|| Failure::Broken("the parent has no parent".to_owned()))
}
