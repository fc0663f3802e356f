//! The seccomp part of the OCI runtime specification, which runtimes read from the kubelet's folder.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A filter: what happens at each system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OciSeccomp {
    pub default_action: Action,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_errno_ret: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<Architecture>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub syscalls: Vec<Syscalls>,
}

impl OciSeccomp {
    /// The filter that stops nothing.
    #[must_use]
    pub fn allow_all() -> Self {
        Self {
            default_action: Action::Allow,
            default_errno_ret: None,
            architectures: Vec::new(),
            flags: Vec::new(),
            syscalls: Vec::new(),
        }
    }
}

/// One rule of a filter. All conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Syscalls {
    pub names: Vec<String>,
    pub action: Action,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno_ret: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<Condition>,
}

/// A condition on an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    pub index: u32,
    /// The operand, or the mask of `SCMP_CMP_MASKED_EQ`.
    pub value: u64,
    /// What the masked argument must be.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub value_two: u64,
    pub op: Comparison,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// What happens at a system call. User-space notification and tracing need a partner that nobody starts here, so
/// profiles cannot ask for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    #[serde(rename = "SCMP_ACT_ALLOW")]
    Allow,
    #[serde(rename = "SCMP_ACT_LOG")]
    Log,
    #[serde(rename = "SCMP_ACT_ERRNO")]
    Errno,
    #[serde(rename = "SCMP_ACT_TRAP")]
    Trap,
    #[serde(rename = "SCMP_ACT_KILL_THREAD", alias = "SCMP_ACT_KILL")]
    KillThread,
    #[serde(rename = "SCMP_ACT_KILL_PROCESS")]
    KillProcess,
}

impl Action {
    /// The system call is carried out.
    #[must_use]
    pub const fn permits(self) -> bool {
        matches!(self, Self::Allow | Self::Log)
    }
}

/// How an argument is compared; all 64 bits, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Comparison {
    #[serde(rename = "SCMP_CMP_NE")]
    NotEqual,
    #[serde(rename = "SCMP_CMP_LT")]
    Less,
    #[serde(rename = "SCMP_CMP_LE")]
    LessOrEqual,
    #[serde(rename = "SCMP_CMP_EQ")]
    Equal,
    #[serde(rename = "SCMP_CMP_GE")]
    GreaterOrEqual,
    #[serde(rename = "SCMP_CMP_GT")]
    Greater,
    #[serde(rename = "SCMP_CMP_MASKED_EQ")]
    MaskedEqual,
}

/// Architectures that varmor runs on, with the 32-bit ones that their kernels serve as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Architecture {
    #[serde(rename = "SCMP_ARCH_X86_64")]
    X86_64,
    #[serde(rename = "SCMP_ARCH_X86")]
    X86,
    #[serde(rename = "SCMP_ARCH_X32")]
    X32,
    #[serde(rename = "SCMP_ARCH_AARCH64")]
    Aarch64,
    #[serde(rename = "SCMP_ARCH_ARM")]
    Arm,
}

/// Options of seccomp(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Flag {
    #[serde(rename = "SECCOMP_FILTER_FLAG_TSYNC")]
    Tsync,
    /// Everything that is not allowed is written to the kernel's audit log.
    #[serde(rename = "SECCOMP_FILTER_FLAG_LOG")]
    Log,
    #[serde(rename = "SECCOMP_FILTER_FLAG_SPEC_ALLOW")]
    SpecAllow,
}

impl Condition {
    /// The condition `argument & mask == value`.
    #[must_use]
    pub const fn masked(index: u32, mask: u64, value: u64) -> Self {
        Self {
            index,
            value: mask,
            value_two: value,
            op: Comparison::MaskedEqual,
        }
    }

    #[must_use]
    pub const fn holds(&self, argument: u64) -> bool {
        match self.op {
            Comparison::NotEqual => argument != self.value,
            Comparison::Less => argument < self.value,
            Comparison::LessOrEqual => argument <= self.value,
            Comparison::Equal => argument == self.value,
            Comparison::GreaterOrEqual => argument >= self.value,
            Comparison::Greater => argument > self.value,
            Comparison::MaskedEqual => argument & self.value == self.value_two,
        }
    }

    /// Tells that no argument meets both conditions. `false` may be wrong, `true` is not.
    #[must_use]
    pub fn excludes(&self, other: &Self) -> bool {
        if self.index != other.index {
            return false;
        }
        match (self.bits(), other.bits()) {
            (Some((mask, value)), Some((other_mask, other_value))) => {
                (value ^ other_value) & mask & other_mask != 0
            }
            (Some((u64::MAX, value)), None) => !other.holds(value),
            (None, Some((u64::MAX, value))) => !self.holds(value),
            _ => {
                let (low, high) = self.range();
                let (other_low, other_high) = other.range();
                high < other_low || other_high < low
            }
        }
    }

    /// Mask and value, for the comparisons that have them.
    const fn bits(&self) -> Option<(u64, u64)> {
        match self.op {
            Comparison::Equal => Some((u64::MAX, self.value)),
            Comparison::MaskedEqual => Some((self.value, self.value_two)),
            _ => None,
        }
    }

    /// The least and the greatest argument that may meet the condition.
    const fn range(&self) -> (u64, u64) {
        match self.op {
            Comparison::Less => (0, self.value.saturating_sub(1)),
            Comparison::LessOrEqual => (0, self.value),
            Comparison::GreaterOrEqual => (self.value, u64::MAX),
            Comparison::Greater => (self.value.saturating_add(1), u64::MAX),
            Comparison::Equal => (self.value, self.value),
            Comparison::NotEqual | Comparison::MaskedEqual => (0, u64::MAX),
        }
    }
}

impl Architecture {
    /// Everything that a kernel of this build's machine executes. What a filter does not name is a way around it.
    pub const HERE: &'static [Self] = if cfg!(target_arch = "aarch64") {
        Self::ARM_MACHINE
    } else {
        Self::X86_MACHINE
    };
    pub const X86_MACHINE: &'static [Self] = &[Self::X86_64, Self::X86, Self::X32];
    pub const ARM_MACHINE: &'static [Self] = &[Self::Aarch64, Self::Arm];
}

impl OciSeccomp {
    /// How often something is said about a system call.
    #[must_use]
    pub fn rules(&self) -> usize {
        self.syscalls.iter().map(|rule| rule.names.len()).sum()
    }

    /// The text of the profile file: the same bytes for the same filter.
    ///
    /// # Panics
    /// Never: every value has a JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("every value has a JSON form") + "\n"
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Reads a word by serde's names, so that each word is written once.
macro_rules! from_words {
    ($($type:ty),*) => {
        $(impl FromStr for $type {
            type Err = serde::de::value::Error;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                use serde::de::IntoDeserializer as _;
                Self::deserialize(word.into_deserializer())
            }
        })*
    };
}
from_words!(Action, Comparison, Architecture, Flag);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_that_exclude_each_other_share_no_argument() {
        let operators = [
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Equal,
            Comparison::GreaterOrEqual,
            Comparison::Greater,
            Comparison::MaskedEqual,
        ];
        let mut all = Vec::new();
        for op in operators {
            for value in 0..8 {
                let two = if op == Comparison::MaskedEqual {
                    value & 5
                } else {
                    0
                };
                all.push(Condition {
                    index: 0,
                    value,
                    value_two: two,
                    op,
                });
            }
        }
        for first in &all {
            for second in &all {
                if first.excludes(second) {
                    assert!(
                        (0..=9).all(|argument| !(first.holds(argument) && second.holds(argument))),
                        "{first:?} {second:?}"
                    );
                }
            }
        }
        let (one, two) = (
            Condition::masked(0, 0xffff_ffff, 5),
            Condition::masked(0, 0xffff_ffff, 6),
        );
        assert!(one.excludes(&two) && !one.excludes(&one));
    }

    #[test]
    fn words_are_read_and_written_alike() {
        assert_eq!("SCMP_ACT_KILL".parse::<Action>(), Ok(Action::KillThread));
        assert_eq!(Action::Errno.to_string(), "SCMP_ACT_ERRNO");
        assert!("SCMP_ACT_ERNO".parse::<Action>().is_err());
        assert_eq!("SCMP_ARCH_X32".parse(), Ok(Architecture::X32));
    }

    #[test]
    fn an_empty_range_is_no_argument() {
        let never = Condition {
            index: 0,
            value: 0,
            value_two: 0,
            op: Comparison::Less,
        };
        assert!(!never.holds(0));
        let zero = Condition {
            op: Comparison::Equal,
            ..never
        };
        assert!(never.excludes(&zero));
    }
}
