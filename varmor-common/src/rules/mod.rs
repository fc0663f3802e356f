//! The built-in rules: one catalogue of data. A rule says what it is called, what it is for and what it contributes
//! to a profile; no rule has code of its own.

mod attack_protection;
mod capability;
mod contribution;
mod hardening;
mod information_leak;
mod others;
mod runtime_default;
pub mod syscalls;
mod vulnerability;

pub use capability::{ALL_CAPABILITIES, CAPABILITY_NAMES, capability_name};
pub use contribution::{AppArmor, Bpf, Contribution, DiskUse, MountPart, SocketPart};
pub use runtime_default::{RUNTIME_DEFAULT, RUNTIME_DEFAULT_ID};

use std::fmt;

use crate::policy::Enforcers;
use crate::policy::suggest::nearest;

/// One built-in rule.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinRule {
    /// Lower case, words joined by `-`.
    pub id: &'static str,
    /// Other spellings that policies in the wild use.
    pub aliases: &'static [&'static str],
    pub category: Category,
    pub description: &'static str,
    /// The enforcers that can hold the rule.
    pub enforcers: Enforcers,
    /// What the rule is to the BPF enforcer.
    pub bpf: Bpf,
    /// What the rule is to the `AppArmor` enforcer.
    pub app_armor: AppArmor,
}

/// What a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    SecuringPrivilegedContainers,
    DisablingCapabilities,
    BlockingExploitVectors,
    MitigatingInformationLeakage,
    DisablingSensitiveOperations,
    OtherAttackProtection,
    VulnerabilityMitigation,
}

/// The list of a policy that a rule belongs into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleList {
    Hardening,
    AttackProtection,
    VulnerabilityMitigation,
}

impl Category {
    /// The list of the policy that rules of this category belong into.
    #[must_use]
    pub const fn list(self) -> RuleList {
        match self {
            Self::SecuringPrivilegedContainers
            | Self::DisablingCapabilities
            | Self::BlockingExploitVectors => RuleList::Hardening,
            Self::MitigatingInformationLeakage
            | Self::DisablingSensitiveOperations
            | Self::OtherAttackProtection => RuleList::AttackProtection,
            Self::VulnerabilityMitigation => RuleList::VulnerabilityMitigation,
        }
    }
}

impl fmt::Display for RuleList {
    /// The field of `enhanceProtect`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hardening => "hardeningRules",
            Self::AttackProtection => "attackProtectionRules",
            Self::VulnerabilityMitigation => "vulMitigationRules",
        })
    }
}

/// Every built-in rule.
pub fn catalogue() -> impl Iterator<Item = &'static BuiltinRule> {
    [
        hardening::RULES,
        capability::RULES,
        information_leak::RULES,
        attack_protection::RULES,
        others::RULES,
        vulnerability::RULES,
    ]
    .into_iter()
    .flatten()
}

/// The rule with this id or alias. As in vArmor case does not count and `_` is `-`.
#[must_use]
pub fn find(id: &str) -> Option<&'static BuiltinRule> {
    let id = normalise(id);
    catalogue().find(|rule| rule.id == id || rule.aliases.contains(&id.as_str()))
}

/// The id that `id` was most likely meant to be.
#[must_use]
pub fn nearest_id(id: &str) -> Option<&'static str> {
    let ids = catalogue().flat_map(|rule| std::iter::once(rule.id).chain(rule.aliases.iter().copied()));
    nearest(&normalise(id), ids)
}

/// The spelling under which the catalogue holds an id.
#[must_use]
pub fn normalise(id: &str) -> String {
    id.to_ascii_lowercase().replace('_', "-")
}

/// Why `AppArmor` holds no rule about addresses.
const NO_ADDRESSES: &str =
    "AppArmor knows families and types of sockets but no addresses; use the BPF enforcer";
/// Why `AppArmor` holds no rule about single system calls.
const SYSCALL: &str = "the rule filters system calls; use the Seccomp enforcer";

/// The enforcers of most rules.
const APPARMOR_BPF: Enforcers = Enforcers::APPARMOR.union(Enforcers::BPF);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::matcher::Pattern;

    #[test]
    fn ids_and_aliases_are_unique_and_normalised() {
        let mut seen = BTreeSet::new();
        for rule in catalogue() {
            for id in std::iter::once(rule.id).chain(rule.aliases.iter().copied()) {
                assert!(seen.insert(id), "{id} twice");
                assert_eq!(normalise(id), id);
            }
        }
    }

    #[test]
    fn every_id_of_varmor_is_known() {
        let documented = "disallow-write-core-pattern disallow-mount-securityfs disallow-mount-procfs \
            disallow-write-release-agent disallow-mount-cgroupfs disallow-debug-disk-device disallow-mount-disk-device \
            disallow-mount disallow-umount disallow-insmod disallow-load-bpf-prog disallow-load-ebpf \
            disallow-access-procfs-root disallow-access-kallsyms disable-cap-all disable-cap-all-except-net-bind-service \
            disable-cap-privileged disable-cap-privilege disallow-abuse-user-ns disallow-create-user-ns \
            disallow-load-all-bpf-prog disallow-load-bpf-via-setsockopt disallow-userfaultfd-creation mitigate-sa-leak \
            mitigate-disk-device-number-leak mitigate-overlayfs-leak mitigate-host-ip-leak \
            block-access-to-metadata-service disallow-metadata-service block-access-to-aws-metadata-service \
            block-access-to-volc-metadata-service block-access-to-alibaba-metadata-service \
            block-access-to-oci-metadata-service disable-write-etc disable-access-passwd disable-access-shadow \
            disable-access-ssh-dir disable-write-skills disable-busybox disable-shell disable-wget disable-curl \
            disable-chmod disable-su-sudo disable-chmod-x-bit disable-chmod-s-bit disable-network disable-inet disable-ipv4 \
            disable-inet6 disable-ipv6 disable-unix-domain-socket disable-icmp disable-tcp disable-udp \
            block-access-to-kube-apiserver block-access-to-container-runtime cgroups-lxcfs-escape-mitigation \
            runc-override-mitigation dirty-pipe-mitigation ingress-nightmare-mitigation copy-fail-mitigation";
        for id in documented.split_whitespace() {
            assert!(find(id).is_some(), "{id}");
        }
        for (name, _) in CAPABILITY_NAMES.iter().zip(0..) {
            let id = format!("disable-cap-{}", name.replace('_', "-"));
            assert!(find(&id).is_some(), "{id}");
            assert!(
                find(&id.to_uppercase().replace('-', "_")).is_some(),
                "{id} in upper case"
            );
        }
        assert!(find("disable-frobnication").is_none());
    }

    #[test]
    fn every_pattern_of_the_catalogue_is_valid() {
        let all = catalogue().filter_map(|rule| match rule.bpf {
            Bpf::Contributes(contributions) => Some((rule.id, contributions)),
            Bpf::Unsupported(_) => None,
        });
        for (id, contributions) in all.chain([(RUNTIME_DEFAULT_ID, RUNTIME_DEFAULT)]) {
            assert!(!contributions.is_empty(), "{id} contributes nothing");
            for contribution in contributions {
                let pattern = match contribution {
                    Contribution::Path(pattern, _) => *pattern,
                    Contribution::Mount(mount) => mount.source,
                    _ => continue,
                };
                assert!(Pattern::parse(pattern).is_ok(), "{id}: {pattern}");
            }
        }
    }

    #[test]
    fn a_rule_contributes_to_bpf_exactly_if_it_names_bpf() {
        for rule in catalogue() {
            let contributes = matches!(rule.bpf, Bpf::Contributes(_));
            assert_eq!(
                contributes,
                rule.enforcers.contains(Enforcers::BPF),
                "{}",
                rule.id
            );
        }
    }

    #[test]
    fn a_rule_contributes_to_apparmor_exactly_if_it_names_apparmor() {
        for rule in catalogue() {
            let contributes = !matches!(rule.app_armor, AppArmor::Unsupported(_));
            assert_eq!(
                contributes,
                rule.enforcers.contains(Enforcers::APPARMOR),
                "{}",
                rule.id
            );
            assert!(
                !contributes || matches!(rule.bpf, Bpf::Contributes(_)),
                "{}",
                rule.id
            );
        }
    }

    #[test]
    fn an_unknown_id_gets_the_nearest_known_one() {
        for (wrong, right) in [
            ("disable-write-ect", Some("disable-write-etc")),
            ("disable_shel", Some("disable-shell")),
            ("disallow-metadata-services", Some("disallow-metadata-service")),
            ("frobnicate-everything", None),
        ] {
            assert_eq!(nearest_id(wrong), right, "{wrong}");
        }
    }
}
