//! Capability and ptrace rules -> the masks of the descriptor.

use super::SiteRule;
use super::sites::Sites;
use crate::abi::Descriptor;
use crate::profile::{Object, Profile, PtraceScope, Verdict};

pub(super) fn compile(profile: &Profile, sites: &mut Sites, descriptor: &mut Descriptor) {
    let mut capabilities: [Vec<SiteRule>; 64] = std::array::from_fn(|_| Vec::new());
    let mut accesses: [Vec<SiteRule>; 8] = std::array::from_fn(|_| Vec::new());
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
                    Verdict::Allow => {}
                }
                for (number, rules) in capabilities.iter_mut().enumerate() {
                    if set.0 & (1 << number) != 0 {
                        rules.push(speaks(u32::MAX));
                    }
                }
            }
            Object::Ptrace(ptrace) => {
                let masks = &mut descriptor.ptrace;
                match (rule.verdict, ptrace.scope) {
                    (Verdict::Deny, PtraceScope::All) => masks.deny_all |= ptrace.access.0,
                    (Verdict::Deny, PtraceScope::Outside) => masks.deny_outside |= ptrace.access.0,
                    (Verdict::Audit, PtraceScope::All) => masks.audit_all |= ptrace.access.0,
                    (Verdict::Audit, PtraceScope::Outside) => masks.audit_outside |= ptrace.access.0,
                    (Verdict::Allow, _) => {}
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
}
