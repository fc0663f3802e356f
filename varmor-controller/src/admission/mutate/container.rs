//! The settings of one container.

use super::assign::Assigned;
use super::slots::Slots;
use super::{Facts, app_armor, bpf, seccomp};

/// An enforcer's answer to its part of a policy.
pub(super) enum Outcome {
    Protected,
    /// The container keeps what its owner wrote; the words say because of what.
    LeftAlone(String),
}

/// Applies what the container was assigned.
pub(super) fn protect(slots: &mut Slots<'_>, assigned: &Assigned, facts: &Facts, warnings: &mut Vec<String>) {
    let name = &assigned.name;
    let mut tell = |enforcer: &str, outcome: Outcome| {
        if let Outcome::LeftAlone(reason) = outcome {
            warnings.push(format!(
                "container {name} is not protected by {enforcer}: {reason}"
            ));
        }
    };
    if let Some(share) = &assigned.app_armor {
        tell("AppArmor", app_armor::apply(slots, name, share, facts));
    }
    if let Some(share) = &assigned.seccomp {
        tell("Seccomp", seccomp::apply(slots, name, share));
    }
    if let Some(share) = &assigned.bpf {
        tell("BPF", bpf::apply(slots, name, share));
    } else if assigned.left_out {
        bpf::leave_out(slots, name);
    }
}
