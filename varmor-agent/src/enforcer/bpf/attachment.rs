//! Which programs are loaded and sit on their hooks: those that a loaded profile needs, and no others.

use std::collections::HashMap as Numbers;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::thread;
use std::time::{Duration, Instant};

use aya::maps::{Array, HashMap, Map, MapData};
use aya::programs::Lsm;
use aya::programs::links::FdLink;
use varmor_common::abi::Label;
use varmor_common::compile::bpf::HookGroups;

use super::super::{EnforcerError, HookState};
use super::object::Object;
use super::pins::Pins;
use super::raw::Shared;
use crate::kernel::{Hook, IDENTITY};

/// How long the kernel may take to end a link whose pin has gone.
const DETACHED_WITHIN: Duration = Duration::from_secs(10);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Loads and attaches what the groups need and what is not there yet.
pub(super) fn attach(
    object: &Object,
    pins: &Pins,
    key: u64,
    groups: HookGroups,
) -> Result<(), EnforcerError> {
    object.load(pins, key, needed(object, groups))?;
    let mut used_up = Vec::new();
    for hook in needed(object, groups) {
        // A hook without a program is one that this kernel cannot attach to; `Object::load` said so.
        if pins.link(hook.name).exists() || !pins.program(hook.name).exists() {
            continue;
        }
        match attach_one(pins, hook) {
            Err(error) if is_used_up(&error) => used_up.push(hook),
            outcome => outcome.map_err(|error| failed(hook, error))?,
        }
    }
    for hook in &used_up {
        fs::remove_file(pins.program(hook.name)).map_err(|error| failed(hook, Box::new(error)))?;
    }
    object.load(pins, key, used_up.iter().copied())?;
    for hook in used_up {
        attach_one(pins, hook).map_err(|error| failed(hook, error))?;
    }
    Ok(())
}

/// Before 5.13 a program is attached only once; the second time the kernel says that there is no such thing.
fn is_used_up(error: &Failure) -> bool {
    kind(error) == Some(io::ErrorKind::NotFound)
}

/// A link ends a while after its pin has gone (the kernel leaves that to a worker), and its program is attached until
/// then: a policy that comes right after the last one went meets it.
fn is_still_attached(error: &Failure) -> bool {
    kind(error) == Some(io::ErrorKind::ResourceBusy)
}

/// What the kernel said.
fn kind(error: &Failure) -> Option<io::ErrorKind> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

fn failed(hook: &Hook, error: Failure) -> EnforcerError {
    EnforcerError::kernel(format!("attach program `{}`", hook.name), error)
}

/// Detaches what the groups do not need, in the reverse order, so that identity goes last. The programs stay
/// loaded, which costs memory and no time.
pub(super) fn detach(object: &Object, pins: &Pins, groups: HookGroups) -> Result<(), EnforcerError> {
    let mut hooks: Vec<&Hook> = object
        .hooks()
        .filter(|hook| hook.groups.0 & groups.0 == 0)
        .collect();
    hooks.reverse();
    for hook in hooks {
        match fs::remove_file(pins.link(hook.name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(EnforcerError::kernel(
                    format!("detach program `{}`", hook.name),
                    error,
                ));
            }
            _ => {}
        }
    }
    // Nobody sees the end of these from now on, and the kernel reuses their addresses: a stranger's credential or
    // task would be taken for a protected one. What is alive is found again by `real_cred` and by adoption.
    if groups.0 & HookGroups::CAPABILITY.0 == 0 {
        clear::<u32>(pins, "CREDENTIALS")?;
        if !object.has_label_hash() {
            clear_slots(pins, "CREDENTIAL_SLOTS")?;
        }
    }
    if groups.0 & IDENTITY.0 == 0 && object.has_label_hash() {
        clear::<Shared<Label>>(pins, "LABELS")?;
    }
    Ok(())
}

/// What is loaded, what is attached, and how often it ran.
pub(super) fn states(object: &Object, pins: &Pins) -> Vec<HookState> {
    object
        .hooks()
        .map(|hook| {
            let counted = counts(pins, hook).unwrap_or_default();
            let count = |name| counted.get(name).copied().unwrap_or(0);
            HookState {
                hook: hook.name.to_owned(),
                loaded: pins.program(hook.name).exists(),
                attached: pins.link(hook.name).exists(),
                runs: count("run_cnt"),
                recursion_misses: count("recursion_misses"),
            }
        })
        .collect()
}

fn needed(object: &Object, groups: HookGroups) -> impl Iterator<Item = &'static Hook> {
    object.hooks().filter(move |hook| hook.groups.0 & groups.0 != 0)
}

fn attach_one(pins: &Pins, hook: &Hook) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        match attach_now(pins, hook) {
            Err(error) if is_still_attached(&error) && start.elapsed() < DETACHED_WITHIN => {
                thread::sleep(Duration::from_millis(10));
            }
            outcome => return outcome,
        }
    }
}

fn attach_now(pins: &Pins, hook: &Hook) -> Result<(), Failure> {
    let mut program = Lsm::from_pin(pins.program(hook.name))?;
    let id = program.attach()?;
    FdLink::from(program.take_link(id)?).pin(pins.link(hook.name))?;
    Ok(())
}

/// The kernel's numbers about a program; runs are counted while `kernel.bpf_stats_enabled` is set, misses always
/// (5.12).
fn counts(pins: &Pins, hook: &Hook) -> Option<Numbers<String, u64>> {
    let program = Lsm::from_pin(pins.program(hook.name)).ok()?;
    let fd = program.fd().ok()?.as_fd().as_raw_fd();
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    Some(numbers(&text))
}

/// `name:\tnumber` lines; others are left out.
pub(super) fn numbers(fdinfo: &str) -> Numbers<String, u64> {
    fdinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?)))
        .collect()
}

fn clear<V: aya::Pod>(pins: &Pins, name: &str) -> Result<(), EnforcerError> {
    let failed = |error: aya::maps::MapError| EnforcerError::kernel(format!("empty map `{name}`"), error);
    let data = MapData::from_pin(pins.map(name)).map_err(failed)?;
    let mut map: HashMap<_, u64, V> = Map::HashMap(data).try_into().map_err(failed)?;
    let keys: Vec<u64> = map.keys().filter_map(Result::ok).collect();
    for key in keys {
        // Another end of the entry's life may have been quicker.
        let _ = map.remove(&key);
    }
    Ok(())
}

/// The same for an array; most of it is empty, and to look is quicker than to write.
fn clear_slots(pins: &Pins, name: &str) -> Result<(), EnforcerError> {
    const EMPTY: [u64; 4] = [0; 4];
    let failed = |error: aya::maps::MapError| EnforcerError::kernel(format!("empty map `{name}`"), error);
    let data = MapData::from_pin(pins.map(name)).map_err(failed)?;
    let mut map: Array<_, [u64; 4]> = Map::Array(data).try_into().map_err(failed)?;
    for index in 0..map.len() {
        if map.get(&index, 0).map_err(failed)? != EMPTY {
            map.set(index, EMPTY, 0).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_still_attached_is_told_from_one_that_is_used_up() {
        let said = |number| Failure::from(io::Error::from_raw_os_error(number));
        assert!(is_still_attached(&said(libc::EBUSY)) && !is_used_up(&said(libc::EBUSY)));
        assert!(is_used_up(&said(libc::ENOENT)) && !is_still_attached(&said(libc::ENOENT)));
        assert!(!is_still_attached(&said(libc::EPERM)) && !is_used_up(&said(libc::EPERM)));
    }

    #[test]
    fn numbers_of_fdinfo_are_read_and_text_is_not() {
        let found = numbers("pos:\t0\nprog_tag:\tbe9e\nrun_cnt:\t17\nrecursion_misses:\t2\nnonsense\n");
        assert_eq!(found.get("run_cnt"), Some(&17));
        assert_eq!(found.get("recursion_misses"), Some(&2));
        assert!(!found.contains_key("prog_tag"));
    }
}
