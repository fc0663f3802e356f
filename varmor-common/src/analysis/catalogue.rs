//! The built-in rules as people and programs read them.

use serde::Serialize;

use crate::compile::seccomp::Condition;
use crate::policy::Enforcers;
use crate::rules::syscalls::{self, Coverage, SyscallPart};
use crate::rules::{self, Bpf, BuiltinRule, Category, Contribution};

/// A built-in rule.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    pub id: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub aliases: &'static [&'static str],
    pub category: &'static str,
    /// The field of `enhanceProtect` that the rule belongs into.
    pub list: String,
    pub enforcers: Vec<&'static str>,
    pub description: &'static str,
}

/// What a rule contributes to each enforcer's profile.
#[derive(Clone, Debug, Serialize)]
pub struct Details {
    #[serde(flatten)]
    pub entry: Entry,
    /// Empty if the BPF enforcer cannot hold the rule.
    pub bpf: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bpf_unsupported: Option<&'static str>,
    pub seccomp: Vec<String>,
    /// What the Seccomp enforcer leaves to others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seccomp_limit: Option<&'static str>,
}

/// Every rule, in the order of the catalogue.
#[must_use]
pub fn entries() -> Vec<Entry> {
    rules::catalogue().map(entry).collect()
}

/// One rule by id or alias.
#[must_use]
pub fn details(id: &str) -> Option<Details> {
    let rule = rules::find(id)?;
    let (bpf, bpf_unsupported) = match rule.bpf {
        Bpf::Contributes(parts) => (parts.iter().map(contribution).collect(), None),
        Bpf::Unsupported(why) => (Vec::new(), Some(why)),
    };
    let seccomp = syscalls::find(rule.id);
    Some(Details {
        entry: entry(rule),
        bpf,
        bpf_unsupported,
        seccomp: seccomp.map_or_else(Vec::new, |rule| rule.parts.iter().map(part).collect()),
        seccomp_limit: seccomp.and_then(|rule| match rule.coverage {
            Coverage::Whole => None,
            Coverage::Supplement(limit) => Some(limit),
        }),
    })
}

/// The enforcers that can hold the rule.
#[must_use]
pub fn enforcers(rule: &BuiltinRule) -> Enforcers {
    match syscalls::find(rule.id) {
        Some(found) if found.coverage == Coverage::Whole => rule.enforcers.union(Enforcers::SECCOMP),
        _ => rule.enforcers,
    }
}

fn entry(rule: &BuiltinRule) -> Entry {
    Entry {
        id: rule.id,
        aliases: rule.aliases,
        category: category(rule.category),
        list: rule.category.list().to_string(),
        enforcers: enforcers(rule).names().collect(),
        description: rule.description,
    }
}

const fn category(category: Category) -> &'static str {
    match category {
        Category::SecuringPrivilegedContainers => "securing privileged containers",
        Category::DisablingCapabilities => "disabling capabilities",
        Category::BlockingExploitVectors => "blocking exploit vectors",
        Category::MitigatingInformationLeakage => "mitigating information leakage",
        Category::DisablingSensitiveOperations => "disabling sensitive operations",
        Category::OtherAttackProtection => "other attack protection",
        Category::VulnerabilityMitigation => "vulnerability mitigation",
    }
}

fn contribution(part: &Contribution) -> String {
    match part {
        Contribution::Path(pattern, access) => format!("{access} {pattern}"),
        Contribution::Capabilities(set) => {
            let names: Vec<&str> = (0..u64::BITS)
                .filter(|number| set.0 & (1 << number) != 0)
                .filter_map(rules::capability_name)
                .collect();
            format!("capabilities {}", names.join(", "))
        }
        Contribution::Socket(socket) => {
            format!(
                "sockets of domains {:?}, protocols {:?}",
                socket.domains, socket.protocols
            )
        }
        Contribution::Address(address) => format!("connections to {address}"),
        Contribution::Ptrace(rule) => format!("ptrace {:#x}, {:?}", rule.access.0, rule.scope),
        Contribution::Mount(mount) => format!(
            "mounts of {}, type {}, flags {:#x} or without {:#x}",
            mount.source,
            mount.fstype.unwrap_or("any"),
            mount.any,
            mount.none
        ),
        Contribution::DiskDevices(usage) => format!("disks of the node: {usage:?}"),
        Contribution::UserNamespace => "creating user namespaces".to_owned(),
        Contribution::Service { namespace, name } => format!("connections to the Service {namespace}/{name}"),
    }
}

fn part(part: &SyscallPart) -> String {
    let conditions: Vec<String> = part
        .when
        .iter()
        .map(|bits| describe(&Condition::masked(bits.index, bits.mask, bits.value)))
        .collect();
    let when = if conditions.is_empty() {
        String::new()
    } else {
        format!(" if {}", conditions.join(" and "))
    };
    let error = if part.errno == syscalls::NOT_IMPLEMENTED {
        "ENOSYS"
    } else {
        "EPERM"
    };
    format!("{}{when}: {error}", part.names.join(", "))
}

/// `argument 0 & 0x10000000 == 0x10000000`
#[must_use]
pub fn describe(condition: &Condition) -> String {
    use crate::compile::seccomp::Comparison;
    let Condition {
        index,
        value,
        value_two,
        op,
    } = condition;
    let sign = match op {
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Equal => "==",
        Comparison::GreaterOrEqual => ">=",
        Comparison::Greater => ">",
        Comparison::MaskedEqual => {
            return format!("argument {index} & {value:#x} == {value_two:#x}");
        }
    };
    format!("argument {index} {sign} {value:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_listed_and_shown() {
        let entries = entries();
        assert_eq!(entries.len(), rules::catalogue().count());
        for entry in entries {
            let details = details(entry.id).expect("listed");
            assert!(
                !entry.enforcers.is_empty() && !entry.description.is_empty(),
                "{}",
                entry.id
            );
            assert_eq!(
                details.bpf.is_empty(),
                details.bpf_unsupported.is_some(),
                "{}",
                entry.id
            );
        }
        assert!(details("disable-frobnication").is_none());
    }

    #[test]
    fn a_rule_is_found_by_alias_and_says_what_it_contributes() {
        let shown = details("DISALLOW_CREATE_USER_NS").expect("known");
        assert!(
            shown.seccomp.iter().any(|part| part == "clone3: ENOSYS"),
            "{:?}",
            shown.seccomp
        );
        assert_eq!(shown.bpf, ["creating user namespaces"]);
        assert_eq!(
            details("disallow-load-ebpf").expect("alias").entry.id,
            "disallow-load-bpf-prog"
        );
        assert_eq!(
            details("disallow-insmod").expect("known").entry.enforcers,
            ["AppArmor", "BPF", "Seccomp"]
        );
    }
}
