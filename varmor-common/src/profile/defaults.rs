//! What an allow-list profile does with operations that no rule allows.

use super::{Origin, Verdict};

/// The rule id of events that the default decided.
pub const DEFAULT_RULE: &str = "default-deny";

/// Kinds of operations as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(pub u32);

impl Kinds {
    pub const NONE: Self = Self(0);
    /// Reading, writing and appending of files, and everything that changes a file or its name.
    pub const FILES: Self = Self(1);
    pub const EXEC: Self = Self(1 << 1);
    pub const CAPABILITIES: Self = Self(1 << 2);
    /// Creating sockets.
    pub const SOCKETS: Self = Self(1 << 3);
    /// Connections and datagrams to others.
    pub const EGRESS: Self = Self(1 << 4);
    /// Listening, binding and accepting.
    pub const INGRESS: Self = Self(1 << 5);
    pub const MOUNTS: Self = Self(1 << 6);
    pub const PTRACE: Self = Self(1 << 7);
    pub const ALL: Self = Self((1 << 8) - 1);

    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Every kind of the set alone.
    pub fn each(self) -> impl Iterator<Item = Self> {
        (0..u32::BITS)
            .map(|bit| Self(1 << bit))
            .filter(move |kind| kind.meets(self))
    }

    /// Whether the sets share a kind.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What happens to operations that no rule allows. Kinds that are in neither set are allowed, as in a deny-list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    pub denied: Kinds,
    /// Allowed, and logged: what a complaining allow-list becomes beside a profile that refuses.
    pub audited: Kinds,
    /// Where the allow-list was asked for.
    pub origin: Origin,
}

impl Defaults {
    /// The verdict on operations of these kinds that no rule allows; `None` = allowed.
    #[must_use]
    pub const fn verdict(&self, kinds: Kinds) -> Option<Verdict> {
        if self.denied.meets(kinds) {
            Some(Verdict::Deny)
        } else if self.audited.meets(kinds) {
            Some(Verdict::Audit)
        } else {
            None
        }
    }

    /// The kinds that need an allowing rule.
    #[must_use]
    pub const fn kinds(&self) -> Kinds {
        self.denied.with(self.audited)
    }
}
