//! Labels and credentials: given, inherited, taken away by death.

use aya_ebpf::{helpers::generated::bpf_get_current_ancestor_cgroup_id, macros::lsm, programs::LsmContext};
use varmor_common::abi::{COUNTER_FAULTS, FAULT_LABEL, Label, MANAGED_CONTAINER, MANAGED_GATE};

use crate::{
    credentials,
    field::argument,
    gate,
    identity::{self, managed_cgroup},
    kernel::{Typed, probe, scalar},
    labels,
    maps::count,
    offsets::{BPRM_CRED, TASK_REAL_CRED},
};

/// `-EAGAIN`: what fork reports when a resource is short.
const TRY_AGAIN: i32 = -11;

/// The child inherits the label; without a label there is no child. Also called for the threads of `io_uring`,
/// which therefore act under the label of the task that made them.
#[lsm(hook = "task_alloc")]
pub fn task_alloc(ctx: LsmContext) -> i32 {
    let Some(label) = identity::current_label() else {
        return 0;
    };
    if labels::set_child(&ctx, label) {
        0
    } else {
        count(COUNTER_FAULTS + FAULT_LABEL);
        TRY_AGAIN
    }
}

/// Never attached. That a kernel loads it says that programs may ask for an ancestor's cgroup.
#[lsm(hook = "bprm_check_security")]
pub fn ancestor_cgroup_trial(_ctx: LsmContext) -> i32 {
    // SAFETY: the helper has no precondition. Its answer is used: it must not be optimised away.
    i32::from(unsafe { bpf_get_current_ancestor_cgroup_id(1) } == 0)
}

/// Forgets a dead task.
#[cfg(not(feature = "ts"))]
#[lsm(hook = "task_free")]
pub fn task_free(ctx: LsmContext) -> i32 {
    if let Some(task) = argument::<0>(&ctx) {
        labels::remove(task);
    }
    0
}

/// What an exec means for the label of its task: one that has none gets the container's in a managed cgroup, before the
/// program is judged, so that the program's first instruction already runs under the policy. Below a gate it waits. Not 0
/// is what the hook shall return.
#[inline(never)]
pub(super) fn begin_exec(bprm: Typed) -> i32 {
    let Some((cgroup, managed)) = managed_cgroup() else {
        return 0;
    };
    if managed.kind != MANAGED_CONTAINER {
        return if managed.kind == MANAGED_GATE {
            gate::pass(cgroup)
        } else {
            0
        };
    }
    let label = Label {
        binding: managed.binding,
        cgroup,
        ..Label::default()
    };
    let Some(credential) = scalar(bprm, BPRM_CRED.load()) else {
        return TRY_AGAIN;
    };
    if credentials::insert(credential) && labels::set_current(label) {
        0
    } else {
        count(COUNTER_FAULTS + FAULT_LABEL);
        TRY_AGAIN
    }
}

/// From here on the exec cannot fail, and the new program's first instruction is still to come.
#[lsm(hook = "bprm_committing_creds")]
pub fn bprm_committing_creds(_ctx: LsmContext) -> i32 {
    identity::enter_pending();
    0
}

/// A credential made from one of a protected task is one of a protected task.
#[lsm(hook = "cred_prepare")]
pub fn cred_prepare(ctx: LsmContext) -> i32 {
    inherit(&ctx)
}

#[lsm(hook = "cred_transfer")]
pub fn cred_transfer(ctx: LsmContext) -> i32 {
    inherit(&ctx);
    0
}

#[lsm(hook = "cred_free")]
pub fn cred_free(ctx: LsmContext) -> i32 {
    if let Some(credential) = argument::<0>(&ctx) {
        credentials::remove(credential);
    }
    0
}

/// `new` descends from `old`, whoever the current task is: a protected task that works under the credential of
/// a filesystem's mounter (overlayfs) must not taint copies of that one.
#[inline(always)]
fn inherit(ctx: &LsmContext) -> i32 {
    if identity::current_label().is_none() {
        return 0;
    }
    let Some(new) = argument::<0>(ctx) else {
        return TRY_AGAIN;
    };
    if !descends_from_protected(ctx) || credentials::insert(new) {
        0
    } else {
        count(COUNTER_FAULTS + FAULT_LABEL);
        TRY_AGAIN
    }
}

/// As [`belongs_to_protected`], for the credential that a new one is made from.
#[cfg(feature = "ts")]
#[inline(always)]
fn descends_from_protected(ctx: &LsmContext) -> bool {
    let old: Typed = ctx.arg(1);
    // SAFETY: the helper has no precondition and gives a BTF pointer.
    let own = unsafe {
        let task = aya_ebpf::helpers::generated::bpf_get_current_task_btf();
        crate::kernel::pointer(task.cast::<u8>(), TASK_REAL_CRED.load())
    };
    // One that cannot be told counts as one of a protected task.
    own == old || argument::<1>(ctx).is_none_or(credentials::contains)
}

#[cfg(not(feature = "ts"))]
#[inline(always)]
fn descends_from_protected(ctx: &LsmContext) -> bool {
    argument::<1>(ctx).is_none_or(belongs_to_protected)
}

/// Whether a credential is the current (protected) task's own or descends from a protected task.
#[inline(always)]
pub fn belongs_to_protected(credential: u64) -> bool {
    // SAFETY: the helper has no precondition.
    let task = unsafe { aya_ebpf::helpers::generated::bpf_get_current_task() };
    if probe::<u64>(task + u64::from(TASK_REAL_CRED.load())) == Some(credential) {
        return true;
    }
    credentials::contains(credential)
}
