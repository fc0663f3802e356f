//! Capabilities.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use varmor_common::abi::{EVENT_CAPABILITY, VERDICT_AUDIT, VERDICT_DENY, operation};

use super::{identity::belongs_to_protected, subject_or_return};
use crate::{
    audit::What,
    kernel::{mask, raw_argument},
    verdict::{ALLOW, quiet_point},
};

const WHAT: What = What::new(EVENT_CAPABILITY, operation::CAPABLE);
/// `CAP_OPT_NOAUDIT`: the kernel asks without using the answer as a permission of the task.
const NO_AUDIT: u64 = 1 << 1;

/// Holds for credentials that descend from protected tasks. Any other credential is a kernel override, such as
/// the mounter's that overlayfs works under; there is no exemption by the set of capabilities.
#[lsm(hook = "capable")]
pub fn capable(ctx: LsmContext) -> i32 {
    let subject = subject_or_return!(WHAT);
    let capability: i32 = ctx.arg(2);
    let capability = mask::<63>(capability as u64);
    let bit = 1u64 << capability;
    let profile = subject.profile;
    if (profile.caps_deny | profile.caps_audit) & bit == 0 {
        return ALLOW;
    }
    let Some(credential) = raw_argument::<0>(&ctx) else {
        return ALLOW;
    };
    if !belongs_to_protected(credential) {
        return ALLOW;
    }
    let mut verdict = 0;
    if profile.caps_deny & bit != 0 {
        verdict |= VERDICT_DENY;
    }
    if profile.caps_audit & bit != 0 {
        verdict |= VERDICT_AUDIT;
    }
    // SAFETY: `capability` is below 64.
    let site = unsafe { *profile.cap_sites.as_ptr().add(mask::<63>(capability) as usize) };
    let quiet = raw_argument::<3>(&ctx).unwrap_or(0) & NO_AUDIT != 0;
    quiet_point(
        &subject,
        WHAT,
        u32::MAX,
        u64::from(verdict) | u64::from(site) << 32,
        [capability, 0, 0],
        quiet,
    )
}
