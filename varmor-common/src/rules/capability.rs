//! Rules about capabilities, and the kernel's names for them.

use super::{APPARMOR_BPF, AppArmor, Bpf, BuiltinRule, Category, Contribution};
use crate::profile::{Access, CapabilitySet};

/// The names of the capabilities without `CAP_`, in the order of their numbers.
pub const CAPABILITY_NAMES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// Every capability that has a name.
pub const ALL_CAPABILITIES: CapabilitySet = CapabilitySet((1 << CAPABILITY_NAMES.len()) - 1);

/// The name of a capability number.
#[must_use]
pub fn capability_name(number: u32) -> Option<&'static str> {
    CAPABILITY_NAMES.get(number as usize).copied()
}

pub(super) const SYS_MODULE: u64 = 1 << 16;
pub(super) const SYS_ADMIN: u64 = 1 << 21;
pub(super) const BPF: u64 = 1 << 39;
const NET_BIND_SERVICE: u64 = 1 << 10;

/// What container runtimes leave to an ordinary container.
const RUNTIME_DEFAULTS: u64 = bits(&[0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31]);

/// The files through which AppArmor's policy is changed. Some kernels do not ask the other security modules about
/// `CAP_MAC_ADMIN` there (`policy_ns_capable` calls `cap_capable` itself), so every rule that refuses it refuses them too.
const APPARMOR_POLICY: Contribution = Contribution::Path(
    "/sys/kernel/security/apparmor/{.load,.replace,.remove,policy/**}",
    Access::WRITE,
);

/// The rule about one capability.
macro_rules! one {
    ($word:literal, $name:literal, $number:literal $(, $more:expr)?) => {
        BuiltinRule {
            id: concat!("disable-cap-", $word),
            aliases: &[],
            category: Category::DisablingCapabilities,
            description: concat!("refuses the use of ", $name),
            enforcers: APPARMOR_BPF,
            bpf: Bpf::Contributes(&[Contribution::Capabilities(CapabilitySet(1 << $number)) $(, $more)?]),
            app_armor: AppArmor::AsBpf,
        }
    };
}

pub(super) const RULES: &[BuiltinRule] = &[
    BuiltinRule {
        id: "disable-cap-all",
        aliases: &[],
        category: Category::DisablingCapabilities,
        description: "refuses the use of every capability",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Capabilities(ALL_CAPABILITIES), APPARMOR_POLICY]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disable-cap-all-except-net-bind-service",
        aliases: &[],
        category: Category::DisablingCapabilities,
        description: "refuses the use of every capability but CAP_NET_BIND_SERVICE",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[
            Contribution::Capabilities(CapabilitySet(ALL_CAPABILITIES.0 & !NET_BIND_SERVICE)),
            APPARMOR_POLICY,
        ]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "disable-cap-privileged",
        aliases: &["disable-cap-privilege"],
        category: Category::DisablingCapabilities,
        description: "refuses the use of the capabilities that only privileged containers have",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[
            Contribution::Capabilities(CapabilitySet(ALL_CAPABILITIES.0 & !RUNTIME_DEFAULTS)),
            APPARMOR_POLICY,
        ]),
        app_armor: AppArmor::AsBpf,
    },
    one!("chown", "CAP_CHOWN", 0),
    one!("dac-override", "CAP_DAC_OVERRIDE", 1),
    one!("dac-read-search", "CAP_DAC_READ_SEARCH", 2),
    one!("fowner", "CAP_FOWNER", 3),
    one!("fsetid", "CAP_FSETID", 4),
    one!("kill", "CAP_KILL", 5),
    one!("setgid", "CAP_SETGID", 6),
    one!("setuid", "CAP_SETUID", 7),
    one!("setpcap", "CAP_SETPCAP", 8),
    one!("linux-immutable", "CAP_LINUX_IMMUTABLE", 9),
    one!("net-bind-service", "CAP_NET_BIND_SERVICE", 10),
    one!("net-broadcast", "CAP_NET_BROADCAST", 11),
    one!("net-admin", "CAP_NET_ADMIN", 12),
    one!("net-raw", "CAP_NET_RAW", 13),
    one!("ipc-lock", "CAP_IPC_LOCK", 14),
    one!("ipc-owner", "CAP_IPC_OWNER", 15),
    one!("sys-module", "CAP_SYS_MODULE", 16),
    one!("sys-rawio", "CAP_SYS_RAWIO", 17),
    one!("sys-chroot", "CAP_SYS_CHROOT", 18),
    one!("sys-ptrace", "CAP_SYS_PTRACE", 19),
    one!("sys-pacct", "CAP_SYS_PACCT", 20),
    one!("sys-admin", "CAP_SYS_ADMIN", 21),
    one!("sys-boot", "CAP_SYS_BOOT", 22),
    one!("sys-nice", "CAP_SYS_NICE", 23),
    one!("sys-resource", "CAP_SYS_RESOURCE", 24),
    one!("sys-time", "CAP_SYS_TIME", 25),
    one!("sys-tty-config", "CAP_SYS_TTY_CONFIG", 26),
    one!("mknod", "CAP_MKNOD", 27),
    one!("lease", "CAP_LEASE", 28),
    one!("audit-write", "CAP_AUDIT_WRITE", 29),
    one!("audit-control", "CAP_AUDIT_CONTROL", 30),
    one!("setfcap", "CAP_SETFCAP", 31),
    one!("mac-override", "CAP_MAC_OVERRIDE", 32),
    one!("mac-admin", "CAP_MAC_ADMIN", 33, APPARMOR_POLICY),
    one!("syslog", "CAP_SYSLOG", 34),
    one!("wake-alarm", "CAP_WAKE_ALARM", 35),
    one!("block-suspend", "CAP_BLOCK_SUSPEND", 36),
    one!("audit-read", "CAP_AUDIT_READ", 37),
    one!("perfmon", "CAP_PERFMON", 38),
    one!("bpf", "CAP_BPF", 39),
    one!("checkpoint-restore", "CAP_CHECKPOINT_RESTORE", 40),
];

const fn bits(numbers: &[u32]) -> u64 {
    let mut set = 0;
    let mut index = 0;
    while index < numbers.len() {
        set |= 1 << numbers[index];
        index += 1;
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC_ADMIN: u32 = 33;

    fn capabilities(id: &str) -> u64 {
        match crate::rules::find(id).map(|rule| rule.bpf) {
            Some(Bpf::Contributes([Contribution::Capabilities(set), more @ ..])) => {
                let asks_for_it = set.0 & 1 << MAC_ADMIN != 0;
                let has_files = matches!(more, [Contribution::Path(..)]);
                assert_eq!(
                    (has_files, more.len()),
                    (asks_for_it, usize::from(asks_for_it)),
                    "{id}"
                );
                set.0
            }
            other => panic!("{id}: {other:?}"),
        }
    }

    #[test]
    fn the_sets_are_those_of_varmor() {
        assert_eq!(capabilities("disable-cap-all"), 0x1ff_ffff_ffff);
        assert_eq!(
            capabilities("disable-cap-all-except-net-bind-service"),
            0x1ff_ffff_fbff
        );
        assert_eq!(capabilities("disable-cap-privileged"), 0x1ff_57fb_da04);
    }

    #[test]
    fn every_single_rule_names_the_bit_of_its_capability() {
        for (number, name) in CAPABILITY_NAMES.iter().enumerate() {
            let id = format!("disable-cap-{}", name.replace('_', "-"));
            assert_eq!(capabilities(&id), 1 << number, "{id}");
        }
    }
}
