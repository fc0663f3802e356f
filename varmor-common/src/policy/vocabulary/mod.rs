//! The words that raw rules are written with, and the kernel's numbers behind them.

mod mount;
mod socket;

pub use mount::{MountFlags, TYPELESS_CALLS, mount_flag, mount_flag_names};
pub use socket::{
    INTERNET_DOMAINS, af, domain, domain_names, domain_word, ipproto, protocol_names, protocols, sock,
    socket_type, type_names,
};

use crate::abi;
use crate::profile::CapabilitySet;
use crate::rules::{ALL_CAPABILITIES, CAPABILITY_NAMES};

/// The qualifiers of a raw rule.
pub const QUALIFIERS: [&str; 2] = ["deny", "audit"];
/// The qualifiers of a rule in an allow-list.
pub const ALLOW_QUALIFIERS: [&str; 3] = ["allow", "deny", "audit"];

/// File permissions by name, without `all`.
const PERMISSIONS: [(&str, u32); 8] = [
    ("read", abi::PERM_READ),
    ("r", abi::PERM_READ),
    ("write", abi::PERM_WRITE | abi::PERM_APPEND),
    ("w", abi::PERM_WRITE | abi::PERM_APPEND),
    ("append", abi::PERM_APPEND),
    ("a", abi::PERM_APPEND),
    ("exec", abi::PERM_EXEC),
    ("x", abi::PERM_EXEC),
];

const PTRACE: [(&str, u32); 4] = [
    ("trace", abi::PTRACE_TRACE),
    ("read", abi::PTRACE_READ),
    ("traceby", abi::PTRACE_TRACEBY),
    ("readby", abi::PTRACE_READBY),
];

/// Whether a word of any list means "every one".
#[must_use]
pub fn is_all(word: &str) -> bool {
    word == "*" || word.eq_ignore_ascii_case("all")
}

/// The permission bits of a word; `all` depends on the list that it stands in and is not known here.
#[must_use]
pub fn permission(word: &str) -> Option<u32> {
    lookup(&PERMISSIONS, word)
}

/// The long names of the permissions, for messages.
pub fn permission_names() -> impl Iterator<Item = &'static str> {
    PERMISSIONS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| name.len() > 1)
        .chain(["all"])
}

/// The ptrace permission bits of a word.
#[must_use]
pub fn ptrace_permission(word: &str) -> Option<u32> {
    if is_all(word) {
        Some(PTRACE.iter().fold(0, |all, (_, bit)| all | bit))
    } else {
        lookup(&PTRACE, word)
    }
}

/// The names of the ptrace permissions, for messages.
pub fn ptrace_names() -> impl Iterator<Item = &'static str> {
    PTRACE.iter().map(|(name, _)| *name).chain(["all"])
}

/// The capabilities of a word: a name with or without `cap_`, or `all`.
#[must_use]
pub fn capabilities(word: &str) -> Option<CapabilitySet> {
    if is_all(word) {
        return Some(ALL_CAPABILITIES);
    }
    let lower = word.to_ascii_lowercase().replace('-', "_");
    let name = lower.strip_prefix("cap_").unwrap_or(&lower);
    let number = CAPABILITY_NAMES.iter().position(|known| *known == name)?;
    Some(CapabilitySet(1 << number))
}

fn lookup(table: &[(&'static str, u32)], word: &str) -> Option<u32> {
    table
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word))
        .map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_includes_appending() {
        assert_eq!(permission("W"), Some(abi::PERM_WRITE | abi::PERM_APPEND));
        assert_eq!(permission("append"), Some(abi::PERM_APPEND));
        assert_eq!(permission("e"), None);
    }

    #[test]
    fn all_ptrace_permissions_are_0x1e() {
        assert_eq!(ptrace_permission("*"), Some(0x1e));
        assert_eq!(ptrace_permission("TraceBy"), Some(abi::PTRACE_TRACEBY));
    }
}
