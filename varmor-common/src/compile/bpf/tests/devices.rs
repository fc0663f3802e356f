//! Device points, and rules that depend on what the kernel has.

use super::{KEY, compiled, profile, rule};
use crate::abi::{
    ANY, DEVICE_BLOCK, DEVICE_MOUNT, DEVICE_READ, DEVICE_WRITE, POINT_DEVICE, PointKey, VERDICT_DENY,
};
use crate::compile::bpf::{HookGroups, Kernel, TargetKeys, compile_after};
use crate::profile::{DeviceAccess, DeviceKind, DeviceRule, Object, Verdict};

fn device(kind: DeviceKind, major: Option<u32>, minor: Option<u32>, access: u32) -> Object {
    Object::Device(DeviceRule {
        kind,
        major,
        minor,
        access: DeviceAccess(access),
    })
}

#[test]
fn a_device_rule_is_one_point_per_kind_and_access() {
    let profile = profile(vec![rule(
        "disk",
        Verdict::Deny,
        device(DeviceKind::Block, Some(254), Some(1), DEVICE_READ | DEVICE_MOUNT),
    )]);
    let artefact = compiled(&profile);
    let key = |access| PointKey {
        hi: 0,
        lo: u64::from(access),
        kind: POINT_DEVICE,
        a: 254,
        b: 1,
        c: DEVICE_BLOCK,
    };
    let found = |access| artefact.points.iter().find(|(one, _)| *one == key(access));
    assert!(found(DEVICE_READ).is_some_and(|(_, point)| point.verdict == VERDICT_DENY && point.site != 0));
    assert!(found(DEVICE_MOUNT).is_some());
    assert!(found(DEVICE_WRITE).is_none());
    assert_eq!(artefact.points.len(), 2);
    assert_eq!(artefact.hooks, HookGroups::DEVICE);
}

#[test]
fn every_device_is_every_major_and_minor_of_both_kinds() {
    let profile = profile(vec![rule(
        "any",
        Verdict::Deny,
        device(DeviceKind::Any, None, Some(3), DEVICE_READ),
    )]);
    let artefact = compiled(&profile);
    assert_eq!(artefact.points.len(), 2);
    assert!(
        artefact
            .points
            .iter()
            .all(|(key, _)| key.a == ANY && key.b == ANY)
    );
}

#[test]
fn what_the_kernel_lacks_is_unsupported_and_named() {
    let profile = profile(vec![rule("userns", Verdict::Deny, Object::UserNamespace)]);
    let with = compiled(&profile);
    assert_eq!(with.descriptor.user_namespace, VERDICT_DENY);
    assert!(with.unsupported.is_empty());
    assert_eq!(with.hooks, HookGroups::NAMESPACE);
    let kernel = Kernel { userns_create: false };
    let without = compile_after(&profile, KEY, &TargetKeys::default(), kernel)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(without.descriptor.user_namespace, 0);
    assert_eq!(without.hooks, HookGroups::default());
    assert_eq!(without.unsupported.len(), 1);
    assert!(without.unsupported[0].reason.contains("userns_create"));
}
