//! User namespaces, and credentials that `io_uring` takes on.
//!
//! `chroot`, `setns` and the other namespaces need no hook: a label does not depend on them, and walks go to the root of
//! the mount tree and not to the task's root.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use varmor_common::abi::{EVENT_NAMESPACE, OWN_PROCESS, operation};

use super::{guard, identity::belongs_to_protected, subject_or_return};
use crate::{
    audit::What,
    identity,
    kernel::raw_argument,
    verdict::{ALLOW, point},
};

/// From 6.1 on.
#[lsm(hook = "userns_create")]
pub fn userns_create(_ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_NAMESPACE, operation::USERNS);
    let subject = subject_or_return!(WHAT);
    let verdict = u64::from(subject.profile.user_namespace);
    let site = u64::from(subject.profile.user_namespace_site);
    point(&subject, WHAT, u32::MAX, verdict | site << 32, [0; 3])
}

/// A personality that does not descend from a protected task would lift the rules about capabilities and attributes;
/// it comes with a ring that was made outside.
#[lsm(hook = "uring_override_creds")]
pub fn uring_override_creds(ctx: LsmContext) -> i32 {
    if identity::current_label().is_none() {
        return ALLOW;
    }
    match raw_argument::<0>(&ctx) {
        Some(credential) if belongs_to_protected(credential) => ALLOW,
        _ => guard::refuse(operation::PERSONALITY, OWN_PROCESS, 0),
    }
}
