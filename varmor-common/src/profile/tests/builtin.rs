//! Built-in rules in profiles.

use super::{enhance, objects, profile, said};
use crate::rules::{self, Bpf, Contribution, RuleList};

fn with(id: &str) -> String {
    let list = rules::find(id)
        .unwrap_or_else(|| panic!("{id} is no rule"))
        .category
        .list();
    match list {
        RuleList::AttackProtection => enhance(&format!("attackProtectionRules: [{{rules: [{id}]}}]")),
        RuleList::Hardening | RuleList::VulnerabilityMitigation => enhance(&format!("{list}: [{id}]")),
    }
}

#[test]
fn every_rule_of_the_catalogue_has_an_effect_or_says_why_not() {
    for rule in rules::catalogue() {
        let policy = with(rule.id);
        let (profile, said) = (profile(&policy), said(&policy));
        let needs_cluster = match rule.bpf {
            Bpf::Contributes(parts) => parts
                .iter()
                .any(|part| matches!(part, Contribution::Service { .. })),
            Bpf::Unsupported(_) => true,
        };
        assert_eq!(profile.rules.is_empty(), needs_cluster, "{}", rule.id);
        assert_eq!(said.is_empty(), !needs_cluster, "{}: {said:?}", rule.id);
        assert!(profile.rules.iter().all(|one| one.id == rule.id), "{}", rule.id);
    }
}

#[test]
fn rules_contribute_what_the_catalogue_says() {
    for (id, expected) in [
        ("disable-write-etc", &["wa /etc/**"][..]),
        ("disable-access-ssh-dir", &["rwa /**/.ssh", "rwa /**/.ssh/**"]),
        ("disable-access-passwd", &["rwa /etc/passwd"]),
        ("disable-shell", &["x /**/sh", "x /**/bash", "x /**/dash"]),
        (
            "disable-cap-privilege",
            &[
                "cap 1ff57fbda04",
                "wa /sys/kernel/security/apparmor/{.load,.replace,.remove,policy/**}",
            ],
        ),
        ("disallow-load-ebpf", &["cap 8000200000"]),
        ("disallow-umount", &["mount ** * 200 0"]),
        ("disallow-mount", &["mount ** * 0 200"]),
        ("disallow-mount-securityfs", &["mount ** securityfs 0 200"]),
        (
            "disallow-mount-procfs",
            &["mount ** proc 0 200", "mount /proc{,/**} * 3220 0"],
        ),
        (
            "disallow-mount-cgroupfs",
            &[
                "mount ** cgroup 0 200",
                "mount ** cgroup2 0 200",
                "mount /sys{,/**} * 3220 0",
            ],
        ),
        (
            "disallow-debug-disk-device",
            &["device Block 254:0 7", "device Block 254:1 7"],
        ),
        ("disallow-create-user-ns", &["userns"]),
        ("disallow-abuse-user-ns", &["cap 200000", "userns"]),
        (
            "mitigate-disk-device-number-leak",
            &[
                "r /proc/partitions",
                "r /proc/**/mountinfo",
                "device Block 254:0 4",
                "device Block 254:1 4",
            ],
        ),
        (
            "disallow-mount-disk-device",
            &["device Block 254:0 8", "device Block 254:1 8"],
        ),
        ("disallow-access-procfs-root", &["ptrace 4 Outside"]),
        (
            "disallow-metadata-service",
            &[
                "egress 169.254.169.254/32",
                "egress fd00:ec2::254/128",
                "egress 100.96.0.96/32",
            ],
        ),
        ("disable-network", &["socket [] [] []"]),
        ("disable-icmp", &["socket [2, 10] [] [1, 58]"]),
        (
            "disable-tcp",
            &["socket [2, 10] [] [6, 262]", "socket [43] [] []"],
        ),
        ("copy-fail-mitigation", &["socket [38] [] []"]),
        (
            "cgroups-lxcfs-escape-mitigation",
            &[
                "wa /**/release_agent",
                "wa /**/devices.allow",
                "wa /**/cgroup.procs",
                "wa /**/devices/**/tasks",
            ],
        ),
    ] {
        assert_eq!(objects(&profile(&with(id))), expected, "{id}");
    }
}

#[test]
fn a_rule_knows_where_it_was_written() {
    let policy = enhance("attackProtectionRules: [{rules: [disable-wget, DISABLE_CURL]}]");
    let rule = &profile(&policy).rules[1];
    assert_eq!(rule.id, "disable-curl");
    assert_eq!(rule.origin.policy, "VarmorPolicy demo/web");
    assert_eq!(
        rule.origin.field,
        "spec.policy.enhanceProtect.attackProtectionRules[0].rules[1]"
    );
}

#[test]
fn a_rule_that_needs_a_cluster_says_so() {
    assert_eq!(
        said(&with("block-access-to-kube-apiserver")),
        [
            "p.yaml:11:40: warning: the rule `block-access-to-kube-apiserver` needs the addresses of the Service \
          default/kubernetes, which only a cluster knows; it has no effect\n  help: use \
          `bpfRawRules.network.egress.toDestinations` with the addresses"
        ]
    );
}
