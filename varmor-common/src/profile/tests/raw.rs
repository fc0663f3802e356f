//! Raw rules in profiles.

use super::{enhance, objects, profile, said};

/// The objects of one raw rule, and what is said about it.
fn raw(rule: &str) -> (Vec<String>, Vec<String>) {
    let policy = enhance(&format!("bpfRawRules: {{{rule}}}"));
    (objects(&profile(&policy)), said(&policy))
}

#[test]
fn raw_rules_mean_what_they_say() {
    for (rule, expected) in [
        (
            "files: [{qualifiers: [deny], pattern: /a, permissions: [all]}]",
            &["rwa /a"][..],
        ),
        (
            "files: [{qualifiers: [deny], pattern: /a, permissions: [read, exec]}]",
            &["rx /a"],
        ),
        (
            "files: [{qualifiers: [deny], pattern: /a, permissions: [append]}]",
            &["a /a"],
        ),
        (
            "processes: [{qualifiers: [deny], pattern: '/**/nc', permissions: ['*']}]",
            &["x /**/nc"],
        ),
        (
            "network: {sockets: [{qualifiers: [deny], domains: [all]}]}",
            &["socket [] [] []"],
        ),
        (
            "network: {sockets: [{qualifiers: [deny], domains: [inet6, unix], types: [raw]}]}",
            &["socket [1, 10] [3] []"],
        ),
        (
            "network: {sockets: [{qualifiers: [deny], protocols: [udp]}]}",
            &["socket [2, 10] [] [17, 136]"],
        ),
        (
            "network: {sockets: [{qualifiers: [deny], protocols: [all]}]}",
            &["socket [] [] []"],
        ),
        (
            "network: {egress: {toDestinations: [{qualifiers: [deny], ip: 10.0.0.1}]}}",
            &["egress 10.0.0.1/32"],
        ),
        (
            "network: {egress: {toDestinations: [{qualifiers: [deny], ip: '::ffff:10.0.0.1'}]}}",
            &["egress 10.0.0.1/32"],
        ),
        (
            "network: {egress: {toDestinations: [{qualifiers: [deny], cidr: '::ffff:10.0.0.0/104'}]}}",
            &["egress 10.0.0.0/8"],
        ),
        (
            "network: {egress: {toDestinations: [{qualifiers: [deny], cidr: 10.0.0.0/8, ports: [{port: 80}, {port: 8000, endPort: 8080}]}]}}",
            &["egress 10.0.0.0/8 80-80,8000-8080"],
        ),
        (
            "network: {egress: {toDestinations: [{qualifiers: [deny], ports: [{port: 25}]}]}}",
            &["egress * 25-25"],
        ),
        (
            "network: {egress: {toDestinations: [{qualifiers: [deny], ip: localhost}]}}",
            &["egress 127.0.0.1/32", "egress ::1/128"],
        ),
        (
            "network: {egress: {toDestinations: [{qualifiers: [deny], ip: unspecified}]}}",
            &["egress 0.0.0.0/32", "egress ::/128"],
        ),
        (
            "network: {ingresses: [{qualifiers: [deny], ip: unspecified, ports: [{port: 1, endPort: 1023}]}]}",
            &["ingress 0.0.0.0/32 1-1023", "ingress ::/128 1-1023"],
        ),
        (
            "network: {ingresses: [{qualifiers: [deny], cidr: 10.0.0.0/8}, {qualifiers: [audit], ports: [{port: 22}]}]}",
            &["ingress 10.0.0.0/8", "ingress * 22-22"],
        ),
        (
            "ptrace: {qualifiers: [deny], permissions: [all]}",
            &["ptrace 1e Outside"],
        ),
        (
            "ptrace: {qualifiers: [deny], strictMode: true, permissions: [trace]}",
            &["ptrace 2 All"],
        ),
        (
            "mounts: [{qualifiers: [deny], sourcePattern: '**', fstype: tmpfs, flags: [all]}]",
            &["mount ** tmpfs ffffffff ffffffff"],
        ),
        (
            "mounts: [{qualifiers: [deny], sourcePattern: /a, fstype: '*', flags: [ro, suid]}]",
            &["mount /a * 1 2"],
        ),
        (
            "mounts: [{qualifiers: [deny], sourcePattern: /a, fstype: none, flags: [R, umount, ro]}]",
            &["mount /a * 1200 0"],
        ),
    ] {
        assert_eq!(
            raw(rule),
            (expected.iter().map(|one| (*one).to_owned()).collect(), Vec::new()),
            "{rule}"
        );
    }
}

#[test]
fn mounts_are_judged_also_when_the_policy_is_not_privileged() {
    let rules =
        "bpfRawRules: {mounts: [{qualifiers: [deny], sourcePattern: '**', fstype: '*', flags: [umount]}]}";
    let profile = profile(&enhance(rules).replace("privileged: true", "privileged: false"));
    assert_eq!(
        objects(&profile).last().map(String::as_str),
        Some("mount ** * 200 0")
    );
}

#[test]
fn the_id_of_a_raw_rule_is_its_path() {
    let rules = "bpfRawRules: {files: [{qualifiers: [deny], pattern: /a, permissions: [r]}, {qualifiers: [deny], pattern: /b, permissions: [r]}]}";
    let profile = profile(&enhance(rules));
    assert_eq!(profile.rules[1].id, "bpfRawRules.files[1]");
    assert_eq!(
        profile.rules[1].origin.field,
        "spec.policy.enhanceProtect.bpfRawRules.files[1]"
    );
}

#[test]
fn what_only_a_cluster_knows_is_said() {
    for rule in [
        "network: {egress: {toServices: [{qualifiers: [deny], namespace: a, name: b}]}}",
        "network: {egress: {toPods: [{qualifiers: [deny], podSelector: {}}]}}",
    ] {
        let (objects, said) = raw(rule);
        assert!(objects.is_empty(), "{rule}");
        assert_eq!(said.len(), 1, "{rule}");
        assert!(
            said[0].contains("warning: ") && said[0].contains("it has no effect")
                || said[0].contains("the rule has no effect"),
            "{said:?}"
        );
    }
}
