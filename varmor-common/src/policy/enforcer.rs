//! The enforcers that a policy names, and its mode.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The enforcers of a policy, written as one word: `BPF`, `AppArmorBPF`, `NetworkProxyBPFSeccomp`.
///
/// As in vArmor a name counts wherever it stands in the text and however it is capitalised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enforcers(u8);

impl Enforcers {
    pub const NONE: Self = Self(0);
    pub const APPARMOR: Self = Self(1);
    pub const BPF: Self = Self(1 << 1);
    pub const SECCOMP: Self = Self(1 << 2);
    pub const NETWORK_PROXY: Self = Self(1 << 3);

    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of the enforcers in this set, in the order in which vArmor writes them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES
            .into_iter()
            .filter(move |(_, one)| self.contains(*one))
            .map(|(name, _)| name)
    }

    /// What remains of `text` when the names of enforcers and separators are taken out.
    pub(super) fn unknown_part(text: &str) -> String {
        let mut rest = text.to_ascii_lowercase();
        for (name, _) in NAMES {
            rest = rest.replace(&name.to_ascii_lowercase(), " ");
        }
        rest.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// `NetworkProxy` first: that is how vArmor spells the combinations.
const NAMES: [(&str, Enforcers); 4] = [
    ("NetworkProxy", Enforcers::NETWORK_PROXY),
    ("AppArmor", Enforcers::APPARMOR),
    ("BPF", Enforcers::BPF),
    ("Seccomp", Enforcers::SECCOMP),
];

/// The text names no enforcer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no enforcer; use AppArmor, BPF, Seccomp, NetworkProxy or a combination such as AppArmorBPF"
)]
pub struct UnknownEnforcer(pub String);

impl FromStr for Enforcers {
    type Err = UnknownEnforcer;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.to_ascii_lowercase();
        let found = NAMES
            .into_iter()
            .filter(|(name, _)| lower.contains(&name.to_ascii_lowercase()))
            .fold(Self::NONE, |all, (_, one)| all.union(one));
        if found.is_empty() {
            Err(UnknownEnforcer(text.to_owned()))
        } else {
            Ok(found)
        }
    }
}

impl fmt::Display for Enforcers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.names().try_for_each(|name| f.write_str(name))
    }
}

impl Serialize for Enforcers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Enforcers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl JsonSchema for Enforcers {
    fn schema_name() -> Cow<'static, str> {
        "Enforcers".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "(?i)(apparmor|bpf|seccomp|networkproxy)",
        })
    }
}

/// What a policy does with its workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyMode {
    AlwaysAllow,
    RuntimeDefault,
    EnhanceProtect,
    BehaviorModeling,
    DefenseInDepth,
}

impl fmt::Display for PolicyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enforcers_are_found_in_any_order_and_case() {
        let both = Enforcers::APPARMOR.union(Enforcers::BPF);
        for (text, expected) in [
            ("BPF", Enforcers::BPF),
            ("bpf", Enforcers::BPF),
            ("AppArmorBPF", both),
            ("bpfAPPARMOR", both),
            ("BPF, AppArmor", both),
            (
                "NetworkProxyBPFSeccomp",
                Enforcers::NETWORK_PROXY
                    .union(Enforcers::BPF)
                    .union(Enforcers::SECCOMP),
            ),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert_eq!("ebp".parse::<Enforcers>(), Err(UnknownEnforcer("ebp".into())));
    }

    #[test]
    fn a_combination_is_written_as_varmor_spells_it() {
        let all = Enforcers::SECCOMP
            .union(Enforcers::BPF)
            .union(Enforcers::APPARMOR);
        assert_eq!(all.to_string(), "AppArmorBPFSeccomp");
        assert_eq!(
            "seccomp+bpf+networkproxy"
                .parse::<Enforcers>()
                .expect("names three")
                .to_string(),
            "NetworkProxyBPFSeccomp"
        );
    }

    #[test]
    fn words_that_are_no_enforcer_are_reported() {
        assert_eq!(Enforcers::unknown_part("AppArmr,BPF"), "apparmr");
        assert_eq!(Enforcers::unknown_part("AppArmor, BPF"), "");
    }
}
