//! The compiler against the naive reference, through the kernel's own steps.

mod allow_list;
mod catalogue;
mod devices;
mod differential;
mod documented;
mod many;
mod mounts;
mod network;
mod network_scale;
mod random;
mod scale;
mod targets;
mod tasks;

use super::{Artefact, compile};
use crate::policy::Enforcers;
use crate::profile::{Access, Object, Origin, Profile, Rule, Verdict};

pub(super) const KEY: u64 = 0x5eed_0f0a_b007;

/// A rule without origin; its id is the text it is about.
pub(super) fn rule(id: &str, verdict: Verdict, object: Object) -> Rule {
    Rule {
        id: id.to_owned(),
        origin: Origin::default(),
        verdict,
        object,
        enforcers: Enforcers::BPF,
    }
}

pub(super) fn path_rule(verdict: Verdict, pattern: &str, access: Access) -> Rule {
    rule(
        pattern,
        verdict,
        Object::Path {
            pattern: pattern.to_owned(),
            access,
        },
    )
}

pub(super) fn profile(rules: Vec<Rule>) -> Profile {
    Profile {
        name: "varmor-demo-test".to_owned(),
        rules,
        ..Profile::default()
    }
}

pub(super) fn compiled(profile: &Profile) -> Artefact {
    compile(profile, KEY).unwrap_or_else(|error| panic!("{error}"))
}
