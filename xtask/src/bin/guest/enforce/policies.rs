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
/// No TCP and no UDP, by protocol.
pub(super) const NO_PROTOCOL: &str = "no-protocol";
/// No servers: no local address and port may be taken.
pub(super) const NO_SERVER: &str = "no-server";
/// The mode's own rules.
pub(super) const RUNTIME_DEFAULT: &str = "runtime-default";
/// Nothing but what rules allow.
pub(super) const ALLOW_LIST: &str = "allow-list";
/// The same, refusing nothing.
pub(super) const ALLOW_LIST_LOGGED: &str = "allow-list-logged";
/// Rules for single executables.
pub(super) const TARGETS: &str = "targets";

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
        - {qualifiers: [deny], pattern: "/socks/denied/**", permissions: [write]}
        - {qualifiers: [deny], pattern: "/socks/mounted.sock", permissions: [write]}
        - {qualifiers: [deny], pattern: "/socks/unread.sock", permissions: [read]}
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
            - {qualifiers: [deny], cidr: "fd00:aa::/64", ports: [{port: 80}]}
          ingresses:
          - {qualifiers: [deny], ip: 10.1.2.3, ports: [{port: 7000, endPort: 7010}]}
          - {qualifiers: [deny], cidr: 10.9.0.0/16, ports: [{port: 7500}]}
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
        NO_PROTOCOL,
        r"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: no-protocol, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      bpfRawRules:
        network:
          sockets:
          - {qualifiers: [deny], protocols: [tcp, udp]}
",
    ),
    (
        NO_SERVER,
        r"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: no-server, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      bpfRawRules:
        network:
          ingresses:
          - {qualifiers: [deny], ports: [{port: 1, endPort: 65535}]}
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
    (
        ALLOW_LIST,
        r#"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: allow-list, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy:
    enforcer: BPF
    mode: DefenseInDepth
    defenseInDepth:
      allowViolations: false
      bpf:
        profileType: Custom
        customProfile:
          processes:
          - {pattern: /varmor-guest, permissions: [exec]}
          - {pattern: "/allow/bin/**", permissions: [exec]}
          files:
          - {pattern: /varmor-guest, permissions: [read]}
          - {pattern: /dev/null, permissions: [read, write]}
          - {pattern: "/proc/**", permissions: [read]}
          - {pattern: "/allow/bin/**", permissions: [read, write]}
          - {pattern: "/allow/read/**", permissions: [read]}
          - {pattern: "/allow/data{,/**}", permissions: [read, write]}
          - {pattern: "/allow/flat/*", permissions: [read, write]}
          - {pattern: "/allow/log/*", permissions: [append]}
          - {pattern: "/allow/mnt{,/**}", permissions: [read, write]}
          network:
            sockets:
            - {domains: [inet], types: [stream]}
            egress:
              toDestinations:
              - {ip: 127.0.0.1, ports: [{port: 85}]}
          ptrace: {permissions: [all]}
          mounts:
          - {sourcePattern: "**", fstype: tmpfs, flags: [all]}
          - {sourcePattern: /allow/mnt, fstype: none, flags: [umount]}
          capabilities: [sys_admin]
"#,
    ),
    (
        ALLOW_LIST_LOGGED,
        r"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: allow-list-logged, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy:
    enforcer: BPF
    mode: DefenseInDepth
    defenseInDepth:
      allowViolations: true
      bpf:
        profileType: Custom
        customProfile:
          processes:
          - {pattern: /varmor-guest, permissions: [exec]}
          files:
          - {pattern: /dev/null, permissions: [read, write]}
",
    ),
    (
        TARGETS,
        r#"
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {name: targets, namespace: demo}
spec:
  target: {kind: Pod, name: any}
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      attackProtectionRules:
      - rules: [disable-write-etc]
        targets: [/targets/tool]
      - rules: [disable-shell]
        targets: ["/targets/snake*"]
"#,
    ),
];
