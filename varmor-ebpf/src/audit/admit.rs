//! Whether an event is written: everything is counted, repetitions and floods are not written.

use core::mem::offset_of;

use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use varmor_common::abi::{
    ACTION_DENIED, ACTION_FAULT, COUNTER_LOST, HitKey, Hits, REPEAT_WINDOW, Recent, SETTING_EVENT_BURST,
    SETTING_EVENT_INTERVAL, SlotCounts,
};

use crate::maps::{HITS, RECENT, SETTINGS, SLOT_COUNTS};

/// The event is written, with so many repetitions of it before.
pub const WRITE: u64 = 1 << 63;

/// Beside the action: the verdict is counted and never written.
pub const QUIET: u64 = 1 << 8;

/// Counts a verdict of the rules at (slot, generation, domain, site); whether its event is written:
/// [`WRITE`] and the number of repetitions, or 0.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn admit(slot_generation: u64, domain_site: u64, action_requested: u64, identity: u64) -> u64 {
    let slot = slot_generation as u32;
    let is_quiet = action_requested & QUIET != 0;
    let action = (action_requested & 0xff) as u32;
    if action == ACTION_DENIED || action == ACTION_FAULT {
        count(slot, offset_of!(SlotCounts, denied));
    } else {
        count(slot, offset_of!(SlotCounts, audited));
    }
    // SAFETY: the helper has no precondition.
    let now = unsafe { bpf_ktime_get_ns() };
    let key = HitKey {
        slot,
        generation: (slot_generation >> 32) as u32,
        domain: domain_site as u32,
        site: (domain_site >> 32) as u32,
        requested: (action_requested >> 32) as u32,
        _pad: 0,
    };
    let mut is_first = false;
    match HITS.get_ptr_mut(&key) {
        Some(hits) => {
            // SAFETY: aligned words of a map.
            unsafe {
                add(&raw mut (*hits).count);
                let written = (&raw const (*hits).written).read_volatile();
                is_first = now - written > REPEAT_WINDOW;
            }
        }
        None => {
            let first = Hits { count: 1, written: 0 };
            if HITS.insert(&key, &first, 0).is_ok() {
                is_first = true;
            } else {
                count(slot, offset_of!(SlotCounts, uncounted));
            }
        }
    }
    if is_quiet {
        return 0;
    }
    let repeated = match RECENT.get_ptr_mut(&identity) {
        None => {
            let first = Recent {
                since: now,
                repeated: 0,
            };
            let _ = RECENT.insert(&identity, &first, 0);
            0
        }
        Some(recent) => {
            // SAFETY: aligned words of a map. Two programs at once may both find the window over: two events.
            unsafe {
                let since = (&raw const (*recent).since).read_volatile();
                if now - since < REPEAT_WINDOW {
                    add(&raw mut (*recent).repeated);
                    count(slot, offset_of!(SlotCounts, repeated));
                    return 0;
                }
                (&raw mut (*recent).since).write_volatile(now);
                let repeated = (&raw const (*recent).repeated).read_volatile();
                (&raw mut (*recent).repeated).write_volatile(0);
                repeated
            }
        }
    };
    // A flood of one rule does not hide that another one was hit: each speaks once in a window, whatever the rate.
    if !is_first && !within_rate(slot, now) {
        count(slot, offset_of!(SlotCounts, limited));
        return 0;
    }
    if let Some(hits) = HITS.get_ptr_mut(&key) {
        // SAFETY: as above.
        unsafe { (&raw mut (*hits).written).write_volatile(now) };
    }
    WRITE | repeated & 0xffff_ffff
}

/// Counts an event for which there was no room.
#[inline(always)]
pub fn lost(slot: u32) {
    crate::maps::count(COUNTER_LOST);
    count(slot, offset_of!(SlotCounts, lost));
}

/// One event is due every interval, and a burst of them may come too early. Two programs at once may let one event
/// too many through.
#[inline(always)]
fn within_rate(slot: u32, now: u64) -> bool {
    let interval = setting(SETTING_EVENT_INTERVAL);
    let burst = setting(SETTING_EVENT_BURST);
    let Some(counts) = SLOT_COUNTS.get_ptr_mut(slot) else {
        return true;
    };
    // SAFETY: an aligned word of a map.
    unsafe {
        let due = (&raw mut (*counts).due).read_volatile();
        if due > now + interval * burst {
            return false;
        }
        let due = if due < now { now } else { due };
        (&raw mut (*counts).due).write_volatile(due + interval);
    }
    true
}

#[inline(always)]
fn setting(number: u32) -> u64 {
    SETTINGS.get(number).map_or(0, |value| u64::from(*value))
}

/// Adds one to a number of a profile.
#[inline(always)]
fn count(slot: u32, field: usize) {
    if let Some(counts) = SLOT_COUNTS.get_ptr_mut(slot) {
        // SAFETY: the field is a word of the structure.
        unsafe { add(counts.cast::<u8>().add(field).cast::<u64>()) };
    }
}

/// Adds one.
///
/// # Safety
/// `word` is an aligned word of a map's value.
#[inline(always)]
unsafe fn add(word: *mut u64) {
    // SAFETY: see above; an addition without a result is an instruction of 5.10 too.
    unsafe {
        core::arch::asm!("lock *(u64 *)({word} + 0) += {one}", word = in(reg) word, one = in(reg) 1u64);
    }
}
