//! The policies of the suite.

/// Files, programs, network, mounts and ptrace, by raw and built-in rules.
pub(super) const RULES: &str = "rules";
/// Every capability.
pub(super) const NO_CAPABILITY: &str = "no-capability";
/// A policy without rules.
pub(super) const NO_RULES: &str = "no-rules";
/// Writing one folder of a disk, and the upper layer of an overlay.
pub(super) const ATTRIBUTES: &str = "attributes";
/// The disks of the machine.
pub(super) const DEVICES: &str = "devices";
/// User namespaces.
pub(super) const NAMESPACES: &str = "namespaces";
/// Files, in a container that may mount.
pub(super) const ALIASES: &str = "aliases";
/// The mode's own rules.
pub(super) const RUNTIME_DEFAULT: &str = "runtime-default";

pub(super) const ALL: &[(&str, &str)] = &[
    (
        RULES,
        r#"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: rules, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disallow-mount, disallow-umount, disallow-write-core-pattern]
      attackProtectionRules:
      - rules: [disable-shell]
      bpfRawRules:
        files:
        - {qualifiers: [deny], pattern: "/prot/**", permissions: [all]}
        - {qualifiers: [deny], pattern: "/globs/*.key", permissions: [read]}
        - {qualifiers: [deny], pattern: "/globs/{one,two}/[a-c]?.pem", permissions: [read]}
        - {qualifiers: [deny], pattern: "/exact/file", permissions: [read]}
        - {qualifiers: [deny], pattern: "/readonly/**", permissions: [write]}
        processes:
        - {qualifiers: [deny], pattern: "/prog/tool", permissions: [exec]}
        network:
          sockets:
          - {qualifiers: [deny], domains: [packet]}
          - {qualifiers: [deny], domains: [inet], protocols: [icmp]}
          egress:
            toDestinations:
            - {qualifiers: [deny], ip: 10.1.2.3, ports: [{port: 80, endPort: 90}]}
            - {qualifiers: [deny], cidr: 10.9.0.0/16}
            - {qualifiers: [deny], ip: 127.0.0.1, ports: [{port: 81}]}
        ptrace: {qualifiers: [deny], strictMode: false, permissions: [trace, read]}
"#,
    ),
    (
        NO_CAPABILITY,
        r"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: no-capability, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disable-cap-all]
",
    ),
    (
        RUNTIME_DEFAULT,
        r"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorClusterPolicy
metadata: {name: runtime-default}
spec:
  target: {kind: Pod, name: any}
  policy: {enforcer: BPF, mode: RuntimeDefault}
",
    ),
    (
        NO_RULES,
        r"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: no-rules, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy: {enforcer: BPF, mode: AlwaysAllow}
",
    ),
    (
        ATTRIBUTES,
        r#"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: attributes, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      bpfRawRules:
        files:
        - {qualifiers: [deny], pattern: "/disk/ro/**", permissions: [write]}
        - {qualifiers: [deny], pattern: "/tmp/up/**", permissions: [write]}
"#,
    ),
    (
        DEVICES,
        r"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: devices, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disallow-debug-disk-device, disallow-mount-disk-device]
",
    ),
    (
        NAMESPACES,
        r"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: namespaces, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disallow-create-user-ns]
",
    ),
    (
        ALIASES,
        r#"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: aliases, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      hardeningRules: [disallow-mount-procfs]
      bpfRawRules:
        files:
        - {qualifiers: [deny], pattern: "/prot/**", permissions: [all]}
        - {qualifiers: [deny], pattern: "/disk/ro/**", permissions: [write]}
        - {qualifiers: [deny], pattern: "/mnt/vol/**", permissions: [read]}
"#,
    ),
];
