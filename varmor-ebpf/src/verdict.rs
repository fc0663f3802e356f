//! From what was found to what the kernel is told: the only place that makes an errno of a verdict or a fault.

use varmor_common::{
    abi::{
        ACTION_ALLOWED, ACTION_AUDIT, ACTION_DENIED, ACTION_FAULT, COUNTER_AUDITED, COUNTER_DENIED,
        COUNTER_FAULTS, FAULT_NONE, MASK_AUDIT, MASK_DENY, PROFILE_COMPLAIN, VERDICT_AUDIT, VERDICT_DENY,
    },
    matcher::decide,
};

use crate::{
    alias,
    audit::{self, What},
    identity::Subject,
    maps::count,
    path::{fault_of, pack},
};

/// Every permission bit.
const PERM_EVERY: u32 = 0xff;

pub const ALLOW: i32 = 0;
/// `-EPERM`, what vArmor's users see.
pub const DENY: i32 = -1;

/// Ends a hook whose task is protected but cannot be judged.
#[inline(always)]
pub fn lost(what: What, fault: u32) -> i32 {
    count(COUNTER_FAULTS + fault);
    count(COUNTER_DENIED);
    audit::emit(what.action(ACTION_FAULT).fault(fault).pack(), 0, 0, 0, 0);
    DENY
}

/// Ends a hook about a path: `collected` comes from a walk, `object` gives the addresses of dentry and mount for
/// the event.
#[inline(always)]
pub fn file(
    subject: &Subject,
    what: What,
    request: u32,
    collected: u64,
    object: impl Fn() -> (u64, u64),
) -> i32 {
    file_within(subject, what, request, PERM_EVERY, collected, object)
}

/// As [`file`]; the default of an allow-list counts for the permissions `allowed` only: a request that names every
/// permission because any denial is to count does not need every one allowed.
#[inline(always)]
pub fn file_within(
    subject: &Subject,
    what: What,
    request: u32,
    allowed: u32,
    collected: u64,
    object: impl Fn() -> (u64, u64),
) -> i32 {
    let complain = subject.profile.flags & PROFILE_COMPLAIN != 0;
    let default = subject.profile.file_default & (allowed << MASK_DENY | allowed << MASK_AUDIT);
    let mut fault = fault_of(collected);
    let mut verdict = decide(collected, request, default);
    if fault == FAULT_NONE && verdict.denied == 0 && alias::is_possible(subject) {
        let artefact_request = pack(subject.artefact, request);
        let collected = alias::views(
            object().0,
            subject.profile.file_start,
            artefact_request,
            collected,
        );
        fault = fault_of(collected);
        verdict = decide(collected, request, default);
    }
    let action = action(fault, verdict.denied != 0, verdict.audited != 0, complain);
    if action == 0 {
        return ALLOW;
    }
    let (dentry, mount) = object();
    audit::emit(
        what.action(action).fault(fault).artefact(subject.artefact).pack(),
        audit::site_request(verdict.site, request),
        dentry,
        mount,
        0,
    );
    finish(action, fault)
}

/// Ends a hook about something that is not a path; `verdict_site` holds `VERDICT_*` bits and the site above.
#[inline(always)]
pub fn point(subject: &Subject, what: What, request: u32, verdict_site: u64, data: [u64; 3]) -> i32 {
    quiet_point(subject, what, request, verdict_site, data, false)
}

/// As [`point`]; a `quiet` denial leaves no event (`CAP_OPT_NOAUDIT`: the kernel only asks).
#[inline(always)]
pub fn quiet_point(
    subject: &Subject,
    what: What,
    request: u32,
    verdict_site: u64,
    data: [u64; 3],
    quiet: bool,
) -> i32 {
    let complain = subject.profile.flags & PROFILE_COMPLAIN != 0;
    let denied = verdict_site & u64::from(VERDICT_DENY) != 0;
    let audited = verdict_site & u64::from(VERDICT_AUDIT) != 0;
    let action = action(FAULT_NONE, denied, audited, complain);
    if action == 0 {
        return ALLOW;
    }
    audit::emit(
        what.action(action).quiet(quiet).artefact(subject.artefact).pack(),
        audit::site_request((verdict_site >> 32) as u32, request),
        data[0],
        data[1],
        data[2],
    );
    finish(action, FAULT_NONE)
}

#[inline(always)]
const fn action(fault: u32, denied: bool, audited: bool, complain: bool) -> u32 {
    if fault != FAULT_NONE {
        // Complain mode says what would be refused by a rule; what cannot be judged stays refused.
        ACTION_FAULT
    } else if denied {
        if complain { ACTION_ALLOWED } else { ACTION_DENIED }
    } else if audited {
        ACTION_AUDIT
    } else {
        0
    }
}

#[inline(always)]
fn finish(action: u32, fault: u32) -> i32 {
    if action == ACTION_FAULT {
        count(COUNTER_FAULTS + (fault & 0xf));
    }
    if action == ACTION_DENIED || action == ACTION_FAULT {
        count(COUNTER_DENIED);
        DENY
    } else {
        count(COUNTER_AUDITED);
        ALLOW
    }
}
