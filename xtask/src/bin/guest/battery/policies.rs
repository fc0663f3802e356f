//! The policies of the battery. Without `privileged` each would hold the rules of the mode RuntimeDefault besides,
//! which refuse half of what the cases try before it gets to the rule in question.

/// A policy file.
pub(super) struct Policy {
    pub(super) name: &'static str,
    pub(super) enforcer: &'static str,
    /// The policies in it, each as its `spec.policy` in YAML.
    pub(super) parts: &'static [&'static str],
}

/// Files, programs and destinations; what the attack-protection rules say. No capability, mount or ptrace rule.
pub(super) const RULES: &str = "rules";
/// The mode's own rules, and every capability.
pub(super) const NO_CAPABILITY: &str = "no-capability";
/// Some capabilities, for programs that have all of them.
pub(super) const SOME_CAPABILITIES: &str = "some-capabilities";
/// The mode's own rules, all mount rules, `core_pattern`; ptrace is audited by a raw rule besides.
pub(super) const RUNTIME: &str = "runtime";
/// Kinds of mounts one by one.
pub(super) const MOUNTS: &str = "mounts";
pub(super) const SOCKETS: &str = "sockets";
pub(super) const INGRESS: &str = "ingress";
pub(super) const HARDENING: &str = "hardening";
pub(super) const USER_NAMESPACES: &str = "user-namespaces";
pub(super) const ALLOW_LIST: &str = "allow-list";
pub(super) const TARGETS: &str = "targets";
/// More rules than other enforcers hold.
pub(super) const MANY: &str = "many";

/// Mounts by every call.
pub(super) const MOUNT_CALLS: &str = "mount-calls";
/// Built-in rules about system calls.
pub(super) const CALLS: &str = "calls";

const BPF: &str = "BPF";
const SECCOMP: &str = "Seccomp";

pub(super) const ALL: &[Policy] = &[
    Policy {
        name: RULES,
        enforcer: BPF,
        parts: &[r#"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      attackProtectionRules:
      - rules:
        - disable-shell
        - disable-curl
        - disable-access-shadow
        - disallow-metadata-service
        - block-access-to-container-runtime
      bpfRawRules:
        files:
        - {qualifiers: [deny], pattern: "/prot/**", permissions: [all]}
        - {qualifiers: [deny], pattern: "/vol/prot/**", permissions: [all]}
        - {qualifiers: [deny], pattern: "/vol/deep/er/prot/**", permissions: [all]}
        - {qualifiers: [deny], pattern: "/ro/**", permissions: [write]}
        - {qualifiers: [deny], pattern: "/vol/ro/**", permissions: [write]}
        - {qualifiers: [deny], pattern: "/exact/file", permissions: [read]}
        - {qualifiers: [deny], pattern: "/rdeny/**", permissions: [read]}
        processes:
        - {qualifiers: [deny], pattern: "/prog/**", permissions: [exec]}
        network:
          egress:
            toDestinations:
            - {qualifiers: [deny], ip: 10.1.2.3, ports: [{port: 80, endPort: 90}]}
            - {qualifiers: [deny], cidr: 10.9.0.0/16}
            - {qualifiers: [deny], ip: 127.0.0.1, ports: [{port: 81}]}
"#],
    },
    Policy {
        name: NO_CAPABILITY,
        enforcer: BPF,
        parts: &[
            "\n    mode: RuntimeDefault\n",
            r#"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disable-cap-all]
      bpfRawRules:
        files:
        - {qualifiers: [deny], pattern: "/prot/**", permissions: [read]}
        network:
          egress:
            toDestinations:
            - {qualifiers: [deny], ip: 10.1.2.3, ports: [{port: 80, endPort: 90}]}
"#,
        ],
    },
    Policy {
        name: SOME_CAPABILITIES,
        enforcer: BPF,
        parts: &[r"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disallow-insmod, disallow-abuse-user-ns, disable-cap-sys-admin]
"],
    },
    Policy {
        name: RUNTIME,
        enforcer: BPF,
        parts: &[
            "\n    mode: RuntimeDefault\n",
            r"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disallow-mount, disallow-umount, disallow-mount-procfs, disallow-write-core-pattern]
      attackProtectionRules:
      - rules: [mitigate-sa-leak]
      bpfRawRules:
        ptrace: {qualifiers: [audit], permissions: [trace, read]}
",
        ],
    },
    Policy {
        name: MOUNTS,
        enforcer: BPF,
        parts: &[r#"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disallow-mount-procfs, disallow-mount-securityfs, disallow-mount-cgroupfs]
      bpfRawRules:
        mounts:
        - {qualifiers: [deny], sourcePattern: "/vault{,/**}", fstype: none, flags: [all]}
"#],
    },
    Policy {
        name: SOCKETS,
        enforcer: BPF,
        parts: &[r"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      attackProtectionRules:
      - rules: [disable-tcp, disable-udp, disable-icmp]
      bpfRawRules:
        network:
          sockets:
          - {qualifiers: [deny], domains: [packet]}
"],
    },
    Policy {
        name: INGRESS,
        enforcer: BPF,
        parts: &[r"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      bpfRawRules:
        network:
          ingresses:
          - {qualifiers: [deny], ip: unspecified}
          - {qualifiers: [deny], ip: localhost, ports: [{port: 7000, endPort: 7999}]}
"],
    },
    Policy {
        name: HARDENING,
        enforcer: BPF,
        parts: &[r"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules:
      - disallow-write-core-pattern
      - disallow-mount-securityfs
      - disallow-mount-procfs
      - disallow-write-release-agent
      - disallow-mount-cgroupfs
      - disallow-debug-disk-device
      - disallow-mount-disk-device
      - disallow-mount
      - disallow-umount
      - disallow-insmod
      - disallow-load-bpf-prog
      - disallow-access-procfs-root
      - disallow-access-kallsyms
      - disallow-abuse-user-ns
"],
    },
    Policy {
        name: USER_NAMESPACES,
        enforcer: BPF,
        parts: &[r"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disallow-create-user-ns]
"],
    },
    Policy {
        name: ALLOW_LIST,
        enforcer: BPF,
        parts: &[r#"
    mode: DefenseInDepth
    defenseInDepth:
      bpf:
        profileType: Custom
        customProfile:
          files:
          - {pattern: "/{tmp,field,proc,dev,sys}/**", permissions: [read, write]}
          - {pattern: "/tools/**", permissions: [read]}
          - {pattern: "/prot/**", permissions: [read]}
          - {pattern: "/varmor-guest", permissions: [read]}
          processes:
          - {pattern: "/varmor-guest", permissions: [exec]}
          - {pattern: "/tools/other", permissions: [exec]}
          capabilities: [all]
"#],
    },
    Policy {
        name: TARGETS,
        enforcer: BPF,
        parts: &[r"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      attackProtectionRules:
      - rules: [disable-access-shadow]
        targets: [/tools/web]
"],
    },
    Policy {
        name: MOUNT_CALLS,
        enforcer: "BPFSeccomp",
        parts: &[r"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disallow-mount]
"],
    },
    Policy {
        name: CALLS,
        enforcer: SECCOMP,
        parts: &[r"
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disallow-load-all-bpf-prog, disallow-load-bpf-via-setsockopt]
      attackProtectionRules:
      - rules: [disable-chmod-x-bit]
      vulMitigationRules: [dirty-pipe-mitigation]
"],
    },
    Policy {
        name: MANY,
        enforcer: BPF,
        parts: &[],
    },
];

pub(super) fn find(name: &str) -> Option<&'static Policy> {
    ALL.iter().find(|policy| policy.name == name)
}

/// The file that `varmor run` takes.
pub(super) fn text(policy: &Policy) -> String {
    if policy.name == MANY {
        return many();
    }
    text_for(policy, policy.enforcer)
}

/// The part of a policy that a process takes on itself, if there is one: a filter of system calls is inherited, it
/// does not come with the cgroup.
pub(super) fn filter(name: &str) -> Option<String> {
    let policy = find(name).filter(|policy| policy.enforcer.contains(SECCOMP))?;
    Some(text_for(policy, SECCOMP))
}

fn text_for(policy: &Policy, enforcer: &str) -> String {
    let parts = policy.parts.iter().enumerate().map(|(number, part)| {
        document_for(
            enforcer,
            &format!("{}-{number}", policy.name),
            "{kind: Pod, name: any}",
            part,
        )
    });
    parts.collect()
}

/// One policy of the BPF enforcer as a document of a file.
pub(super) fn document(name: &str, target: &str, part: &str) -> String {
    document_for(BPF, name, target, part)
}

fn document_for(enforcer: &str, name: &str, target: &str, part: &str) -> String {
    format!(
        "---\napiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
         target: {target}\n  policy:\n    enforcer: {enforcer}{}",
        part.trim_end_matches(' ')
    )
}

/// A policy of 300 rules, the last of which protects.
fn many() -> String {
    let head = "\n    mode: EnhanceProtect\n    enhanceProtect:\n      bpfRawRules:\n        files:\n";
    let rule = |pattern: &str| {
        format!("        - {{qualifiers: [deny], pattern: \"{pattern}\", permissions: [all]}}\n")
    };
    let rules: String = (0..300)
        .map(|number| rule(&format!("/many/{number}/**")))
        .collect();
    let part = format!("{head}{rules}{}", rule("/prot/**"));
    document(MANY, "{kind: Pod, name: any}", &part)
}
