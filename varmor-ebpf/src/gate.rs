//! The gate: a container that starts before the agent knows it waits for the agent, ahead of its first instruction.
//!
//! The first exec in a cgroup that nobody knows, below one where containers appear, is not refused and not let
//! through: the task gets SIGSTOP, and the call ends with `-ERESTARTNOINTR`. On its way out of the kernel the task
//! stops; when the agent has said what the cgroup is, it sends SIGCONT, and the kernel makes the same call again, which
//! now finds the container's label. Neither the runtime nor the program notices anything but the time. A runtime that executes
//! itself in the new cgroup, before there is a container to ask for, gets leave for one exec.

use aya_ebpf::helpers::generated::{
    bpf_get_current_cgroup_id, bpf_get_current_pid_tgid, bpf_ktime_get_boot_ns, bpf_send_signal,
};
use varmor_common::abi::{
    ACTION_ALLOWED, ACTION_FAULT, AGENT_LAPSE, COUNTER_DENIED, COUNTER_FAULTS, EVENT_EXEC, FAULT_ABSENT,
    PASSES_ONCE, SETTING_ABSENT, SETTING_ALIVE, Waiting, operation,
};

use crate::{
    audit::{self, What},
    maps::{self, count},
    verdict::{ALLOW, DENY},
};

const SIGSTOP: u32 = 19;
/// `-ERESTARTNOINTR` (include/linux/errno.h): with a signal pending the call is made again, whatever the signal does;
/// no program ever sees the number. exec itself ends so when its lock is interrupted.
const MAKE_THE_CALL_AGAIN: i32 = -513;
const NANOSECONDS: u64 = 1_000_000_000;
/// What the agent's ring gets: it only wakes.
const WAKE: u64 = 1;

/// `gate` is the cgroup below which containers appear; what runs in that cgroup itself is no container.
#[inline(always)]
pub fn pass(gate: u64) -> i32 {
    // SAFETY: the helper has no precondition.
    let cgroup = unsafe { bpf_get_current_cgroup_id() };
    if cgroup == gate {
        return ALLOW;
    }
    // SAFETY: as above.
    let process = (unsafe { bpf_get_current_pid_tgid() } >> 32) as u32;
    // SAFETY: entries are replaced, never changed in place (no-prealloc hash), so the copy is whole.
    let known = unsafe { maps::WAITING.get(&process) }.copied();
    if known.is_some_and(|known| known.since == PASSES_ONCE && known.cgroup == cgroup) {
        let _ = maps::WAITING.remove(&process);
        return ALLOW;
    }
    // SAFETY: as above.
    let now = unsafe { bpf_ktime_get_boot_ns() };
    let alive = maps::SETTINGS.get(SETTING_ALIVE).copied().unwrap_or(0);
    if now / NANOSECONDS > u64::from(alive) + u64::from(AGENT_LAPSE) {
        return absent();
    }
    let waiting = Waiting { cgroup, since: now };
    if maps::WAITING.insert(&process, &waiting, 0).is_err() {
        return absent();
    }
    // A ring that is full has woken the agent already.
    let _ = maps::STARTS.output::<u64>(&WAKE, 0);
    // SAFETY: the signal goes to the current task's own process.
    if unsafe { bpf_send_signal(SIGSTOP) } != 0 {
        let _ = maps::WAITING.remove(&process);
        return absent();
    }
    MAKE_THE_CALL_AGAIN
}

/// Nobody can say what the container may do.
#[inline(always)]
fn absent() -> i32 {
    let goes_on = maps::SETTINGS.get(SETTING_ABSENT).copied().unwrap_or(0) != 0;
    let action = if goes_on { ACTION_ALLOWED } else { ACTION_FAULT };
    count(COUNTER_FAULTS + FAULT_ABSENT);
    let what = What::new(EVENT_EXEC, operation::EXEC)
        .action(action)
        .fault(FAULT_ABSENT);
    audit::emit(what.pack(), 0, 0, 0, 0);
    if goes_on {
        ALLOW
    } else {
        count(COUNTER_DENIED);
        DENY
    }
}
