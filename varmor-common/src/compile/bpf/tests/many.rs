//! Ten thousand rules of each kind: that they compile, how large their tables are, and that they say what they should.

use std::net::{IpAddr, Ipv4Addr};

use super::{KEY, compiled, path_rule, profile, rule};
use crate::abi::{PERM_EXEC, PERM_READ, PTRACE_READ, VERDICT_DENY};
use crate::compile::bpf::Artefact;
use crate::matcher::{MountCall, MountSource, PathView, Walk};
use crate::profile::{
    Access, CapabilitySet, EgressRule, MountRule, Object, Profile, PtraceAccess, PtraceRule, PtraceScope,
    SocketRule, Verdict,
};

const MANY: u32 = 10_000;

fn many(object: impl Fn(u32) -> Object) -> Profile {
    profile(
        (0..MANY)
            .map(|number| rule(&number.to_string(), Verdict::Deny, object(number)))
            .collect(),
    )
}

/// Bytes of the tables of one artefact.
fn bytes(artefact: &Artefact) -> usize {
    size_of_val(&artefact.descriptor)
        + size_of_val(&artefact.states[..])
        + size_of_val(&artefact.transitions[..])
        + size_of_val(&artefact.component_globs[..])
        + size_of_val(&artefact.mount_sources[..])
        + size_of_val(&artefact.points[..])
}

#[track_caller]
fn check(profile: &Profile, largest: usize, denied: impl Fn(&Walk<'_>, u32) -> bool) {
    let artefact = compiled(profile);
    let size = bytes(&artefact);
    assert!(size <= largest, "{size} bytes");
    let walk = Walk::new(&artefact, KEY);
    for number in [0, 1, 4_999, MANY - 1] {
        assert!(denied(&walk, number), "rule {number}");
    }
    assert!(!denied(&walk, MANY), "there is no such rule");
}

fn mount(source: String, fstype: &str) -> Object {
    Object::Mount(MountRule {
        source,
        fstype: Some(fstype.to_owned()),
        any: 0,
        none: 0x200,
    })
}

fn mounted(walk: &Walk<'_>, source: &str) -> bool {
    let judge = |source| {
        let call = MountCall {
            source,
            fstype: Some(b"ext4"),
            flags: 0,
        };
        walk.mount(&call).verdict == VERDICT_DENY
    };
    let said = judge(MountSource::Text(source.as_bytes()));
    let resolved = judge(MountSource::Path(&PathView::from_path(source.as_bytes())));
    assert_eq!(said, resolved, "{source}");
    said
}

#[test]
fn ten_thousand_executables() {
    let pattern = |number| format!("/opt/app{}/bin/tool{number}", number % 100);
    let rules = (0..MANY).map(|number| path_rule(Verdict::Deny, &pattern(number), Access::EXEC));
    check(&profile(rules.collect()), 3 << 20, |walk, number| {
        let view = PathView::from_path(pattern(number).as_bytes());
        walk.files(&view, PERM_EXEC).denied != 0
    });
}

#[test]
fn ten_thousand_allowed_files() {
    let pattern = |number| format!("/srv/data/file{number}");
    let rules = (0..MANY).map(|number| path_rule(Verdict::Allow, &pattern(number), Access::READ));
    let mut profile = profile(rules.collect());
    profile.default.denied = crate::profile::Kinds::FILES;
    check(&profile, 2 << 20, |walk, number| {
        let view = PathView::from_path(pattern(number).as_bytes());
        walk.files(&view, PERM_READ).denied == 0
    });
}

#[test]
fn ten_thousand_mount_sources() {
    let source = |number| format!("/dev/mapper/volume-{number}");
    let profile = many(|number| mount(source(number), "ext4"));
    check(&profile, 40 << 20, |walk, number| mounted(walk, &source(number)));
}

#[test]
fn ten_thousand_mount_sources_with_globs() {
    let source = |number| format!("/data/tenant{number}/disk");
    let profile = many(|number| mount(format!("/data/tenant{number}/**"), "ext4"));
    check(&profile, 48 << 20, |walk, number| mounted(walk, &source(number)));
}

#[test]
fn ten_thousand_rules_without_tables_of_their_own() {
    let capabilities = many(|number| Object::Capability(CapabilitySet(1 << (number % 41))));
    check(&capabilities, 1 << 20, |walk, number| {
        number < MANY && walk.capability(number % 41).verdict == VERDICT_DENY
    });
    let ptrace = many(|_| {
        Object::Ptrace(PtraceRule {
            access: PtraceAccess(PTRACE_READ),
            scope: PtraceScope::Outside,
        })
    });
    check(&ptrace, 1 << 20, |walk, number| {
        number < MANY && walk.ptrace(PTRACE_READ, true).verdict == VERDICT_DENY
    });
    let sockets = many(|number| {
        Object::Socket(SocketRule {
            domains: vec![number % 46],
            types: vec![1 + number % 5],
            protocols: Vec::new(),
        })
    });
    check(&sockets, 1 << 20, |walk, number| {
        number < MANY && walk.socket(number % 46, 1 + number % 5, 6).verdict == VERDICT_DENY
    });
}

#[test]
fn ten_thousand_destinations() {
    let address = |number: u32| Ipv4Addr::from_bits(0x0a00_0000 + number * 7);
    let profile = many(|number| {
        Object::Egress(EgressRule {
            network: Some(IpAddr::V4(address(number)).into()),
            ports: Vec::new(),
        })
    });
    check(&profile, 8 << 20, |walk, number| {
        walk.egress(IpAddr::V4(address(number)), 443).verdict == VERDICT_DENY
    });
}
