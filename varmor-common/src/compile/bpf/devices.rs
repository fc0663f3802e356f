//! Device rules -> points; rules about namespaces -> words of the descriptor.

use std::collections::BTreeMap;

use super::sites::Sites;
use super::{Artefact, Kernel, SiteRule, Unsupported};
use crate::abi::{
    ANY, DEVICE_ALL, DEVICE_BLOCK, DEVICE_CHARACTER, POINT_DEVICE, PROFILE_DEVICES, Point, PointKey,
    VERDICT_ALLOW, VERDICT_AUDIT, VERDICT_DENY,
};
use crate::profile::{DeviceKind, DeviceRule, Object, Profile, Verdict};

pub(super) fn compile(profile: &Profile, kernel: Kernel, sites: &mut Sites, artefact: &mut Artefact) {
    let mut points: BTreeMap<PointKey, Vec<SiteRule>> = BTreeMap::new();
    let mut namespaces = Vec::new();
    for (rule, index) in profile.rules.iter().zip(0..) {
        let speaks = SiteRule {
            permissions: u32::MAX,
            verdict: rule.verdict,
            rule: index,
        };
        match &rule.object {
            Object::Device(device) => {
                for key in keys(device) {
                    points.entry(key).or_default().push(speaks);
                }
            }
            Object::UserNamespace if kernel.userns_create => namespaces.push(speaks),
            Object::UserNamespace => artefact.unsupported.push(Unsupported {
                rule: index,
                reason: "this kernel has no hook `userns_create` (it came with 6.1): deny CAP_SYS_ADMIN \
                         (disallow-abuse-user-ns), which is what a user namespace is made for, or filter the system \
                         calls with the Seccomp enforcer"
                    .to_owned(),
            }),
            _ => {}
        }
    }
    if !points.is_empty() {
        artefact.descriptor.flags |= PROFILE_DEVICES;
    }
    for (key, rules) in points {
        let verdict = bits(&rules);
        let site = sites.number(rules);
        artefact.points.push((key, Point { verdict, site }));
    }
    artefact.descriptor.user_namespace = bits(&namespaces) & !VERDICT_ALLOW;
    artefact.descriptor.user_namespace_site = sites.number(namespaces);
}

/// One key per kind and access. A rule about every major is about every minor.
fn keys(rule: &DeviceRule) -> Vec<PointKey> {
    let kinds: &[u32] = match rule.kind {
        DeviceKind::Character => &[DEVICE_CHARACTER],
        DeviceKind::Block => &[DEVICE_BLOCK],
        DeviceKind::Any => &[DEVICE_CHARACTER, DEVICE_BLOCK],
    };
    let accesses = (0..u32::BITS)
        .map(|bit| 1 << bit)
        .filter(|access| rule.access.0 & DEVICE_ALL & access != 0);
    accesses
        .flat_map(|access| {
            kinds.iter().map(move |kind| PointKey {
                hi: 0,
                lo: u64::from(access),
                kind: POINT_DEVICE,
                a: rule.major.unwrap_or(ANY),
                b: rule.minor.filter(|_| rule.major.is_some()).unwrap_or(ANY),
                c: *kind,
            })
        })
        .collect()
}

fn bits(rules: &[SiteRule]) -> u32 {
    rules.iter().fold(0, |bits, rule| {
        bits | match rule.verdict {
            Verdict::Deny => VERDICT_DENY,
            Verdict::Audit => VERDICT_AUDIT,
            Verdict::Allow => VERDICT_ALLOW,
        }
    })
}
