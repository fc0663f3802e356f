//! System calls of a profile while it is recorded: a program on every system call of the machine that notes those of
//! labelled tasks, and nothing else. It is there as long as the recorder is.

use std::collections::BTreeSet;

use aya::maps::{HashMap, Map, MapData, MapError};
use aya::programs::BtfTracePoint;
use aya::{Btf as AyaBtf, Ebpf};
use libseccomp::ScmpSyscall;
use varmor_common::abi::{CALL_FOREIGN, CALL_NUMBERS, Calls};

use super::super::EnforcerError;
use super::BpfEnforcer;
use super::object::Object;
use super::pins::Pins;
use super::raw::Shared;

pub(super) const PROGRAM: &str = "sys_enter";
const MAP: &str = "CALLS";

/// `pt_regs.cs` of the task and its value in 64-bit code (`__USER_CS`). Elsewhere nothing tells calls of another
/// instruction set.
const SEGMENT: (u32, u32) = if cfg!(target_arch = "x86_64") {
    (136, 0x33)
} else {
    (0, 0)
};

/// While it lives, system calls of the profile are noted.
pub struct CallRecorder {
    calls: HashMap<MapData, u32, Shared<Calls>>,
    slot: u32,
    /// Holds the program and its link.
    _ebpf: Ebpf,
}

/// What was called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenCalls {
    pub names: BTreeSet<String>,
    /// Numbers that the libseccomp of this machine has no name for.
    pub unnamed: Vec<usize>,
    /// Calls of another instruction set were made, or of numbers that no kernel has.
    pub foreign: bool,
}

impl BpfEnforcer {
    /// Begins to note the system calls of a loaded profile.
    pub fn record_calls(&self, profile: &str) -> Result<CallRecorder, EnforcerError> {
        let slot = self.named(profile)?.slot;
        let data = MapData::from_pin(self.pins.map(MAP)).map_err(failed("open the table of system calls"))?;
        let mut calls: HashMap<_, u32, Shared<Calls>> = Map::HashMap(data)
            .try_into()
            .map_err(failed("open the table of system calls"))?;
        let (segment_offset, native_segment) = SEGMENT;
        let nothing = Calls {
            segment_offset,
            native_segment,
            ..Calls::default()
        };
        calls
            .insert(slot, Shared(nothing), 0)
            .map_err(failed("begin to note system calls"))?;
        let ebpf = load(&self.object, self.key, &self.pins)?;
        Ok(CallRecorder {
            calls,
            slot,
            _ebpf: ebpf,
        })
    }
}

impl CallRecorder {
    /// What was called since the beginning.
    pub fn seen(&self) -> Result<SeenCalls, EnforcerError> {
        let noted = self
            .calls
            .get(&self.slot, 0)
            .map_err(failed("read the system calls"))?;
        Ok(named(&noted.0))
    }
}

impl Drop for CallRecorder {
    fn drop(&mut self) {
        // The map goes with the enforcer at the latest.
        let _ = self.calls.remove(&self.slot);
    }
}

fn failed(operation: &'static str) -> impl FnOnce(MapError) -> EnforcerError {
    move |error| EnforcerError::kernel(operation, error)
}

fn load(object: &Object, key: u64, pins: &Pins) -> Result<Ebpf, EnforcerError> {
    let mut ebpf = object.open(key, false, Some(pins))?;
    let types = AyaBtf::from_sys_fs().map_err(|error| EnforcerError::kernel("read kernel types", error))?;
    let program = find(&mut ebpf)?;
    program
        .load(PROGRAM, &types)
        .and_then(|()| program.attach().map(drop))
        .map_err(|error| EnforcerError::kernel(format!("load program `{PROGRAM}`"), error))?;
    Ok(ebpf)
}

pub(super) fn find(ebpf: &mut Ebpf) -> Result<&mut BtfTracePoint, EnforcerError> {
    let missing = || EnforcerError::kernel(format!("find program `{PROGRAM}`"), "the kernel object has none");
    ebpf.program_mut(PROGRAM)
        .ok_or_else(missing)?
        .try_into()
        .map_err(|error| EnforcerError::kernel(format!("find program `{PROGRAM}`"), error))
}

fn named(calls: &Calls) -> SeenCalls {
    let mut seen = SeenCalls {
        foreign: calls.seen[CALL_FOREIGN] != 0,
        ..SeenCalls::default()
    };
    for number in (0..CALL_NUMBERS).filter(|number| calls.seen[*number] != 0) {
        let call = i32::try_from(number).map(ScmpSyscall::from);
        match call.ok().and_then(|call| call.get_name().ok()) {
            Some(name) => {
                seen.names.insert(name);
            }
            None => seen.unnamed.push(number),
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_names_and_others_are_told() {
        let mut calls = Calls::default();
        let read = i32::from(ScmpSyscall::from_name("read").unwrap());
        for number in [usize::try_from(read).unwrap(), 1000, CALL_FOREIGN] {
            calls.seen[number] = 1;
        }
        let seen = named(&calls);
        assert_eq!(seen.names.into_iter().collect::<Vec<_>>(), ["read"]);
        assert_eq!((seen.unnamed, seen.foreign), (vec![1000], true));
        assert_eq!(named(&Calls::default()), SeenCalls::default());
    }
}
