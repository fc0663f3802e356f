//! Allow-lists: what no rule allows is refused, kind by kind.

use super::{KEY, compiled, path_rule, profile, rule};
use crate::abi::{
    PERM_ALL, PERM_APPEND, PERM_EXEC, PERM_READ, PERM_STRUCT, PERM_WRITE, PTRACE_READ, PTRACE_TRACE,
    VERDICT_ALLOW, VERDICT_AUDIT, VERDICT_DENY,
};
use crate::compile::bpf::HookGroups;
use crate::matcher::{MountCall, MountSource, PathView, Walk};
use crate::profile::{
    Access, CapabilitySet, DEFAULT_RULE, Defaults, Kinds, MountRule, Object, Origin, Profile, PtraceAccess,
    PtraceRule, PtraceScope, Rule, Verdict,
};

fn allow_list(rules: Vec<Rule>) -> Profile {
    Profile {
        default: Defaults {
            denied: Kinds::ALL,
            audited: Kinds::NONE,
            origin: Origin {
                policy: "VarmorPolicy demo/web".to_owned(),
                field: "spec.policy.defenseInDepth.bpf".to_owned(),
            },
        },
        ..profile(rules)
    }
}

#[track_caller]
fn files(profile: &Profile, path: &str, requested: u32) -> u32 {
    let artefact = compiled(profile);
    let view = PathView::from_path(path.as_bytes());
    Walk::new(&artefact, KEY).files(&view, requested).denied
}

#[test]
fn an_empty_allow_list_refuses_everything_and_names_itself() {
    let profile = allow_list(Vec::new());
    let artefact = compiled(&profile);
    let walk = Walk::new(&artefact, KEY);
    for path in ["/", "/bin/sh", "/proc/self/maps"] {
        let verdict = walk.files(&PathView::from_path(path.as_bytes()), PERM_ALL | PERM_STRUCT);
        assert_eq!(
            (verdict.denied, verdict.site),
            (PERM_ALL | PERM_STRUCT, 0),
            "{path}"
        );
    }
    for number in [0, 21, 40, 63] {
        assert_eq!(walk.capability(number).verdict, VERDICT_DENY, "{number}");
    }
    for outside in [false, true] {
        assert_eq!(walk.ptrace(PTRACE_READ, outside).verdict, VERDICT_DENY);
    }
    let call = MountCall {
        source: MountSource::Text(b"none"),
        fstype: Some(b"tmpfs"),
        flags: 0,
    };
    assert_eq!(walk.mount(&call).verdict, VERDICT_DENY);
    for group in [
        HookGroups::FILE,
        HookGroups::EXEC,
        HookGroups::CAPABILITY,
        HookGroups::SOCKET,
        HookGroups::EGRESS,
        HookGroups::MOUNT,
        HookGroups::PTRACE,
    ] {
        assert!(artefact.hooks.contains(group), "{group:?}");
    }
    assert_eq!(
        artefact.decided_by(&profile, 0, 0, PERM_READ),
        Some((DEFAULT_RULE, &profile.default.origin))
    );
}

#[test]
fn reading_and_executing_are_allowed_apart() {
    let profile = allow_list(vec![
        path_rule(Verdict::Allow, "/usr/bin/app", Access::EXEC),
        path_rule(Verdict::Allow, "/usr/lib/**", Access::READ.with(Access::EXEC)),
        path_rule(Verdict::Allow, "/var/log/app.log", Access::APPEND),
    ]);
    assert_eq!(files(&profile, "/usr/bin/app", PERM_READ | PERM_EXEC), PERM_READ);
    assert_eq!(files(&profile, "/usr/lib/x/libc.so", PERM_READ | PERM_EXEC), 0);
    assert_eq!(files(&profile, "/usr/lib/x/libc.so", PERM_WRITE), PERM_WRITE);
    assert_eq!(
        files(&profile, "/var/log/app.log", PERM_APPEND | PERM_WRITE),
        PERM_WRITE
    );
    assert_eq!(files(&profile, "/usr/bin/sh", PERM_EXEC), PERM_EXEC);
}

#[test]
fn a_denying_rule_wins_over_every_allowing_one() {
    let profile = allow_list(vec![
        path_rule(Verdict::Deny, "/etc/shadow", Access::READ),
        path_rule(Verdict::Allow, "/**", Access::READ),
        path_rule(Verdict::Allow, "/etc/shadow", Access::READ),
    ]);
    assert_eq!(files(&profile, "/etc/shadow", PERM_READ), PERM_READ);
    assert_eq!(files(&profile, "/etc/passwd", PERM_READ), 0);
}

#[test]
fn folders_are_moved_only_by_who_may_write_all_of_them() {
    for (pattern, path, moves) in [
        ("/srv/**", "/srv/a", true),
        ("/srv/**", "/srv", false),
        ("/srv{,/**}", "/srv", true),
        ("/srv**", "/srv", true),
        ("/srv/*", "/srv/a", false),
        ("/srv/a", "/srv/a", false),
        ("/**/cache", "/srv/cache", false),
        ("/**", "/srv", true),
    ] {
        let profile = allow_list(vec![path_rule(Verdict::Allow, pattern, Access::WRITE)]);
        let denied = files(&profile, path, PERM_STRUCT);
        assert_eq!(denied == 0, moves, "{pattern} on {path}");
        let reads = allow_list(vec![path_rule(Verdict::Allow, pattern, Access::READ)]);
        assert_eq!(
            files(&reads, path, PERM_STRUCT),
            PERM_STRUCT,
            "{pattern} on {path}"
        );
    }
}

#[test]
fn what_is_allowed_everywhere_needs_no_walk() {
    let profile = allow_list(vec![path_rule(
        Verdict::Allow,
        "**",
        Access::READ_WRITE.with(Access::EXEC),
    )]);
    let artefact = compiled(&profile);
    assert_eq!(artefact.descriptor.file_default, 0);
    assert!(!artefact.hooks.contains(HookGroups::FILE));
    assert!(!artefact.hooks.contains(HookGroups::EXEC));
    assert!(artefact.hooks.contains(HookGroups::CAPABILITY));
}

#[test]
fn capabilities_that_are_not_allowed_are_denied_by_the_default() {
    const CHOWN: u32 = 0;
    const KILL: u32 = 5;
    const SYS_ADMIN: u32 = 21;
    let set = |numbers: &[u32]| {
        Object::Capability(CapabilitySet(
            numbers.iter().fold(0, |all, number| all | 1 << number),
        ))
    };
    let profile = allow_list(vec![
        rule("some", Verdict::Allow, set(&[CHOWN, KILL])),
        rule("logged", Verdict::Audit, set(&[KILL, SYS_ADMIN])),
        rule("never", Verdict::Deny, set(&[CHOWN])),
    ]);
    let artefact = compiled(&profile);
    let walk = Walk::new(&artefact, KEY);
    let decided = |number| {
        let point = walk.capability(number);
        let by = artefact.decided_by(&profile, 0, point.site, u32::MAX);
        (point.verdict, by.map(|(id, _)| id))
    };
    assert_eq!(decided(CHOWN), (VERDICT_DENY, Some("never")));
    assert_eq!(decided(KILL), (VERDICT_AUDIT, Some("logged")));
    assert_eq!(
        decided(SYS_ADMIN),
        (VERDICT_DENY | VERDICT_AUDIT, Some(DEFAULT_RULE))
    );
    assert_eq!(decided(12), (VERDICT_DENY, Some(DEFAULT_RULE)));
}

#[test]
fn ptrace_within_the_container_is_allowed_apart_from_ptrace_of_others() {
    let allow = |access, scope| {
        rule(
            "peers",
            Verdict::Allow,
            Object::Ptrace(PtraceRule {
                access: PtraceAccess(access),
                scope,
            }),
        )
    };
    let profile = allow_list(vec![
        allow(PTRACE_TRACE | PTRACE_READ, PtraceScope::Inside),
        allow(PTRACE_READ, PtraceScope::All),
    ]);
    let artefact = compiled(&profile);
    let walk = Walk::new(&artefact, KEY);
    for (access, outside, denied) in [
        (PTRACE_TRACE, false, false),
        (PTRACE_TRACE, true, true),
        (PTRACE_READ, false, false),
        (PTRACE_READ, true, false),
    ] {
        let verdict = walk.ptrace(access, outside).verdict;
        assert_eq!(verdict == VERDICT_DENY, denied, "{access} {outside}");
    }
}

#[test]
fn a_mount_needs_an_allowing_class_that_certainly_names_its_source() {
    let mount = |source: &str, fstype: &str, verdict| {
        rule(
            source,
            verdict,
            Object::Mount(MountRule {
                source: source.to_owned(),
                fstype: Some(fstype.to_owned()),
                any: 0,
                none: 0x200,
            }),
        )
    };
    let profile = allow_list(vec![
        mount("**", "tmpfs", Verdict::Allow),
        mount("/dev/data", "ext4", Verdict::Allow),
        mount("/dev/bad", "tmpfs", Verdict::Deny),
    ]);
    let artefact = compiled(&profile);
    let walk = Walk::new(&artefact, KEY);
    let judge = |source, fstype: &'static [u8]| {
        let call = MountCall {
            source,
            fstype: Some(fstype),
            flags: 0,
        };
        walk.mount(&call).verdict
    };
    assert_eq!(judge(MountSource::Text(b"none"), b"tmpfs"), VERDICT_ALLOW);
    assert_eq!(judge(MountSource::Text(b"/dev/data"), b"ext4"), VERDICT_ALLOW);
    assert_eq!(judge(MountSource::Text(b"/dev/other"), b"ext4"), VERDICT_DENY);
    assert_eq!(judge(MountSource::Text(b"none"), b"proc"), VERDICT_DENY);
    assert_eq!(
        judge(MountSource::Text(b"/dev/bad"), b"tmpfs") & VERDICT_DENY,
        VERDICT_DENY
    );
    assert_eq!(
        judge(MountSource::Unknown, b"ext4"),
        VERDICT_DENY,
        "a source that nobody knows is not the allowed one"
    );
    assert_eq!(
        judge(MountSource::Unknown, b"tmpfs") & VERDICT_DENY,
        VERDICT_DENY,
        "it may be the denied one"
    );
}

#[test]
fn a_default_that_logs_refuses_nothing() {
    let mut profile = allow_list(vec![path_rule(Verdict::Allow, "/srv/**", Access::READ)]);
    profile.default.audited = profile.default.denied;
    profile.default.denied = Kinds::NONE;
    let artefact = compiled(&profile);
    let walk = Walk::new(&artefact, KEY);
    let judge = |path: &str| {
        let verdict = walk.files(&PathView::from_path(path.as_bytes()), PERM_READ);
        (verdict.denied, verdict.audited)
    };
    assert_eq!(judge("/srv/a"), (0, 0));
    assert_eq!(judge("/etc/passwd"), (0, PERM_READ));
    assert_eq!(walk.capability(21).verdict, VERDICT_AUDIT);
    assert_eq!(walk.ptrace(PTRACE_READ, true).verdict, VERDICT_AUDIT);
}
