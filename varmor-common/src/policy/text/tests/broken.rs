//! Every class of mistake: the place and the help are exact.

use super::{GOOD, check, said};

#[test]
fn mistakes_in_rules_about_local_addresses_are_named() {
    let with = |rule: &str| format!("        network:\n          ingresses: [{rule}]\n");
    for (rule, expected) in [
        ("{qualifiers: [deny], ports: [{port: 22}]}", ""),
        (
            "{qualifiers: [deny], ip: pod-self}",
            "`pod-self` is not an address\n  help: write an IPv4 or IPv6 address, or one of unspecified, localhost",
        ),
        ("{qualifiers: [deny]}", "the rule names no destination"),
        (
            "{qualifiers: [forbid], ip: localhost}",
            "`forbid` is not known in `qualifiers`",
        ),
        (
            "{qualifiers: [deny], ports: [{port: 9, endPort: 8}]}",
            "the range of ports ends at 8, before it starts at 9",
        ),
    ] {
        let said = said(GOOD.replace("        network:\n", &with(rule))).join("\n");
        assert_eq!(said.is_empty(), expected.is_empty(), "{rule}: {said}");
        assert!(said.contains(expected), "{rule}: {said}");
    }
}

#[test]
fn the_good_policy_is_good() {
    assert_eq!(said(GOOD), [""; 0]);
}

#[test]
fn an_unknown_rule_id_gets_the_nearest_one() {
    check(
        "[disable-write-etc]",
        "[disable-write-ect]",
        &[
            "web.yaml:18:17: error: there is no built-in rule `disable-write-ect`\n  help: did you mean `disable-write-etc`?",
        ],
    );
    check(
        "[disallow-umount]",
        "[frobnicate]",
        &[
            "web.yaml:16:24: error: there is no built-in rule `frobnicate`\n  help: the documentation lists the built-in rules",
        ],
    );
}

#[test]
fn a_rule_in_the_wrong_list_is_warned_about() {
    check(
        "[disallow-umount]",
        "[disallow-umount, disable-shell]",
        &[
            "web.yaml:16:41: warning: the rule `disable-shell` belongs into `attackProtectionRules`; it works here as well\n  \
           help: move it to `attackProtectionRules`, where other versions look for it",
        ],
    );
}

#[test]
fn an_unknown_field_gets_the_nearest_one() {
    check(
        "hardeningRules:",
        "hardenningRules:",
        &["web.yaml:16:7: error: unknown field `hardenningRules`\n  help: did you mean `hardeningRules`?"],
    );
    check(
        "  name: web\n",
        "  name: web\n  lables: {a: b}\n",
        &["web.yaml:5:3: error: unknown field `lables`\n  help: did you mean `labels`?"],
    );
}

#[test]
fn a_wrong_type_is_named_with_the_fix() {
    check(
        "[disallow-umount]",
        "disallow-umount",
        &[
            "web.yaml:16:23: error: `spec.policy.enhanceProtect.hardeningRules` must be a list, not a string\n  \
           help: write it as a list: one `- item` per line",
        ],
    );
    check(
        "- port: 80",
        "- port: '80'",
        &[
            "web.yaml:30:23: error: `spec.policy.enhanceProtect.bpfRawRules.network.egress.toDestinations[0].ports[0].port` \
           must be a number, not a string\n  help: remove the quotes",
        ],
    );
    check(
        "app: web",
        "app: 1",
        &[
            "web.yaml:11:14: error: `spec.target.selector.matchLabels.app` must be a string, not a number\n  \
           help: put quotes around the value",
        ],
    );
    check(
        "      hardeningRules",
        "      privileged: yes\n      hardeningRules",
        &[
            "web.yaml:16:19: error: `spec.policy.enhanceProtect.privileged` must be a boolean, not a string\n  \
           help: write true or false, without quotes",
        ],
    );
}

#[test]
fn an_unknown_value_gets_the_nearest_one() {
    check(
        "mode: EnhanceProtect",
        "mode: enhanceprotect",
        &[
            "web.yaml:14:11: error: `enhanceprotect` is not a value of `spec.policy.mode`\n  help: did you mean \
           `EnhanceProtect`? Known are AlwaysAllow, RuntimeDefault, EnhanceProtect, BehaviorModeling, DefenseInDepth",
        ],
    );
    check(
        "kind: Pod",
        "kind: Job",
        &[
            "web.yaml:8:11: error: `Job` is not a value of `spec.target.kind`\n  help: use one of \
           Deployment, StatefulSet, DaemonSet, Pod",
        ],
    );
    check(
        "enforcer: BPF",
        "enforcer: BFP",
        &["web.yaml:13:15: error: `BFP` names no enforcer\n  help: did you mean `BPF`?"],
    );
    check(
        "permissions: [read]",
        "permissions: [raed]",
        &["web.yaml:23:25: error: `raed` is not known in `permissions`\n  help: did you mean `read`?"],
    );
    check(
        "- qualifiers: [deny]\n          pattern",
        "- qualifiers: [refuse]\n          pattern",
        &["web.yaml:21:24: error: `refuse` is not known in `qualifiers`\n  help: use deny, audit"],
    );
}

#[test]
fn a_port_beyond_the_limits_is_refused() {
    for port in ["70000", "0", "-1", "18446744073709551615"] {
        let expected = format!(
            "web.yaml:30:23: error: `spec.policy.enhanceProtect.bpfRawRules.network.egress.toDestinations[0].ports[0].port` \
             is {port}; it must be between 1 and 65535\n  help: use a value from 1 to 65535"
        );
        check("port: 80", &format!("port: {port}"), &[&expected]);
    }
    check(
        "port: 80",
        "port: 80\n                endPort: 79",
        &[
            "web.yaml:31:26: error: the range of ports ends at 79, before it starts at 80\n  help: swap the numbers",
        ],
    );
}

#[test]
fn a_bad_pattern_names_the_character() {
    let said = super::said_with("pattern: /prot/**", "pattern: '/prot/[a'");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("web.yaml:22:20: error: bad pattern `/prot/[a`, at character 7: "),
        "{said:?}"
    );
    assert!(said[0].contains("\n  help: "), "{said:?}");
}

#[test]
fn a_pattern_of_a_mebibyte_is_refused() {
    let long = format!("pattern: /{}", "a".repeat(1 << 20));
    check(
        "pattern: /prot/**",
        &long,
        &[
            "web.yaml:22:20: error: `spec.policy.enhanceProtect.bpfRawRules.files[0].pattern` has 1048577 bytes; the limit is \
           4096\n  help: shorten it; the kernel knows no longer paths",
        ],
    );
}

#[test]
fn a_missing_field_is_named_with_its_meaning() {
    check(
        "    kind: Pod\n",
        "",
        &[
            "web.yaml:8:5: error: `spec.target` has no field `kind`\n  help: add `kind:` (Kind of the workload)",
        ],
    );
    check(
        "  name: web\n  namespace: demo",
        "  namespace: demo",
        &["web.yaml:4:3: error: `metadata` has no field `name`\n  help: add `name:`"],
    );
    check(
        "mode: EnhanceProtect",
        "mode: DefenseInDepth",
        &[
            "web.yaml:14:11: error: the mode DefenseInDepth needs the field `defenseInDepth`\n  help: add `defenseInDepth:` \
             below `spec.policy`",
        ],
    );
}

#[test]
fn a_field_given_twice_is_refused() {
    check(
        "    enforcer: BPF\n",
        "    enforcer: BPF\n    enforcer: Seccomp\n",
        &[
            "web.yaml:14:5: error: field `enforcer` is given twice; the other one is in line 13\n  help: remove one of them",
        ],
    );
}

#[test]
fn a_target_needs_exactly_one_of_name_and_selector() {
    check(
        "    kind: Pod\n",
        "    kind: Pod\n    name: web\n",
        &["web.yaml:10:5: error: `spec.target` has both `name` and `selector`\n  help: keep one of them"],
    );
    check(
        "    selector:\n      matchLabels:\n        app: web\n",
        "",
        &[
            "web.yaml:8:5: error: `spec.target` selects nothing: it has neither `name` nor `selector`\n  \
           help: add `name:` with the name of the workload, or `selector:` with its labels",
        ],
    );
}

#[test]
fn destinations_must_be_addresses() {
    check(
        "ip: 10.0.0.1",
        "ip: 10.0.0.0/8",
        &[
            "web.yaml:28:19: error: `10.0.0.0/8` is not an address\n  help: use `cidr:` for a block of addresses",
        ],
    );
    check(
        "ip: 10.0.0.1",
        "cidr: 10.0.0.1",
        &[
            "web.yaml:28:21: error: `10.0.0.1` is not a block of addresses\n  help: write `10.0.0.1/32`, or use `ip:`",
        ],
    );
    check(
        "ip: 10.0.0.1",
        "ip: 10.0.0.1\n              cidr: 10.0.0.0/8",
        &["web.yaml:29:15: error: the rule has both `ip` and `cidr`\n  help: keep one of them"],
    );
}

#[test]
fn raw_socket_ptrace_and_mount_rules_are_checked() {
    let with = |rule: &str| {
        said(GOOD.replace(
            "        network:\n",
            &format!("        network:\n          sockets:\n{rule}"),
        ))
    };
    assert_eq!(
        with("          - {qualifiers: [deny], domains: [inet7]}\n"),
        ["web.yaml:26:44: error: `inet7` is not known in `domains`\n  help: did you mean `inet`?"]
    );
    assert_eq!(
        with("          - {qualifiers: [deny], types: [raw], protocols: [udp]}\n"),
        ["web.yaml:26:48: error: the rule has both `types` and `protocols`\n  help: make it two rules"]
    );
    let with =
        |rule: &str| said(GOOD.replace("      bpfRawRules:\n", &format!("      bpfRawRules:\n{rule}")));
    assert_eq!(
        with("        ptrace: {qualifiers: [], permissions: [trace]}\n"),
        [
            "web.yaml:20:30: error: `qualifiers` is empty: the rule would have no effect\n  help: name at least one"
        ]
    );
    assert_eq!(
        with("        mounts: [{qualifiers: [deny], sourcePattern: '**', fstype: proc, flags: [bindd]}]\n"),
        ["web.yaml:20:82: error: `bindd` is not known in `flags`\n  help: did you mean `bind`?"]
    );
}

#[test]
fn names_that_kubernetes_refuses_are_refused() {
    check(
        "name: web",
        "name: Web/1",
        &[
            "web.yaml:4:9: error: `Web/1` cannot be the name of an object\n  help: use up to 253 lower-case letters, digits \
           and `-`, with a letter or digit at both ends",
        ],
    );
    let long = "w".repeat(60);
    let expected = format!(
        "web.yaml:4:9: error: the name of the profile, `varmor-demo-{}...` (72 bytes), has 72 bytes; the limit is 63\n  \
         help: shorten the name of the policy by 9 bytes",
        "w".repeat(48)
    );
    check("name: web", &format!("name: {long}"), &[&expected]);
}

#[test]
fn all_problems_of_a_file_are_reported_at_once() {
    let text = GOOD
        .replace("mode: EnhanceProtect", "mode: Enhance")
        .replace("disable-write-etc", "disable-write-tec")
        .replace("port: 80", "port: 70000")
        .replace("kind: Pod", "knid: Pod");
    let text = format!(
        "{text}---\n{}",
        GOOD.replace("VarmorPolicy", "VarmorPolice")
            .replace("name: web", "name: two")
    );
    let places: Vec<String> = said(text)
        .iter()
        .map(|line| line.split(" error").next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        places,
        [
            "web.yaml:8:5:",
            "web.yaml:8:5:",
            "web.yaml:14:11:",
            "web.yaml:18:17:",
            "web.yaml:30:23:",
            "web.yaml:33:7:"
        ]
    );
}

#[test]
fn a_syntax_error_keeps_what_was_found_before_it() {
    let text = format!("{GOOD}---\nkind: [\n");
    let loaded = super::load("web.yaml", text.as_bytes());
    assert_eq!(loaded.documents.len(), 1, "the first document is valid by itself");
    assert!(loaded.has_errors());
    for (text, place) in [
        ("a: b\n\tc: d\n", "1:4"),
        ("spec:\n\tpolicy: x\n", "2:2"),
        ("a:\n  b: 'x\n", "2:6"),
    ] {
        let said = said(text);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with(&format!("web.yaml:{place}: error: this is not YAML: ")),
            "{said:?}"
        );
        assert_eq!(
            said[0].contains("indent with spaces"),
            text.contains('\t'),
            "{said:?}"
        );
    }
}

#[test]
fn objects_of_others_are_skipped_and_misspelt_ones_are_not() {
    assert_eq!(
        said("apiVersion: apps/v1\nkind: Deployment\n"),
        [
            "web.yaml:2:7: warning: the object of kind `Deployment` is skipped: it is not varmor's\n  \
          help: keep policies in files of their own"
        ]
    );
    check(
        "crd.varmor.org/v1beta1",
        "crd.varmor.org/v1",
        &[
            "web.yaml:1:13: error: `crd.varmor.org/v1` is not an API version of this kind\n  help: write \
           `crd.varmor.org/v1beta1`",
        ],
    );
    check(
        "kind: VarmorPolicy",
        "kind: VarmorClusterPolicy",
        &[
            "web.yaml:5:3: error: a VarmorClusterPolicy belongs to no namespace\n  help: remove the namespace, or make it a \
           VarmorPolicy",
        ],
    );
    assert_eq!(
        said("# nothing\n"),
        ["web.yaml:1:1: warning: the file holds no policy\n  help: add a document with `kind: VarmorPolicy`"]
    );
}
