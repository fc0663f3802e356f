//! Capability and ptrace rules -> the masks of the descriptor.

use super::SiteRule;
use super::sites::Sites;
use crate::abi::{Descriptor, PTRACE_READ, PTRACE_READBY, PTRACE_TRACE, PTRACE_TRACEBY};
use crate::profile::{Kinds, Object, Profile, PtraceScope, Verdict};

/// Every ptrace permission.
const PTRACE_ALL: u32 = PTRACE_TRACE | PTRACE_READ | PTRACE_TRACEBY | PTRACE_READBY;

pub(super) fn compile(profile: &Profile, sites: &mut Sites, descriptor: &mut Descriptor) {
    let mut capabilities: [Vec<SiteRule>; 64] = std::array::from_fn(|_| Vec::new());
    let mut accesses: [Vec<SiteRule>; 8] = std::array::from_fn(|_| Vec::new());
    let mut allowed = 0;
    let (mut allowed_inside, mut allowed_outside) = (0, 0);
    for (rule, index) in profile.rules.iter().zip(0..) {
        let speaks = |permissions| SiteRule {
            permissions,
            verdict: rule.verdict,
            rule: index,
        };
        match &rule.object {
            Object::Capability(set) => {
                match rule.verdict {
                    Verdict::Deny => descriptor.caps_deny |= set.0,
                    Verdict::Audit => descriptor.caps_audit |= set.0,
                    Verdict::Allow => allowed |= set.0,
                }
                for (number, rules) in capabilities.iter_mut().enumerate() {
                    if set.0 & (1 << number) != 0 {
                        rules.push(speaks(u32::MAX));
                    }
                }
            }
            Object::Ptrace(ptrace) => {
                let masks = &mut descriptor.ptrace;
                let access = ptrace.access.0;
                let inside = ptrace.scope != PtraceScope::Outside;
                match (rule.verdict, inside) {
                    // Denying and auditing rules about the inside alone hold for every peer: no policy writes them.
                    (Verdict::Deny, true) => masks.deny_all |= access,
                    (Verdict::Deny, false) => masks.deny_outside |= access,
                    (Verdict::Audit, true) => masks.audit_all |= access,
                    (Verdict::Audit, false) => masks.audit_outside |= access,
                    (Verdict::Allow, _) => {
                        allowed_inside |= if inside { access } else { 0 };
                        allowed_outside |= if ptrace.scope == PtraceScope::Inside {
                            0
                        } else {
                            access
                        };
                    }
                }
                for (bit, rules) in accesses.iter_mut().enumerate() {
                    if ptrace.access.0 & (1 << bit) != 0 {
                        rules.push(speaks(ptrace.access.0));
                    }
                }
            }
            _ => {}
        }
    }
    for (site, rules) in descriptor.cap_sites.iter_mut().zip(capabilities) {
        *site = sites.number(rules);
    }
    for (site, rules) in descriptor.ptrace.sites.iter_mut().zip(accesses) {
        *site = sites.number(rules);
    }
    let (inside, outside) = (PTRACE_ALL & !allowed_inside, PTRACE_ALL & !allowed_outside);
    capability_default(profile, !allowed, descriptor);
    ptrace_default(profile, inside, outside, descriptor);
}

/// The capabilities that no rule allows. Where only the default refuses, no rule is named.
fn capability_default(profile: &Profile, unallowed: u64, descriptor: &mut Descriptor) {
    match profile.default.verdict(Kinds::CAPABILITIES) {
        Some(Verdict::Deny) => {
            let by_default = unallowed & !descriptor.caps_deny;
            for (number, site) in descriptor.cap_sites.iter_mut().enumerate() {
                if by_default & (1 << number) != 0 {
                    *site = 0;
                }
            }
            descriptor.caps_deny |= unallowed;
        }
        Some(_) => descriptor.caps_audit |= unallowed,
        None => {}
    }
}

/// The accesses that no rule allows, to peers inside of the container and to others.
fn ptrace_default(profile: &Profile, inside: u32, outside: u32, descriptor: &mut Descriptor) {
    let masks = &mut descriptor.ptrace;
    match profile.default.verdict(Kinds::PTRACE) {
        Some(Verdict::Deny) => {
            let by_default = outside & !(masks.deny_all | masks.deny_outside);
            for (bit, site) in masks.sites.iter_mut().enumerate() {
                if by_default & (1 << bit) != 0 {
                    *site = 0;
                }
            }
            masks.deny_all |= inside;
            masks.deny_outside |= outside;
        }
        Some(_) => {
            masks.audit_all |= inside;
            masks.audit_outside |= outside;
        }
        None => {}
    }
}
