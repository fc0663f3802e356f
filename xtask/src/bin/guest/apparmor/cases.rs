//! What is not about one built-in rule: modes, targets, raw rules, unusual names.

use std::fs;

use super::operations::{Done, host_name, mount_new, read, run, through, with_stranger, write};

/// A policy, and for each operation whether it works under it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) policy: &'static str,
    pub(super) expected: &'static [(&'static str, bool)],
}

/// A policy of a privileged container with this rule.
pub(super) fn policy_with_rule(rule: &str) -> String {
    let hardening = rule.starts_with("disallow-") || rule.starts_with("disable-cap-");
    let mitigation = rule.ends_with("-mitigation");
    let rules = match (hardening, mitigation) {
        (true, _) => format!("hardeningRules: [{rule}]"),
        (_, true) => format!("vulMitigationRules: [{rule}]"),
        _ => format!("attackProtectionRules: [{{rules: [{rule}]}}]"),
    };
    format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: test}}\nspec:\n  target: \
         {{kind: Pod, name: x}}\n  policy:\n    enforcer: AppArmor\n    mode: EnhanceProtect\n    enhanceProtect: \
         {{privileged: true, {rules}}}\n"
    )
}

macro_rules! policy {
    ($policy:literal) => {
        concat!(
            "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {name: test}\nspec:\n  target: ",
            "{kind: Pod, name: x}\n  policy:\n",
            $policy
        )
    };
}

type Operation = (&'static str, fn() -> Done);

const OPERATIONS: &[Operation] = &[
    ("write-sysrq", || write("/proc/sysrq-trigger")),
    ("write-modprobe", || write("/proc/sys/kernel/modprobe")),
    ("write-shmmax", || write("/proc/sys/kernel/shmmax")),
    ("write-uevent-helper", || write("/sys/kernel/mm/ksm/run")),
    ("read-modprobe", || read("/proc/sys/kernel/modprobe")),
    ("write-own-comm", || write("/proc/self/comm")),
    ("write-cgroup", || write("/sys/fs/cgroup/old/notify_on_release")),
    ("mount-tmpfs", || mount_new("tmpfs", "tmpfs")),
    ("signal-outside", || {
        Ok(nix::sys::signal::kill(nix::unistd::Pid::from_raw(1), None)?)
    }),
    ("signal-inside", || {
        with_stranger(|pid| Ok(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None)?))
    }),
    ("read-outside", || read("/proc/1/root/srv/file")),
    ("read-file", || read("/srv/file")),
    ("write-file", || write("/srv/file")),
    ("write-nobodys", || write("/srv/nobodys")),
    ("read-passwd", || read("/etc/passwd")),
    ("read-shadow", || read("/etc/shadow")),
    ("host-name", host_name),
    ("run-sh", || run("/tools/sh")),
    ("target-reads-shadow", || through("/tools/target", "read-shadow")),
    ("link-reads-shadow", || through("/tools/link", "read-shadow")),
    ("target-reads-file", || through("/tools/target", "read-file")),
    ("target-reads-passwd", || through("/tools/target", "read-passwd")),
    ("target-s-child-reads-shadow", || {
        through("/tools/target", "plain-reads-shadow")
    }),
    ("plain-reads-shadow", || through("/tools/plain", "read-shadow")),
    ("both-read-shadow", || {
        through("/tools/target", "other-reads-shadow")
    }),
    ("both-read-passwd", || {
        through("/tools/target", "other-reads-passwd")
    }),
    ("both-read-file", || through("/tools/target", "other-reads-file")),
    ("other-reads-shadow", || {
        through("/tools/other-target", "read-shadow")
    }),
    ("other-reads-passwd", || {
        through("/tools/other-target", "read-passwd")
    }),
    ("other-reads-file", || through("/tools/other-target", "read-file")),
    ("target-without-new-privileges", || {
        nix::sys::prctl::set_no_new_privs()?;
        through("/tools/target", "read-shadow")
    }),
    ("rename-etc", || {
        fs::rename("/etc", "/etc-2")?;
        Ok(fs::rename("/etc-2", "/etc")?)
    }),
    ("link-shadow", || {
        fs::hard_link("/etc/shadow", "/etc-shadow")?;
        let read = read("/etc-shadow");
        fs::remove_file("/etc-shadow")?;
        read
    }),
    ("odd-space", || read("/srv/odd/a b")),
    ("odd-brace", || read("/srv/odd/a{b}")),
    ("odd-comma", || read("/srv/odd/#a,b")),
    ("odd-letters", || read("/srv/odd/\u{fc}\u{f1}\u{ef}")),
    ("odd-quote", || read("/srv/odd/q\"q")),
    ("odd-plain", || read("/srv/odd/plain")),
];

pub(super) fn operation(name: &str) -> Option<fn() -> Done> {
    let found = OPERATIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, run)| *run)
}

pub(super) fn all() -> &'static [Case] {
    CASES
}

const CASES: &[Case] = &[
    Case {
        name: "AlwaysAllow allows",
        policy: policy!("    enforcer: AppArmor\n    mode: AlwaysAllow\n"),
        expected: &[
            ("write-sysrq", true),
            ("mount-tmpfs", true),
            ("signal-outside", true),
            ("host-name", true),
        ],
    },
    Case {
        name: "RuntimeDefault refuses what the runtimes refuse",
        policy: policy!("    enforcer: AppArmor\n    mode: RuntimeDefault\n"),
        expected: &[
            ("write-sysrq", false),
            ("write-modprobe", false),
            ("write-uevent-helper", false),
            ("mount-tmpfs", false),
            ("signal-outside", false),
            ("read-outside", false),
            ("read-modprobe", true),
            ("write-shmmax", true),
            ("write-own-comm", true),
            ("write-cgroup", true),
            ("signal-inside", true),
            ("host-name", true),
        ],
    },
    Case {
        name: "violations are allowed if the policy says so",
        policy: policy!(
            "    enforcer: AppArmor\n    mode: EnhanceProtect\n    enhanceProtect: {allowViolations: true, auditViolations: \
             true, hardeningRules: [disable-cap-sys-admin, disallow-mount], attackProtectionRules: [{rules: [disable-shell, \
             disable-access-shadow]}]}\n"
        ),
        expected: &[
            ("read-shadow", true),
            ("run-sh", true),
            ("mount-tmpfs", true),
            ("host-name", true),
        ],
    },
    Case {
        name: "targets get rules of their own, with their children and in any number",
        policy: policy!(
            "    enforcer: AppArmor\n    mode: EnhanceProtect\n    enhanceProtect:\n      privileged: true\n      \
             attackProtectionRules:\n      - {rules: [disable-access-shadow], targets: [/tools/target]}\n      - {rules: \
             [disable-access-passwd], targets: ['/tools/other-{target,nothing}']}\n"
        ),
        expected: &[
            ("read-shadow", true),
            ("plain-reads-shadow", true),
            ("target-reads-shadow", false),
            ("link-reads-shadow", false),
            ("target-s-child-reads-shadow", false),
            ("target-reads-file", true),
            ("target-reads-passwd", true),
            ("other-reads-shadow", true),
            ("other-reads-passwd", false),
            ("both-read-shadow", false),
            ("both-read-passwd", false),
            ("both-read-file", true),
            ("target-without-new-privileges", false),
        ],
    },
    Case {
        name: "a name is not another one's",
        policy: policy!(
            "    enforcer: AppArmor\n    mode: EnhanceProtect\n    enhanceProtect: {privileged: true, attackProtectionRules: \
             [{rules: [disable-access-shadow, disable-write-etc]}]}\n"
        ),
        expected: &[
            ("rename-etc", false),
            ("link-shadow", false),
            ("read-passwd", true),
        ],
    },
    Case {
        name: "raw rules hold for unusual names",
        policy: policy!(
            "    enforcer: AppArmor\n    mode: EnhanceProtect\n    enhanceProtect:\n      privileged: true\n      \
             appArmorRawRules:\n      - rules: |\n          deny \"/srv/odd/a b\" r, # a comment, with a comma\n          deny \
             /srv/odd/a\\{b\\} r,\n          audit deny /srv/odd/\\#a\\,b rw,\n          deny /srv/odd/\u{fc}* r,\n          \
             deny @{HOME}file w,\n"
        ),
        expected: &[
            ("odd-space", false),
            ("odd-brace", false),
            ("odd-comma", false),
            ("odd-letters", false),
            ("odd-plain", true),
            ("odd-quote", true),
        ],
    },
    Case {
        name: "DefenseInDepth refuses what the custom profile does not allow",
        policy: policy!(
            "    enforcer: AppArmor\n    mode: DefenseInDepth\n    defenseInDepth:\n      appArmor:\n        profileType: \
             Custom\n        customProfile: |\n          #include <tunables/global>\n          profile anything \
             flags=(attach_disconnected,mediate_deleted) {\n            #include <abstractions/base>\n            \
             /varmor-guest mrix,\n            /srv/file r,\n            @{PROC}/** r,\n          }\n"
        ),
        expected: &[
            ("read-file", true),
            ("write-file", false),
            ("read-shadow", false),
            ("run-sh", false),
            ("host-name", false),
            ("mount-tmpfs", false),
        ],
    },
    Case {
        name: "a complaining DefenseInDepth allows",
        policy: policy!(
            "    enforcer: AppArmor\n    mode: DefenseInDepth\n    defenseInDepth:\n      allowViolations: true\n      \
             appArmor: {profileType: Custom, customProfile: 'profile x { /varmor-guest mrix, }'}\n"
        ),
        expected: &[("read-file", true), ("read-shadow", true), ("host-name", true)],
    },
    Case {
        name: "AppArmor and BPF hold one policy together",
        policy: policy!(
            "    enforcer: AppArmorBPF\n    mode: EnhanceProtect\n    enhanceProtect:\n      privileged: true\n      \
             attackProtectionRules: [{rules: [disable-access-shadow]}]\n      appArmorRawRules: [{rules: 'deny /srv/file w,'}]\n      \
             bpfRawRules: {files: [{qualifiers: [deny], pattern: /srv/nobodys, permissions: [write]}]}\n"
        ),
        expected: &[
            ("read-shadow", false),
            ("write-file", false),
            ("write-nobodys", false),
            ("read-file", true),
        ],
    },
];
