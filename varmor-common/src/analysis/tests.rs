//! Decisions and differences of whole policies.

use super::*;
use crate::compile::seccomp::{self, Inputs};
use crate::matcher::reference::{self, Name};
use crate::policy::{Document, load};
use crate::profile::{NodeFacts, build};

fn document(policy: &str) -> Document {
    let text = format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: x}}\nspec:\n  target: \
         {{kind: Pod, name: x}}\n  policy: {{enforcer: BPFSeccomp, {policy}}}\n"
    );
    let loaded = load("test.yaml", text.as_bytes());
    loaded
        .documents
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics))
}

fn judge(policy: &str) -> Judge {
    let document = document(policy);
    let built = build(&document, &NodeFacts::default());
    let profile = built.profile.unwrap_or_else(|| panic!("{:?}", built.diagnostics));
    Judge::new(profile, vec![seccomp::compile(&document, Inputs::default())]).expect("compiles")
}

fn enhanced(rules: &str) -> Judge {
    judge(&format!(
        "mode: EnhanceProtect, enhanceProtect: {{privileged: true, {rules}}}"
    ))
}

fn files(rules: &[(&str, &str, &str)]) -> Judge {
    let rules: Vec<String> = rules
        .iter()
        .map(|(qualifier, pattern, permissions)| {
            format!("{{qualifiers: [{qualifier}], pattern: '{pattern}', permissions: [{permissions}]}}")
        })
        .collect();
    enhanced(&format!("bpfRawRules: {{files: [{}]}}", rules.join(", ")))
}

#[test]
fn operations_are_read_and_written() {
    for (text, written) in [
        ("open r /etc/shadow", "open r /etc/shadow"),
        ("open rw /tmp/x y", "open rw /tmp/x y"),
        ("exec /bin/sh", "exec /bin/sh"),
        ("unlink /etc/x", "open w /etc/x"),
        ("rename /etc/x", "rename /etc/x"),
        ("rename /etc/d/", "rename /etc/d/"),
        ("link /a b -> /c", "rename /a b -> /c"),
        ("rmdir /etc/d", "rmdir /etc/d"),
        ("connect 169.254.169.254:80", "connect 169.254.169.254:80"),
        ("bind [::]:8080", "bind [::]:8080"),
        ("socket inet stream tcp", "socket 2 1 6"),
        ("socket AF_ALG SOCK_SEQPACKET", "socket 38 5 0"),
        ("capable CAP_NET_RAW", "capable net_raw"),
        ("ptrace read", "ptrace read outside"),
        ("mount proc type=proc", "mount proc type=proc"),
        ("umount /proc", "umount /proc"),
        ("userns", "userns"),
        ("syscall unshare 0x10000000", "syscall unshare 0x10000000"),
    ] {
        let operation: Operation = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(operation.to_string(), written);
    }
    for (text, expected) in [
        ("opne r /x", "`open`"),
        ("open q /x", "permissions"),
        ("open r x", "absolute"),
        ("rename /x -> y", "absolute"),
        ("rename /x/ -> /y", "folder"),
        ("connect here", "port"),
        ("capable fly", "capability"),
        ("socket inet", "type"),
        ("syscall unshar", "`unshare`"),
        ("syscall read 1 2 3 4 5 6 7", "six"),
        ("ptrace look", "trace"),
        ("mount", "source"),
        ("", "operation"),
    ] {
        let error = text.parse::<Operation>().expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn the_deciding_rule_and_the_others_are_named() {
    let judge = enhanced(
        "attackProtectionRules: [{rules: [disable-access-shadow, disable-write-etc]}], bpfRawRules: {files: \
         [{qualifiers: [audit], pattern: '/etc/**', permissions: [read]}]}",
    );
    let decision = judge.explain(&"open r /etc/shadow".parse().expect("valid"), 0);
    assert_eq!(decision.outcome, Outcome::Denied);
    assert_eq!(decision.decided_by.expect("a rule").rule, "disable-access-shadow");
    let others: Vec<&str> = decision.others.iter().map(|other| other.rule.as_str()).collect();
    assert_eq!(others, ["bpfRawRules.files[0]"]);
    assert!(
        decision.change.contains("without `disable-access-shadow`"),
        "{}",
        decision.change
    );
    let decision = judge.explain(&"open w /etc/shadow".parse().expect("valid"), 0);
    assert_eq!(decision.outcome, Outcome::Denied);
    assert_eq!(decision.others.len(), 1);
    assert!(
        decision.change.contains(" and "),
        "both rules deny: {}",
        decision.change
    );
    let decision = judge.explain(&"open r /etc/passwd".parse().expect("valid"), 0);
    assert_eq!(decision.outcome, Outcome::Audited);
    let decision = judge.explain(&"open r /usr/lib/x".parse().expect("valid"), 0);
    assert_eq!((decision.outcome, decision.decided_by), (Outcome::Allowed, None));
}

#[test]
fn every_kind_of_operation_is_decided() {
    let judge = enhanced(
        "hardeningRules: [disable-cap-net-raw, disallow-mount-procfs, disallow-umount, disallow-create-user-ns, \
         disallow-access-procfs-root], attackProtectionRules: [{rules: [disable-shell, disable-inet6, \
         block-access-to-aws-metadata-service, disable-chmod-x-bit]}], bpfRawRules: {network: {ingresses: \
         [{qualifiers: [deny], ip: 10.0.0.1, ports: [{port: 80}]}]}}",
    );
    for (operation, denied) in [
        ("exec /usr/bin/bash", true),
        ("exec /usr/bin/python3", false),
        ("capable net_raw", true),
        ("capable net_admin", false),
        ("socket inet6 stream", true),
        ("socket inet stream", false),
        ("connect 169.254.169.254:80", true),
        ("connect [::ffff:169.254.169.254]:80", true),
        ("connect 8.8.8.8:53", false),
        ("bind 10.0.0.1:80", true),
        ("bind 10.0.0.1:81", false),
        ("mount proc type=proc", true),
        ("mount tmpfs type=tmpfs", false),
        ("umount /mnt", true),
        ("ptrace read", true),
        ("ptrace read inside", false),
        ("userns", true),
        ("syscall unshare 0x10000000", true),
        ("syscall unshare 0x20000", false),
        ("syscall fchmodat 3 0 0755", true),
        ("syscall fchmodat 3 0 420", false),
    ] {
        let operation: Operation = operation.replace(" 0755", " 493").parse().expect(operation);
        let decision = judge.explain(&operation, 0);
        assert_eq!(decision.outcome == Outcome::Denied, denied, "{decision:?}");
        assert_eq!(decision.decided_by.is_some(), denied, "{decision:?}");
        assert_eq!(judge.outcome(&operation, 0), decision.outcome);
    }
}

#[test]
fn another_name_needs_every_right_of_the_old_one() {
    let judge = files(&[
        ("deny", "/secret/*", "read"),
        ("deny", "/drop/*", "write"),
        ("deny", "/keys/d/**", "read"),
    ]);
    for (operation, denied) in [
        ("rename /secret/x -> /tmp/x", true),
        ("link /secret/x -> /tmp/x", true),
        ("rename /secret/x", true),
        ("unlink /secret/x", false),
        ("rename /tmp/x -> /secret/x", false),
        ("rename /tmp/x -> /drop/x", true),
        ("rename /tmp/x -> /tmp/y", false),
        // A protected path passes through the folder.
        ("rename /keys/", true),
        ("rmdir /keys", true),
        ("mkdir /keys", false),
        ("rename /other/", false),
    ] {
        let outcome = judge.outcome(&operation.parse().expect(operation), 0);
        assert_eq!(outcome == Outcome::Denied, denied, "{operation}");
    }
}

#[test]
fn a_new_name_in_an_allow_list_gives_no_more_than_the_old_one() {
    let judge = judge(
        "mode: DefenseInDepth, defenseInDepth: {bpf: {profileType: Custom, customProfile: {processes: [{pattern: '/bin/*', \
         permissions: [exec]}], files: [{pattern: '/data/**', permissions: [read, write]}, {pattern: '/in/**', permissions: \
         [write]}, {pattern: '/bin/*', permissions: [write]}]}}, \
         seccomp: {profileType: Custom, customProfile: '{\"defaultAction\": \"SCMP_ACT_ALLOW\"}'}}",
    );
    for (operation, denied) in [
        ("rename /data/x -> /data/y", false),
        // It could be read then, and executed.
        ("rename /in/x -> /data/x", true),
        ("rename /data/x -> /bin/x", true),
        ("rename /data/x -> /in/x", false),
        ("rename /data/x -> /tmp/x", true),
    ] {
        let outcome = judge.outcome(&operation.parse().expect(operation), 0);
        assert_eq!(outcome == Outcome::Denied, denied, "{operation}");
    }
}

#[test]
fn a_mount_is_asked_about_as_the_kernel_is() {
    let judge = enhanced(
        "bpfRawRules: {mounts: [{qualifiers: [deny], sourcePattern: '/data/**', fstype: none, flags: [bind, remount]}, \
         {qualifiers: [deny], sourcePattern: '/data/**', fstype: tmpfs, flags: [all]}]}",
    );
    for (operation, denied) in [
        ("mount /data/x flags=bind", true),
        ("mount /srv/x flags=bind", false),
        // Where it leads to is not in the string.
        ("mount data/x flags=bind", true),
        // A remount has no source.
        ("mount none flags=remount,ro", true),
        ("mount none flags=private", false),
        // The type of a call that makes no filesystem counts for nothing.
        ("mount /srv/x type=tmpfs flags=bind", false),
    ] {
        let outcome = judge.outcome(&operation.parse().expect(operation), 0);
        assert_eq!(outcome == Outcome::Denied, denied, "{operation}");
    }
}

#[test]
fn rules_for_an_executable_hold_for_it_alone() {
    let judge =
        enhanced("attackProtectionRules: [{rules: [disable-access-shadow], targets: [/usr/bin/python3]}]");
    let operation: Operation = "open r /etc/shadow".parse().expect("valid");
    assert_eq!(judge.outcome(&operation, 0), Outcome::Allowed);
    let domain = judge.domain(Some("/usr/bin/python3"));
    assert_eq!(judge.outcome(&operation, domain), Outcome::Denied);
    assert_eq!(
        judge.explain(&operation, domain).decided_by.expect("a rule").rule,
        "disable-access-shadow"
    );
}

#[test]
fn what_an_allow_list_does_not_name_is_denied_by_its_default() {
    let judge = judge(
        "mode: DefenseInDepth, defenseInDepth: {bpf: {profileType: Custom, customProfile: {files: [{qualifiers: [], \
         pattern: '/usr/**', permissions: [read]}]}}, seccomp: {profileType: Custom, customProfile: \
         '{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\"}]}'}}",
    );
    let denied = judge.explain(&"open r /etc/passwd".parse().expect("valid"), 0);
    assert_eq!(denied.outcome, Outcome::Denied);
    assert!(denied.change.contains("a rule that allows"), "{}", denied.change);
    let allowed = judge.explain(&"open r /usr/lib/x".parse().expect("valid"), 0);
    assert_eq!(allowed.outcome, Outcome::Allowed);
    assert_eq!(allowed.decided_by.expect("a rule").wants, "allow");
    let call = judge.explain(&"syscall ptrace".parse().expect("valid"), 0);
    assert_eq!(
        (call.outcome, call.decided_by.expect("default").rule.as_str()),
        (Outcome::Denied, "default-deny")
    );
    assert_eq!(
        judge.outcome(&"syscall read".parse().expect("valid"), 0),
        Outcome::Allowed
    );
}

/// The verdict of the naive reference.
fn denied(judge: &Judge, path: &str, access: u32) -> bool {
    let name = Name {
        path: path.as_bytes().to_vec(),
        spelled: 0,
    };
    reference::files(judge.profile(), &[name], access).0 != 0
}

/// Pairs of policies, and for each permission whether something becomes allowed and denied.
#[test]
fn differences_have_witnesses_that_the_reference_confirms() {
    const SAMPLES: &[&str] = &[
        "/etc/**",
        "/etc/passwd",
        "/etc/*.conf",
        "/**/a*",
        "/**/*b",
        "/usr/{bin,sbin}/*",
        "/tmp/?",
        "/**/.ssh/**",
        "**",
        "/var/[a-c]*/x",
        "/etc",
        "/a/**/b",
    ];
    let mut compared = 0;
    for one in SAMPLES {
        for two in SAMPLES {
            let (old, new) = (files(&[("deny", one, "read")]), files(&[("deny", two, "read")]));
            let comparison = compare(&old, &new);
            assert_eq!(comparison.unfinished, [""; 0]);
            for change in &comparison.changes {
                let path = change
                    .witness
                    .strip_prefix("open r ")
                    .unwrap_or_else(|| panic!("{change:?}"));
                let (before, after) = (denied(&old, path, 4), denied(&new, path, 4));
                assert_ne!(before, after, "{one} {two} {path}");
                assert_eq!(
                    before,
                    change.direction == Direction::NewlyAllowed,
                    "{one} {two} {path}"
                );
                compared += 1;
            }
            if one == two {
                assert_eq!(comparison.changes, []);
            } else {
                assert!(!comparison.changes.is_empty(), "{one} {two}");
            }
            // Nothing is missed that a list of paths shows.
            for path in [
                "/",
                "/etc",
                "/etc/passwd",
                "/etc/x.conf",
                "/etc/d/x",
                "/ab",
                "/x/ab",
                "/usr/bin/id",
                "/tmp/q",
                "/root/.ssh/id",
                "/var/bz/x",
                "/a/b",
                "/a/x/b",
                "/zzz",
            ] {
                let (before, after) = (denied(&old, path, 4), denied(&new, path, 4));
                let direction = if before {
                    Direction::NewlyAllowed
                } else {
                    Direction::NewlyDenied
                };
                if before != after {
                    let known = comparison
                        .changes
                        .iter()
                        .any(|change| change.direction == direction);
                    assert!(known, "{one} {two}: {path} is missed");
                }
            }
        }
    }
    assert!(compared > 150, "{compared}");
}

#[test]
fn differences_of_every_kind_are_found() {
    let old =
        enhanced("hardeningRules: [disable-cap-net-raw], attackProtectionRules: [{rules: [disable-inet6]}]");
    let new = enhanced(
        "hardeningRules: [disallow-umount], attackProtectionRules: [{rules: [block-access-to-aws-metadata-service, \
         disable-chmod-s-bit, disable-curl]}]",
    );
    let comparison = compare(&old, &new);
    let shown: Vec<String> = comparison
        .changes
        .iter()
        .map(|change| format!("{:?} {}", change.direction, change.witness))
        .collect();
    for expected in [
        "NewlyDenied exec /curl",
        "NewlyDenied connect 169.254.169.254:0",
        "NewlyAllowed socket 10 1 0",
        "NewlyAllowed capable net_raw",
        "NewlyDenied umount /mnt",
        "NewlyDenied syscall openat2",
        "NewlyDenied syscall chmod 0x0 0x400",
    ] {
        assert!(
            shown.iter().any(|one| one == expected),
            "{expected} is missing in {shown:#?}"
        );
    }
    assert_eq!(compare(&old, &old), Comparison::default());
}

fn warnings(policy: &str) -> Vec<String> {
    let document = document(policy);
    let built = build(&document, &NodeFacts::default());
    let found = lint::lint(&document, built.profile.as_ref());
    assert!(
        found.iter().all(|one| one.line > 1 && one.help.is_some()),
        "{found:?}"
    );
    found.into_iter().map(|one| one.message).collect()
}

#[test]
fn odd_rules_are_said() {
    let raw = |rules: &str| {
        warnings(&format!(
            "mode: EnhanceProtect, enhanceProtect: {{bpfRawRules: {{files: [{rules}]}}}}"
        ))
    };
    let rule = |qualifier: &str, pattern: &str, permissions: &str| {
        format!("{{qualifiers: [{qualifier}], pattern: '{pattern}', permissions: [{permissions}]}}")
    };
    let two = |one: String, two: String| raw(&format!("{one}, {two}"));
    for (found, expected) in [
        (
            two(rule("deny", "/etc/x", "read"), rule("deny", "/etc/x", "r")),
            "says the same",
        ),
        (
            two(rule("deny", "/etc/**", "all"), rule("deny", "/etc/x", "read")),
            "covered by",
        ),
        (
            two(
                rule("deny", "/etc/**", "all"),
                rule("audit", "/etc/a/*.d/**", "read"),
            ),
            "logs what",
        ),
        (
            two(
                rule("deny", "/**/*.key", "read"),
                rule("deny", "/a/b.key", "read"),
            ),
            "covered by",
        ),
        (raw(&rule("deny", "/**", "write")), "writing anything"),
    ] {
        assert_eq!(found.len(), 1, "{expected}: {found:?}");
        assert!(found[0].contains(expected), "{expected}: {found:?}");
    }
    for clean in [
        two(rule("deny", "/etc/**", "read"), rule("deny", "/etc/x", "write")),
        two(rule("deny", "/etc/*", "read"), rule("deny", "/etc/a/b", "read")),
        two(rule("audit", "/etc/**", "read"), rule("deny", "/etc/x", "read")),
        two(
            rule("deny", "/etcetera/**", "read"),
            rule("deny", "/etc/x", "read"),
        ),
        two(rule("deny", "/etc/**", "read"), rule("deny", "/etc", "read")),
    ] {
        assert_eq!(clean, [""; 0]);
    }
    let ids = "mode: EnhanceProtect, enhanceProtect: {hardeningRules: [disallow-umount, DISALLOW_UMOUNT]}";
    assert!(warnings(ids)[0].contains("named twice"));
    let allow = "mode: DefenseInDepth, defenseInDepth: {seccomp: {profileType: Custom, customProfile: \
                 '{\"defaultAction\": \"SCMP_ACT_ERRNO\"}'}, bpf: {profileType: Custom, customProfile: {files: [{qualifiers: [deny], pattern: '/etc/**', permissions: \
                 [all]}, {qualifiers: [], pattern: '/etc/x', permissions: [read]}]}}}";
    assert!(warnings(allow)[0].contains("can never speak"));
    let exec = "mode: EnhanceProtect, enhanceProtect: {bpfRawRules: {processes: [{qualifiers: [deny], pattern: '**', \
                permissions: [exec]}]}}";
    assert!(warnings(exec)[0].contains("cannot start"));
}
