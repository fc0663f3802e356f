//! Capability and ptrace masks.

use super::{KEY, compiled, profile, rule};
use crate::abi::{PTRACE_READ, PTRACE_TRACE, VERDICT_AUDIT, VERDICT_DENY};
use crate::compile::bpf::HookGroups;
use crate::matcher::Walk;
use crate::profile::{CapabilitySet, Object, PtraceAccess, PtraceRule, PtraceScope, Verdict};

#[test]
fn denied_and_audited_capabilities_keep_their_rules() {
    let set = |bits| Object::Capability(CapabilitySet(bits));
    let profile = profile(vec![
        rule("audit-all", Verdict::Audit, set((1 << 41) - 1)),
        rule("deny-admin", Verdict::Deny, set(1 << 21)),
        rule("allow-nothing", Verdict::Allow, set(1 << 40)),
    ]);
    let artefact = compiled(&profile);
    let walk = Walk::new(&artefact, KEY);
    for (number, verdict, id) in [
        (21, VERDICT_DENY | VERDICT_AUDIT, Some("deny-admin")),
        (40, VERDICT_AUDIT, Some("audit-all")),
        (41, 0, None),
    ] {
        let point = walk.capability(number);
        assert_eq!(point.verdict, verdict, "capability {number}");
        let named = (point.site != 0)
            .then(|| artefact.rule_at(&profile, point.site, u32::MAX))
            .flatten();
        assert_eq!(named.map(|rule| rule.id.as_str()), id, "capability {number}");
    }
    assert_eq!(artefact.hooks, HookGroups::CAPABILITY);
}

#[test]
fn ptrace_towards_outside_leaves_the_container_alone() {
    let ptrace = |access, scope| {
        Object::Ptrace(PtraceRule {
            access: PtraceAccess(access),
            scope,
        })
    };
    let profile = profile(vec![
        rule(
            "outside",
            Verdict::Deny,
            ptrace(PTRACE_TRACE | PTRACE_READ, PtraceScope::Outside),
        ),
        rule("watch", Verdict::Audit, ptrace(PTRACE_READ, PtraceScope::All)),
    ]);
    let artefact = compiled(&profile);
    let walk = Walk::new(&artefact, KEY);
    assert_eq!(walk.ptrace(PTRACE_TRACE, false).verdict, 0);
    assert_eq!(walk.ptrace(PTRACE_TRACE, true).verdict, VERDICT_DENY);
    assert_eq!(walk.ptrace(PTRACE_READ, false).verdict, VERDICT_AUDIT);
    assert_eq!(
        walk.ptrace(PTRACE_READ, true).verdict,
        VERDICT_DENY | VERDICT_AUDIT
    );
    let site = walk.ptrace(PTRACE_READ, true).site;
    assert_eq!(
        artefact
            .rule_at(&profile, site, PTRACE_READ)
            .map(|rule| rule.id.as_str()),
        Some("outside")
    );
}
