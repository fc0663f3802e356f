//! Ptrace and everything that the kernel guards like it (`/proc/PID/{mem,environ,root,ns}`, `process_vm_readv`).

use aya_ebpf::{macros::lsm, programs::LsmContext};
use varmor_common::abi::{
    EVENT_FILE, EVENT_PTRACE, FAULT_READ, Label, OWN_PROCESS, PERM_READ, PTRACE_READ, PTRACE_READBY,
    PTRACE_TRACE, PTRACE_TRACEBY, VERDICT_AUDIT, VERDICT_DENY, operation,
};

use super::guard;
use crate::{
    audit::What,
    identity::{self, Subject, Who},
    kernel::{probe, raw_argument},
    labels,
    offsets::{FILE_PATH, MM_EXE_FILE, PATH_DENTRY, PATH_MNT, TASK_MM, TASK_TGID},
    path::{masks_of, pack},
    verdict::{self, ALLOW, DENY, lost, point},
};

const MODE_READ: u32 = 1;
const MODE_ATTACH: u32 = 2;
/// No cgroup has this id.
const NOBODY: u64 = 0;
/// The label of a task that has none.
const UNLABELLED: Label = Label {
    binding: 0,
    domain: 0,
    cgroup: NOBODY,
    pending: 0,
    bind_flags: 0,
    bind_source: 0,
};

/// The current task looks into `child`. The child's own rules about being looked at hold for protected tracers.
#[lsm(hook = "ptrace_access_check")]
pub fn ptrace_access_check(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_PTRACE, operation::PTRACE);
    let Some(tracer) = identity::current_label() else {
        return ALLOW;
    };
    let mode: u32 = ctx.arg(1);
    let Some(address) = raw_argument::<0>(&ctx) else {
        return DENY;
    };
    if guard::is_agent(address) {
        return guard::refuse(operation::PTRACE, OWN_PROCESS, guard::agent());
    }
    let child = labels::of(ctx.arg(0), address).unwrap_or(UNLABELLED);
    let outside = child.cgroup != tracer.cgroup;
    let mut request = 0;
    let mut reverse = 0;
    if mode & MODE_ATTACH != 0 {
        request |= PTRACE_TRACE;
        reverse |= PTRACE_TRACEBY;
    }
    if mode & MODE_READ != 0 {
        request |= PTRACE_READ;
        reverse |= PTRACE_READBY;
    }
    if judge(tracer, WHAT, request, outside, address) != ALLOW {
        return DENY;
    }
    if child.cgroup != NOBODY && judge(child, WHAT, reverse, outside, address) != ALLOW {
        return DENY;
    }
    if mode & MODE_ATTACH != 0 {
        program(tracer, address)
    } else {
        ALLOW
    }
}

/// Who attaches to a task can read the text of its program, so the rules about reading that file hold.
#[inline(always)]
fn program(tracer: Label, task: u64) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::PTRACE);
    let subject = match identity::subject(tracer) {
        Who::Free => return ALLOW,
        Who::Lost(fault) => return lost(WHAT, fault),
        Who::Subject(subject) => subject,
    };
    if subject.profile.file_perms & PERM_READ == 0 {
        return ALLOW;
    }
    let (mm, executable) = (u64::from(TASK_MM.load()), u64::from(MM_EXE_FILE.load()));
    let Some(file) = probe::<u64>(task + mm).and_then(|mm| match mm {
        // A kernel thread, or a task that has ended.
        0 => Some(0),
        mm => probe::<u64>(mm + executable),
    }) else {
        return lost(WHAT, FAULT_READ);
    };
    if file == 0 {
        return ALLOW;
    }
    let path = file + u64::from(FILE_PATH.load());
    let (Some(mount), Some(dentry)) = (
        probe::<u64>(path + u64::from(PATH_MNT.load())),
        probe::<u64>(path + u64::from(PATH_DENTRY.load())),
    ) else {
        return lost(WHAT, FAULT_READ);
    };
    let wanted = pack(subject.artefact, PERM_READ);
    let collected = masks_of(dentry, mount, subject.profile.file_start, wanted);
    verdict::file(&subject, WHAT, PERM_READ, collected, || (dentry, mount))
}

/// The current task asks its parent to trace it.
#[lsm(hook = "ptrace_traceme")]
pub fn ptrace_traceme(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_PTRACE, operation::TRACEME);
    let Some(label) = identity::current_label() else {
        return ALLOW;
    };
    let Some(address) = raw_argument::<0>(&ctx) else {
        return DENY;
    };
    let parent = labels::of(ctx.arg(0), address).unwrap_or(UNLABELLED);
    let outside = parent.cgroup != label.cgroup;
    if judge(label, WHAT, PTRACE_TRACEBY, outside, address) != ALLOW {
        return DENY;
    }
    if parent.cgroup == NOBODY {
        ALLOW
    } else {
        judge(parent, WHAT, PTRACE_TRACE, outside, address)
    }
}

#[inline(always)]
fn judge(label: Label, what: What, request: u32, outside: bool, peer: u64) -> i32 {
    match identity::subject(label) {
        Who::Free => ALLOW,
        Who::Lost(fault) => lost(what, fault),
        Who::Subject(subject) => decide(&subject, what, request, outside, peer),
    }
}

#[inline(always)]
fn decide(subject: &Subject, what: What, request: u32, outside: bool, peer: u64) -> i32 {
    let rules = &subject.profile.ptrace;
    let mut denied = rules.deny_all;
    let mut audited = rules.audit_all;
    if outside {
        denied |= rules.deny_outside;
        audited |= rules.audit_outside;
    }
    let denied = denied & request;
    let audited = audited & request;
    if denied | audited == 0 {
        return ALLOW;
    }
    let verdict = if denied != 0 { VERDICT_DENY } else { VERDICT_AUDIT };
    let concerned = if denied != 0 { denied } else { audited };
    let mut site = 0;
    let mut bit = 1;
    while bit < 5 {
        if concerned & (1 << bit) != 0 {
            site = rules.sites[bit];
            break;
        }
        bit += 1;
    }
    let tgid = probe::<u32>(peer + u64::from(TASK_TGID.load())).unwrap_or(0);
    point(
        subject,
        what,
        request,
        u64::from(verdict) | u64::from(site) << 32,
        [u64::from(request), u64::from(tgid), u64::from(outside)],
    )
}
